"""Tests of the declaration of hyperparameters: checks, keywords, help."""

import dataclasses
import inspect
import pickle
from typing import Literal

import pytest

from tff_fair import checks, hyperparameters
from tff_fair.hyperparameters import Hyperparameters, hparam, required

pytestmark = pytest.mark.pure


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Hyperparameters):
  """One of each type."""

  size: int = required("The size.", minimum=1)
  rate: float = hparam(0.5, "The rate.", minimum=0, exclude_minimum=True)
  share: float | None = hparam(None, "The share.", minimum=0, maximum=1)
  steps: int = hparam(3, "The steps.", minimum=1, maximum=9)
  fast: bool = hparam(False, "Whether it is fast.")
  order: Literal["up", "down"] = hparam("up", "The order.")
  label: str = hparam("none", "The label.")
  note: str = "no hyperparameter"


DECLARED = {h.name: h for h in hyperparameters.of(Settings)}


def test_fields_that_are_declared_are_the_hyperparameters():
  assert list(DECLARED) == [
    "size",
    "rate",
    "share",
    "steps",
    "fast",
    "order",
    "label",
  ]
  assert [h.name for h in DECLARED.values() if h.is_required] == ["size"]
  assert DECLARED["share"].annotation == float | None
  assert DECLARED["rate"].default == 0.5
  assert DECLARED["rate"].meaning == "The rate."
  assert DECLARED["rate"].interval == "(0, inf)"
  assert DECLARED["share"].interval == "[0, 1]"
  assert DECLARED["fast"].interval == ""


def test_a_class_of_its_own_has_those_of_its_base_first():
  @dataclasses.dataclass(frozen=True, kw_only=True)
  class More(Settings):
    rate: float = hparam(2.0, "Another rate.")
    last: float = hparam(1.0, "The last.")

  names = [h.name for h in hyperparameters.of(More)]
  assert names == [*DECLARED, "last"]
  assert hyperparameters.of(More)[1].default == 2.0


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
  ("values", "message"),
  [
    ({"size": 0}, "size to be 1 or more, found 0"),
    ({"rate": 0.0}, r"rate in \(0, inf\), found 0\.0"),
    ({"rate": float("nan")}, r"rate in \(0, inf\)"),
    ({"share": 1.5}, r"share in \[0, 1\], found 1\.5"),
    ({"steps": 0}, "steps to be 1 or more, found 0"),
    ({"steps": 10}, r"steps in \[1, 9\], found 10"),
    ({"order": "left"}, "order to be one of up, down; found 'left'"),
  ],
)
def test_values_out_of_bounds_are_named(values, message):
  with pytest.raises(checks.OptionError, match=message) as raised:
    Settings(**{"size": 1, **values})
  assert [raised.value.option] == list(values)
  for name, value in values.items():
    with pytest.raises(checks.OptionError) as again:
      DECLARED[name].check(value)
    assert again.value.option == name


@pytest.mark.parametrize(
  ("name", "value", "message"),
  [
    ("size", 1.0, "size to be an integer, found float"),
    ("rate", "0.1", "rate to be a number, found str"),
    ("rate", None, "rate to be a number, found NoneType"),
    ("share", "1", "share to be a number, found str"),
    ("fast", 1, "fast to be True or False, found int"),
    ("label", 1, "label to be a text, found int"),
  ],
)
def test_values_of_another_type_are_type_errors_in_python(name, value, message):
  with pytest.raises(TypeError, match=message):
    Settings(**{"size": 1, name: value})
  # Read from a file, they are values as wrong as any other.
  with pytest.raises(checks.OptionError, match=f"{name} must be") as raised:
    DECLARED[name].check(value)
  assert raised.value.option == name


def test_a_checked_value_has_the_annotated_type():
  rate = DECLARED["rate"].check(2)
  assert (rate, type(rate)) == (2.0, float)
  assert DECLARED["share"].check(None) is None
  assert DECLARED["order"].check("down") == "down"


def test_keywords_come_before_the_options():
  def build(model, **options: str) -> int:
    del model, options
    return 1

  signature = hyperparameters.add_to_signature(
    inspect.signature(build), DECLARED.values()
  )
  assert list(signature.parameters) == ["model", *DECLARED, "options"]
  assert signature.parameters["size"].default is inspect.Parameter.empty
  assert signature.parameters["rate"].default == 0.5
  assert signature.parameters["rate"].annotation is float
  assert signature.return_annotation is int


def test_help_tells_meaning_and_bounds():
  assert hyperparameters.document(DECLARED.values()).splitlines() == [
    "  size: The size. In [1, inf).",
    "  rate: The rate. In (0, inf).",
    "  share: The share. In [0, 1].",
    "  steps: The steps. In [1, 9].",
    "  fast: Whether it is fast.",
    "  order: The order.",
    "  label: The label.",
  ]


def test_an_option_error_survives_its_way_between_processes():
  error = pickle.loads(pickle.dumps(checks.OptionError("rate", "Too high.")))
  assert (error.option, str(error)) == ("rate", "Too high.")
  assert isinstance(error, ValueError)
