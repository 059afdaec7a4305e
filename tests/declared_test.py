"""Tests of declared values: their checks, texts, fields and errors."""

import dataclasses
import inspect
import math
from typing import Any, Literal

import numpy as np
import pytest

from tests.refusals import rejected
from tff_fair import declared
from tff_fair.declared import FieldError

pytestmark = pytest.mark.pure


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(declared.Hyperparameters):
  """Declares a value of each type."""

  size: int = declared.required("The size.", minimum=1)
  rate: float = declared.value(
    0.5, "The rate.", minimum=0, exclude_minimum=True
  )
  share: float | None = declared.value(None, "The share.", minimum=0, maximum=1)
  steps: int = declared.value(3, "The steps.", minimum=1, maximum=9)
  fast: bool = declared.value(False, "Whether it is fast.")
  order: Literal["up", "down"] = declared.value("up", "The order.")
  label: str = declared.value("none", "The label.")
  note: str = "no hyperparameter"


DECLARED = declared.fields_of(Settings)


def test_fields_that_are_declared_are_the_hyperparameters():
  names = ("size", "rate", "share", "steps", "fast", "order", "label")
  assert tuple(DECLARED) == names
  assert [h.name for h in DECLARED.values() if h.is_required] == ["size"]
  assert DECLARED["share"].annotation == float | None
  assert DECLARED["rate"].default == 0.5
  assert DECLARED["rate"].meaning == "The rate."
  assert DECLARED["rate"].interval == "(0, inf)"
  assert DECLARED["share"].interval == "[0, 1]"
  assert DECLARED["fast"].interval == ""
  assert DECLARED["order"].choices == ("up", "down")
  assert DECLARED["rate"].choices == ()


def test_a_subclass_has_the_fields_of_its_base_first():
  @dataclasses.dataclass(frozen=True, kw_only=True)
  class More(Settings):
    rate: float = declared.value(2.0, "Another rate.")
    last: float = declared.value(1.0, "The last.")

  names = list(declared.fields_of(More))
  assert names == [*DECLARED, "last"]
  assert declared.fields_of(More)["rate"].default == 2.0


@pytest.mark.parametrize(
  "values",
  [
    {},
    {"rate": 1, "share": 1, "steps": 9},
    {"share": 0.0, "fast": True, "order": "down", "label": "x"},
    {"note": 3},
  ],
)
def test_valid_values_pass(values):
  settings = Settings(size=1, **values)
  assert {name: getattr(settings, name) for name in values} == values


@pytest.mark.parametrize(
  ("name", "value", "valid"),
  [
    ("size", 0, "1 or more"),
    ("rate", 0.0, "(0, inf)"),
    ("rate", math.nan, "number"),
    ("share", 1.5, "[0, 1]"),
    ("steps", 0, "[1, 9]"),
    ("steps", 10, "[1, 9]"),
    ("order", "left", "up, down"),
  ],
)
def test_values_out_of_bounds_are_named(name, value, valid):
  with rejected(name, valid, value=value):
    Settings(**{"size": 1, name: value})
  with rejected(name, valid, value=value):
    DECLARED[name].check(value)


@pytest.mark.parametrize(
  ("name", "value", "kind"),
  [
    ("size", 1.0, "integer"),
    ("rate", "0.1", "number"),
    ("rate", None, "number"),
    ("share", "1", "number"),
    ("fast", 1, "true or false"),
    ("label", 1, "text"),
  ],
)
def test_values_of_another_type_are_type_errors_in_python(name, value, kind):
  found = type(value).__name__
  with pytest.raises(TypeError, match=f"{name} .*{kind}.* {found}"):
    Settings(**{"size": 1, name: value})
  # For values from a file, a wrong type is reported like any other error.
  with rejected(name, "expected", value=value):
    DECLARED[name].check(value)


