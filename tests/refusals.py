"""Contexts that expect an error, and check which place and facts it names."""

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
  """Expects a `DataError` about `place`, whose one line states all `facts`."""
  with pytest.raises(DataError) as caught:
    yield caught
  error = caught.value
  assert re.search(rf"{re.escape(str(place))}(,|$)", error.place), repr(error)
  _quotes(error, facts)


@contextlib.contextmanager
def rejected(
  field: str, *facts: object, **found: object
) -> Iterator[pytest.ExceptionInfo[FieldError]]:
  """Expects a `FieldError` about `field`, whose one line states all `facts`.

  `found` has the values of other attributes of the error.
  """
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
