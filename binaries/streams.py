"""Standard output and error that a program can write to, whatever they are."""

import io
import os
import sys


def prepare() -> None:
  """Makes the streams take all text, also where they are closed.

  A terminal or a pipe of ASCII shows a "?" for a character that it lacks.
  """
  for number in range(3):
    try:
      os.fstat(number)
    except OSError:
      # It gets the number that is free, which no file of ours shall have.
      os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
  for name in ("stdout", "stderr"):
    if getattr(sys, name) is None:  # Python's mark of a closed stream.
      setattr(sys, name, open(os.devnull, "w", errors="replace"))  # noqa: SIM115
  if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(errors="replace")


def is_output_lost() -> bool:
  """Returns whether standard output takes no more text.

  The one way to know is to write a line: text that was lost is held nowhere.
  """
  try:
    print(flush=True)
  except OSError:
    return True
  return False


def discard_output() -> None:
  """Drops the rest of the output, which Python writes at its end."""
  os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
