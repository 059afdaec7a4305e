"""Standard output and error that a program can write to, whatever they are."""

import io
import os
import sys
from typing import Any


class _TakesAll(io.FileIO):
  """Standard error, which drops what the system does not take.

  The disk of a log may be full, or a terminal gone; to end a training, because
  nobody can be told how it gets on, would cost more than the lines do.
  """

  def write(self, content: Any, /) -> int:
    """Writes what it can; returns the number of all bytes.

    Raises:
      BrokenPipeError: If the reader of a pipe has gone, as `head` does.
    """
    try:
      written = super().write(content)
    except BrokenPipeError:
      raise
    except OSError:
      written = None
    # A pipe that does not wait takes a part, or nothing.
    return memoryview(content).nbytes if written is None else written


def prepare() -> None:
  """Makes the streams take all text, also where they are closed or full.

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
  # Not that of a test or a notebook.
  if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
    sys.stderr = io.TextIOWrapper(
      io.BufferedWriter(_TakesAll(sys.stderr.fileno(), "w", closefd=False)),
      encoding=sys.stderr.encoding,
      errors=sys.stderr.errors,
      line_buffering=True,
    )


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
