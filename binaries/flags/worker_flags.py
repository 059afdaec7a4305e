"""Worker: where it listens, and how long it lives."""

import math
import re

from absl import flags

from binaries.command_line import UsageError

# These flags share names, not meanings, with those of other programs.
NAMESPACE = flags.FlagValues()

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

_PORT = flags.DEFINE_integer(
  "port",
  0,
  "The TCP port to listen on; 0 is a free one.",
  lower_bound=0,
  upper_bound=65535,
  flag_values=NAMESPACE,
)
_HOST = flags.DEFINE_string(
  "host",
  None,
  "The network address to listen on, such as that of a private network; "
  "0.0.0.0 is all of them. By default programs on this machine alone reach the "
  "worker. A program that reaches it can do all that you can: see "
  "docs/security.md.",
  flag_values=NAMESPACE,
)
_MEMORY_LIMIT = flags.DEFINE_string(
  "memory_limit",
  None,
  "The memory above which another worker takes the place of this one, as 4G or "
  "512M, between two calls where possible. By default there is no limit.",
  flag_values=NAMESPACE,
)
_END_WITH_PARENT = flags.DEFINE_boolean(
  "end_with_parent",
  True,
  "End when the process that started this program ends; --noend_with_parent "
  "goes on, as under nohup.",
  flag_values=NAMESPACE,
)


def port() -> int:
  """Returns the port to listen on; 0 is a free one."""
  return int(_PORT.value)


def host() -> str | None:
  """Returns the network address to listen on, if the user chose one.

  Raises:
    UsageError: If it is empty.
  """
  if _HOST.value is not None and not _HOST.value.strip():
    raise UsageError("--host: is empty; name an address or leave it out.")
  return _HOST.value


def memory_limit() -> int | None:
  """Returns the bytes that the worker may take, if there is a limit.

  Raises:
    UsageError: If the flag is no number of bytes.
  """
  if _MEMORY_LIMIT.value is None:
    return None
  text = _MEMORY_LIMIT.value.strip()
  match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
  found = 0.0
  if match is not None:
    found = float(match[1]) * _UNITS[match[2].upper()]
  if not 0 < found < math.inf:
    raise UsageError(
      f"--memory_limit={text}: expected a number of bytes, such as 4G or 512M."
    )
  return int(found)


def ends_with_parent() -> bool:
  """Returns whether to end when the process that started this one ends."""
  return bool(_END_WITH_PARENT.value)
