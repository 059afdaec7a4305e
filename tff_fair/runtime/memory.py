"""The memory that this program frees, which it keeps for the next round.

A round allocates and frees the same large tensors over and over. By default
glibc returns their memory to the kernel at once, and every reuse pays its page
faults again: measured, six times as many in a round of a small model. These
settings put even the largest tensors on the heap, and let few threads have a
heap of their own: memory that one thread frees serves the next one.
"""

import ctypes

from tff_fair.runtime import threads

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_M_ARENA_MAX = -8
_KEPT_AT_MOST = 2**30
_MOST_HEAPS = 4


def keep_freed() -> bool:
  """Keeps up to 1 GiB of freed memory; returns whether the allocator can."""
  mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
  if mallopt is None:
    return False
  return bool(
    mallopt(_M_MMAP_MAX, 0)
    and mallopt(_M_ARENA_MAX, min(threads.num_cores(), _MOST_HEAPS))
    and mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_MOST)
  )
