"""The error of data that cannot be used."""

import contextlib
from collections.abc import Iterator

from tff_fair import escaping


class DataError(ValueError):
  """A task's data cannot be used; the message, a line, names the place.

  Attributes:
    place: The file or the folder, and the place in it: "data.csv, line 3".
    problem: What was found there, what was expected, and how to mend it.
    setting: What says where the data is: "data_dir", "task" where a user's
      function says it, or an option of the task.
  """

  def __init__(
    self, place: object, problem: str = "", *, setting: str = "data_dir"
  ) -> None:
    self.place = escaping.line(str(place))
    self.problem = escaping.line(problem)
    self.setting = setting
    super().__init__(": ".join(filter(None, (self.place, self.problem))))


@contextlib.contextmanager
def named_by_file() -> Iterator[None]:
  """Blames the option `file` for a `DataError` within the context."""
  try:
    yield
  except DataError as error:
    error.setting = "file"
    raise


@contextlib.contextmanager
def reporting_unreadable(place: object) -> Iterator[None]:
  """Makes an error of the system a `DataError` of a file or folder to read."""
  try:
    yield
  except OSError as error:
    reason = error.strerror or error
    raise DataError(place, f"cannot be read: {reason}.") from error
