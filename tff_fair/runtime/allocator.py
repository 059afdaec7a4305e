"""Tells glibc's allocator to keep the memory that a program frees.

States and updates pass through the program each round. By default glibc takes
blocks of this size from the kernel and returns them at once, and every reuse
pays its page faults again: a fifth of a round whose state is some megabytes.
"""

import ctypes

# From malloc.h; the first limit is the largest that glibc takes.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_ON_HEAP = 32 * 2**20
_KEPT_AT_MOST = 2**30


def keep_freed_memory() -> bool:
  """Keeps up to 1 GiB of what this process frees, in blocks up to 32 MiB.

  Returns:
    Whether the allocator is one that takes the setting, as glibc's does.
  """
  mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
  if mallopt is None:
    return False
  return bool(
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_ON_HEAP)
    and mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_MOST)
  )
