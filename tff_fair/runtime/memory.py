"""Keeps the memory that this program frees, for the next round.

A round allocates and frees the same large tensors over and over. By default,
glibc returns their memory to the kernel at once, and every reuse causes page
faults again: we measured six times as many in a round of a small model. These
settings put even the largest tensors on the heap, and limit the number of
heaps, so that threads can reuse memory that another thread freed.
"""

import ctypes

from tff_fair.runtime import threads

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_M_ARENA_MAX = -8
_KEPT_AT_MOST = 2**30
_MOST_HEAPS = 4


def configure_allocator() -> bool:
  """Keeps up to 1 GiB of freed memory; returns whether the allocator agreed."""
  mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
  if mallopt is None:
    return False
  return bool(
    mallopt(_M_MMAP_MAX, 0)
    and mallopt(_M_ARENA_MAX, min(threads.num_cores(), _MOST_HEAPS))
    and mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_MOST)
  )
