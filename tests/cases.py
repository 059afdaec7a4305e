"""Many cases in one test: each failure is told with its case."""

import contextlib
from collections.abc import Iterator


class Cases:
  """Collects the failures of the cases that a test loops over.

  with Cases() as cases:
    for value in values:
      with cases.case(value):
        assert value > 0
  """

  def __init__(self) -> None:
    self._failures: list[str] = []
    self._number = 0

  def __enter__(self) -> "Cases":
    return self

  def __exit__(self, kind, *_) -> None:
    if kind is None:
      assert self._number, "There was no case."
      assert not self._failures, "\n\n".join(
        [f"{len(self._failures)} of {self._number} cases:", *self._failures]
      )

  @contextlib.contextmanager
  def case(self, *label: object) -> Iterator[None]:
    """Runs one case; a failed assertion is kept for the end."""
    self._number += 1
    try:
      yield
    except AssertionError as error:
      self._failures.append(f"{', '.join(map(str, label))}: {error}")