def test_keywords_come_before_the_options():
  def build(model, **options: str) -> int:
    del model, options
    return 1

  signature = declared.add_to_signature(
    inspect.signature(build), DECLARED.values()
  )
  assert list(signature.parameters) == ["model", *DECLARED, "options"]
  assert signature.parameters["size"].default is inspect.Parameter.empty
  assert signature.parameters["rate"].default == 0.5
  assert signature.parameters["rate"].annotation is float
  assert signature.return_annotation is int


def test_help_tells_meaning_and_bounds():
  assert declared.document(DECLARED.values()).splitlines() == [
    "  size: The size. In [1, inf).",
    "  rate: The rate. In (0, inf).",
    "  share: The share. In [0, 1].",
    "  steps: The steps. In [1, 9].",
    "  fast: Whether it is fast.",
    "  order: The order.",
    "  label: The label.",
  ]


@pytest.mark.parametrize(
  ("bounds", "value", "interval"),
  [
    ({}, math.inf, "(-inf, inf)"),
    ({}, math.nan, "(-inf, inf)"),
    ({"minimum": 0}, -1e-300, "[0, inf)"),
    ({"minimum": 0}, math.inf, "[0, inf)"),
    ({"minimum": 0}, math.nan, "[0, inf)"),
    ({"maximum": 1}, 1.0000001, "(-inf, 1]"),
    ({"minimum": 0, "maximum": 1}, 2, "[0, 1]"),
    ({"minimum": 0, "exclude_minimum": True}, 0, "(0, inf)"),
    ({"maximum": 1, "exclude_maximum": True}, 1.0, "(-inf, 1)"),
    (
      {
        "minimum": 0,
        "maximum": 0.5,
        "exclude_minimum": True,
        "exclude_maximum": True,
      },
      0.5,
      "(0, 0.5)",
    ),
  ],
)
def test_numbers_outside_are_named_with_the_interval(bounds, value, interval):
  with pytest.raises(ValueError) as raised:  # noqa: PT011
    declared.check_number("alpha", value, **bounds)
  assert str(raised.value) == (
    f"alpha={value!r}: expected a number in {interval}."
  )


@pytest.mark.parametrize(
  ("value", "in_float32"),
  [(1e39, "inf"), (-(10**39), "-inf"), (1e-46, "0"), (1 - 1e-15, "1")],
)
def test_in_float32_a_number_must_be_finite_and_no_excluded_bound(
  value, in_float32
):
  bounds: dict[str, Any] = {"exclude_minimum": True, "exclude_maximum": True}
  if abs(value) < 1:
    bounds |= {"minimum": 0, "maximum": 1}
  declared.check_number("rate", value, **bounds)
  with pytest.raises(FieldError) as raised:
    declared.check_number("rate", value, in_float32=True, **bounds)
  assert str(raised.value).endswith(f"; in float32 it is {in_float32}.")


def test_in_float32_bounds_that_are_allowed_pass_before_they_are_rounded():
  # Rounding to float32 lowers 0.7 and raises 0.3.
  declared.check_number("x", 0.7, minimum=0.7, in_float32=True)
  declared.check_number("x", 0.3, maximum=0.3, in_float32=True)
  declared.check_number("x", 1e-46, minimum=0, in_float32=True)
  with rejected("x", value=-1e-300):
    declared.check_number("x", -1e-300, minimum=0, in_float32=True)


@pytest.mark.parametrize(
  "value", ["1", None, True, np.bool_(True), 1j, [1.0], np.array([1.0])]
)
def test_a_value_that_is_not_a_number_is_named_with_its_type(value):
  with pytest.raises(TypeError, match=f"alpha .*{type(value).__name__}"):
    declared.check_number("alpha", value)


def test_an_integer_beyond_the_range_of_floats_is_out_of_any_interval():
  with rejected("alpha", "(-inf, inf)", value=10**400):
    declared.check_number("alpha", 10**400)
  with rejected("alpha", "(-inf, inf)", value=-(10**400)):
    declared.check_number("alpha", -(10**400), in_float32=True)
  assert declared.as_float32(10**400) == math.inf


