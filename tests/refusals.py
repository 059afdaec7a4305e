"""Values and data that cannot be used: where the fault is, and the facts."""

import contextlib
import re
from collections.abc import Iterator

import pytest

from tasks.data_error import DataError
from tff_fair.declared import FieldError


@contextlib.contextmanager
def refused(
  place: object, *facts: object
) -> Iterator[pytest.ExceptionInfo[DataError]]:
  """Expects that the block raises a `DataError` of a place."""
  with pytest.raises(DataError) as caught:
    yield caught
  error = caught.value
  assert re.search(rf"{re.escape(str(place))}(,|$)", error.place), repr(error)
  _quotes(error, facts)


@contextlib.contextmanager
def rejected(
  field: str, *facts: object, **found: object
) -> Iterator[pytest.ExceptionInfo[FieldError]]:
  """Expects that the block raises a `FieldError` of a field."""
  with pytest.raises(FieldError) as caught:
    yield caught
  error = caught.value
  assert error.field == field, repr(error)
  assert {name: getattr(error, name) for name in found} == found
  _quotes(error, facts)


def _quotes(error: DataError | FieldError, facts: tuple[object, ...]) -> None:
  for fact in facts:
    assert str(fact) in error.problem, repr(error)
  assert "\n" not in str(error)
