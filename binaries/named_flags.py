"""Errors of the library, with the flags that they are about."""

import contextlib
from collections.abc import Iterator

from binaries.command_line import UsageError
from tff_fair import typed_values
from tff_fair.experiments.comparing.argument_error import ArgumentError
from tff_fair.experiments.errors import RunError


@contextlib.contextmanager
def of_arguments(words: str = "") -> Iterator[None]:
  """Names the flag of an argument.

  Args:
    words: The argument that words without a flag stand for.
  """
  try:
    yield
  except ArgumentError as error:
    name = error.argument
    # Words stand for the folders of runs.
    flag = "RUN" if name == words else f"--{name}"
    if error.value is not None:
      flag += f"={typed_values.text(error.value)}"
    raise UsageError(f"{flag}: {error.problem}") from error


@contextlib.contextmanager
def of_folder(flag: str) -> Iterator[None]:
  """Names the flag of a folder, whose errors begin with its path."""
  try:
    yield
  except RunError as error:
    raise UsageError(f"--{flag}={error}") from error
