import dataclasses
from typing import Literal

import pytest

from tasks import options
from tests.refusals import rejected


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
  ("text", "expected"),
  [
    ("count=1.5", "an integer"),
    ("count=", "an integer"),
    ("count=none", "an integer"),
    ("size=x", "an integer or none"),
    ("rate=nan", "a finite number"),
    ("rate=fast", "a finite number"),
    ("flag=maybe", "true or false"),
    ("kind=three", "one, two"),
  ],
)
def test_rejects_text(text, expected):
  field, _, value = text.partition("=")
  with rejected(field, expected, value=value):
    options.parse(_Options, [text])


@pytest.mark.parametrize(
  ("texts", "facts"),
  [
    (["count"], "count: .*NAME=VALUE"),
    (["x=1"], "'x'.*count, size, rate"),
    (["count=1", "count=2"], "count.*twice"),
  ],
)
def test_rejects_assignments(texts, facts):
  with pytest.raises(ValueError, match=facts):
    options.parse(_Options, texts)


@pytest.mark.parametrize(
  ("field", "value", "expected"),
  [
    ("count", "7", "an integer"),
    ("count", 1.0, "an integer"),
    ("count", True, "an integer"),
    ("count", 0, "positive"),
    ("rate", float("inf"), "a finite number"),
    ("flag", 1, "true or false"),
    ("kind", None, "one, two"),
    ("text", 1, "a text"),
  ],
)
def test_rejects_value(field, value, expected):
  with rejected(field, expected, value=value):
    _Options(**{field: value})


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
