"""Runs many cases in one test, or as parameters that mostly need long runs."""

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import pytest


def one_of_each(
  cases: Iterable[Any], kind: Callable[[Any], Hashable] = lambda _: None
) -> list[Any]:
  """Returns cases as parameters; all but the first of each kind are long."""
  found: set[Hashable] = set()
  parameters = []
  for case in cases:
    marks = [pytest.mark.long] if kind(case) in found else []
    found.add(kind(case))
    values = case if isinstance(case, tuple) else (case,)
    parameters.append(pytest.param(*values, marks=marks))
  return parameters


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
    """Runs one case; failed assertions are raised together at the end."""
    self._number += 1
    try:
      yield
    except AssertionError as error:
      self._failures.append(f"{', '.join(map(str, label))}: {error}")
