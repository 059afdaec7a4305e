import dataclasses
import re
from typing import Literal

import pytest

from tff_fair.experiments import declared


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  number: int = declared.positive_integer(3, "How many.", decides=False)
  limit: int | None = declared.positive_integer(None, "At most.")
  rate: float = declared.positive_number(0.1, "How fast.")
  share: float = declared.value(
    0.5, "How much.", expects="below 1", is_valid=lambda value: value < 1
  )
  kind: Literal["a", "b"] | None = declared.value(None, "Which.")
  plain: str = "not declared"


FIELDS = declared.fields_of(Settings)


def test_declared_fields_are_known_in_their_order():
  assert list(FIELDS) == ["number", "limit", "rate", "share", "kind"]
  assert FIELDS["number"].default == 3
  assert FIELDS["number"].meaning == "How many."
  assert [field.decides for field in FIELDS.values()] == [False, *[True] * 4]
  assert Settings().limit is None


def test_the_choices_are_those_of_its_type():
  assert FIELDS["kind"].choices == ("a", "b")
  assert FIELDS["rate"].choices == FIELDS["limit"].choices == ()


@pytest.mark.parametrize(
  ("name", "value", "checked"),
  [
    ("number", 1, 1),
    ("limit", None, None),
    ("rate", 2, 2.0),
    ("share", 0, 0.0),
  ],
)
def test_a_value_is_checked_to_its_type(name, value, checked):
  found = FIELDS[name].check(value)
  assert found == checked
  assert type(found) is type(checked)


@pytest.mark.parametrize(
  ("name", "value", "expected"),
  [
    ("number", 0, "a positive integer, found 0"),
    ("number", None, "a positive integer, found None"),
    ("number", True, "a positive integer, found True"),
    ("limit", 0, "a positive integer or none"),
    ("rate", float("inf"), "a positive, finite number (in float32), found inf"),
    ("share", 1.0, "below 1, found 1.0"),
    ("share", "0.5", "below 1, found '0.5'"),
  ],
)
def test_a_wrong_value_says_what_is_expected(name, value, expected):
  with pytest.raises(ValueError, match=re.escape(f"expected {expected}")):
    FIELDS[name].check(value)


@pytest.mark.parametrize(
  ("name", "text", "value"),
  [("number", "7", 7), ("limit", "none", None), ("rate", "1e-3", 0.001)],
)
def test_a_value_is_read_from_text(name, text, value):
  assert FIELDS[name].parse(text) == value


def test_a_text_of_the_type_may_be_read_and_not_valid():
  assert FIELDS["share"].read("2") == 2.0
  for text in ("2", "x", ""):
    with pytest.raises(ValueError, match="expected below 1"):
      FIELDS["share"].parse(text)
  with pytest.raises(ValueError, match="expected below 1"):
    FIELDS["share"].read("x")
