"""Tells glibc's allocator to keep the memory that a program frees.

States and updates pass through the program each round, copied several times on
their way. By default glibc takes blocks of this size from the kernel and
returns them at once, and every reuse pays its page faults again, a large part
of the time that a state of some megabytes takes. The worker gets its settings,
with more than one arena, from its environment.
"""

import ctypes

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_M_ARENA_MAX = -8
_KEPT_AT_MOST = 2**30


def keep_freed_memory() -> bool:
  """Makes this process keep up to 1 GiB of the memory that it frees.

  Threads that begin later take their memory from where the others have theirs:
  in an arena of its own, a thread would give large blocks back. So the earlier
  the better.

  Returns:
    Whether the allocator is one that takes the setting, as glibc's does.
  """
  mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
  if mallopt is None:
    return False
  return bool(
    mallopt(_M_MMAP_MAX, 0)
    and mallopt(_M_ARENA_MAX, 1)
    and mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_MOST)
  )
