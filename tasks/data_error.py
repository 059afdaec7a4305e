"""The error for data that cannot be used."""

import contextlib
from collections.abc import Iterator

from tff_fair import escaping


class DataError(ValueError):
  """A task's data cannot be used; the one-line message names the place.

  Attributes:
    place: The file or folder, and the place in it, such as "data.csv, line 3".
    problem: What was found there, what was expected, and how to fix it.
    setting: The setting that locates the data: "data_dir", an option of the
      task, or "task" for a user's function.
  """

  def __init__(
    self, place: object, problem: str = "", *, setting: str = "data_dir"
  ) -> None:
    self.place = escaping.line(str(place))
    self.problem = escaping.line(problem)
    self.setting = setting
    super().__init__(": ".join(filter(None, (self.place, self.problem))))


@contextlib.contextmanager
def reporting_file_option() -> Iterator[None]:
  """Sets `setting` to "file" in a `DataError` that the block raises."""
  try:
    yield
  except DataError as error:
    error.setting = "file"
    raise


@contextlib.contextmanager
def reporting_unreadable(place: object) -> Iterator[None]:
  """Turns an `OSError` that the block raises into a `DataError` at `place`."""
  try:
    yield
  except OSError as error:
    reason = error.strerror or error
    raise DataError(place, f"cannot be read: {reason}.") from error