@pytest.mark.parametrize("value", [2, -(10**30), np.int64(0)])
def test_integers_below_the_minimum_are_named(value):
  with rejected("n", 3, value=value):
    declared.check_integer("n", value, minimum=3)


@pytest.mark.parametrize("value", [3.0, "3", None, True, np.float64(3), [3]])
def test_a_value_that_is_not_an_integer_is_named_with_its_type(value):
  with pytest.raises(TypeError, match=f"n .*{type(value).__name__}"):
    declared.check_integer("n", value, minimum=3)


def test_choices():
  declared.check_choice("c", "one", ("one", "two"))
  for value in ("three", "", None, "One", 1):
    with rejected("c", "one, two", value=value):
      declared.check_choice("c", value, ("one", "two"))  # type: ignore[arg-type]


Kind = Literal["loss", "random"]


@pytest.mark.parametrize(
  ("annotation", "value", "expected"),
  [
    (int, np.int32(3), 3),
    (float, 1, 1.0),
    (float, np.float32(0.5), 0.5),
    (float | None, None, None),
    (float | None, 2, 2.0),
    (bool, False, False),
    (str, "", ""),
    (Kind, "random", "random"),
    (int | Literal["all"], "all", "all"),
  ],
)
def test_values_come_back_in_their_type(annotation, value, expected):
  found = declared.check("x", annotation, value)
  assert found == expected
  assert type(found) is type(expected)
  assert declared.parse("x", annotation, declared.as_text(value)) == found


def test_names_with_any_signs_come_back_from_their_text():
  names = ("a\nb", "c\rd", "e\r\nf", "g,", '"h"', " i")
  assert declared.parse("x", declared.Names, declared.as_text(names)) == names


@pytest.mark.parametrize(
  "text", ["a\nb", "\na", "", pytest.param("a" * 2**18, id="long")]
)
def test_what_is_no_row_of_names_is_refused(text):
  for read in (declared.parse, declared.check):
    with rejected("x", value=text):
      read("x", declared.Names, text)


@pytest.mark.parametrize(
  ("annotation", "value"),
  [
    (int, 1.0),
    (int, True),
    (float, "1"),
    (float, float("nan")),
    (float, 10**400),
    (bool, 1),
    (str, None),
    (Kind, "los"),
    (Kind, ["loss"]),
  ],
)
def test_other_values_are_refused(annotation, value):
  with rejected("x", value=value):
    declared.check("x", annotation, value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
  number: int = declared.positive_integer(3, "How many.", decides=False)
  limit: int | None = declared.positive_integer(None, "At most.")
  rate: float = declared.positive_number(0.1, "How fast.")
  share: float = declared.value(
    0.5, "How much.", expects="below 1", is_valid=lambda value: value < 1
  )
  kind: Literal["a", "b"] | None = declared.value(None, "Which.")
  plain: str = "not declared"


FIELDS = declared.fields_of(RunSettings)


def test_fields_decide_unless_they_say_so():
  assert [f.name for f in FIELDS.values() if not f.decides] == ["number"]
  assert FIELDS["kind"].choices == ("a", "b")  # None is not a choice.


@pytest.mark.parametrize(
  ("name", "value", "expected"),
  [
    ("number", 0, "integer"),
    ("number", None, "found none"),
    ("number", True, "integer"),
    ("limit", 0, "or none"),
    ("rate", math.inf, "float32"),
    ("share", 1.0, "below 1"),
    ("share", "0.5", "below 1"),
  ],
)
def test_a_wrong_value_says_what_is_expected(name, value, expected):
  with rejected(name, expected, value=value):
    FIELDS[name].check(value)


def test_a_text_of_the_type_may_be_read_and_not_valid():
  assert FIELDS["share"].read("2") == 2.0
  for text in ("2", "x", ""):
    with rejected("share", "below 1"):
      FIELDS["share"].parse(text)
  with rejected("share", "below 1"):
    FIELDS["share"].read("x")
