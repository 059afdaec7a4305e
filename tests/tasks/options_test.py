import dataclasses
from typing import Literal

import pytest

from tasks import options
from tff_fair import declared


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options(options.TaskOptions):
  count: int = 3
  size: int | None = None
  rate: float = 0.5
  flag: bool = False
  kind: Literal["one", "two"] = "one"
  text: str = ""

  def __post_init__(self):
    super().__post_init__()
    self.require("count", self.count > 0, "positive")


@pytest.mark.parametrize(
  ("assignment", "value"),
  [
    ("count=7", 7),
    ("size=7", 7),
    ("size=none", None),
    ("size=None", None),
    ("rate=1e-3", 1e-3),
    ("rate=2", 2.0),
    ("flag=true", True),
    ("flag=False", False),
    ("flag=1", True),
    ("kind=two", "two"),
    ("text=a=b", "a=b"),
    ("text=", ""),
  ],
)
def test_parses(assignment, value):
  parsed = options.parse(_Options, [assignment])
  assert parsed == {assignment.partition("=")[0]: value}
  assert type(*parsed.values()) is type(value)
  _Options(**parsed)


@pytest.mark.parametrize(
  ("assignments", "message"),
  [
    (["count=1.5"], "count='1.5': expected an integer"),
    (["count="], "count='': expected an integer"),
    (["count=none"], "count='none': expected an integer"),
    (["size=x"], "size='x': expected an integer or none"),
    (["rate=nan"], "rate='nan': expected a finite number"),
    (["rate=fast"], "rate='fast': expected a finite number"),
    (["flag=maybe"], "flag='maybe': expected true or false"),
    (["kind=three"], "kind='three': expected one of one, two"),
    (["count"], "'count' is not of the form name=value"),
    (["x=1"], "unknown option 'x'; valid options: count, size, rate"),
    (["count=1", "count=2"], "count is given twice"),
  ],
)
def test_rejects_text(assignments, message):
  with pytest.raises(ValueError, match=message):
    options.parse(_Options, assignments)


@pytest.mark.parametrize(
  ("values", "message"),
  [
    ({"count": "7"}, "count='7': expected an integer"),
    ({"count": 1.0}, "count=1.0: expected an integer"),
    ({"count": True}, "count=True: expected an integer"),
    ({"count": 0}, "count=.*: expected positive"),
    ({"rate": float("inf")}, "rate=inf: expected a finite number"),
    ({"flag": 1}, "flag=1: expected true or false"),
    ({"kind": None}, "kind: expected one of one, two, found none"),
    ({"text": 1}, "text=1: expected a text"),
  ],
)
def test_rejects_value(values, message):
  with pytest.raises(ValueError, match=message):
    _Options(**values)


def test_an_integer_is_a_number():
  assert _Options(rate=1).rate == 1
  assert type(_Options(rate=1).rate) is float


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Base(options.TaskOptions):
  """Options of many tasks.

  Attributes:
    count: Number of things,
      on two lines.
    rate: Share of them.
  """

  count: int = 3
  rate: float = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Derived(_Base):
  """Options of one task.

  Attributes:
    rate: Share of others: fewer.
    text: A text.
  """

  text: str = ""


def test_meanings_are_inherited_and_replaced():
  assert options.meanings(_Derived) == {
    "count": "Number of things, on two lines.",
    "rate": "Share of others: fewer.",
    "text": "A text.",
  }


def test_an_option_without_a_meaning_is_a_mistake():
  with pytest.raises(KeyError, match="count"):
    options.meanings(_Options)


def test_names_all_unknown_options():
  with pytest.raises(ValueError, match="'x', 'y'"):
    options.build(_Options, {"x": 1, "count": 1, "y": 1})


def test_the_error_of_a_value_has_its_field():
  with pytest.raises(declared.FieldError) as error:
    _Options(count=0)
  assert (error.value.field, error.value.value) == ("count", 0)
