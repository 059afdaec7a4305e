import dataclasses

import pytest

from tasks import options
from tests.refusals import rejected
from tff_fair import declared


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options(options.TaskOptions):
  count: int = declared.value(3, "Number of things.", minimum=1)
  size: int | None = declared.value(None, "Their size.")
  rate: float = declared.value(0.5, "Share.", **declared.BETWEEN_0_AND_1)
  names: declared.Names | None = declared.value(None, "Names.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Derived(_Options):
  count: int = 5
  rate: float = declared.value(1.0, "Rate of others.")

  def __post_init__(self):
    super().__post_init__()
    self.require("size", self.size != self.count, "another than count")


@pytest.mark.parametrize(
  ("given", "expected"),
  [
    ({}, {"count": 3, "size": None, "rate": 0.5, "names": None}),
    ({"count": 7, "size": 1}, {"count": 7, "size": 1}),
    ({"names": "a, b"}, {"names": ("a", "b")}),
    ({"names": '"a, b",c'}, {"names": ("a, b", "c")}),
    ({"names": ["a, b", "c"]}, {"names": ("a, b", "c")}),
  ],
)
def test_values_have_their_types_and_are_texts_on_records(given, expected):
  built = options.build(_Options, given)
  assert {name: getattr(built, name) for name in expected} == expected
  texts = [f"{k}={declared.as_text(v)}" for k, v in built.to_dict().items()]
  record = options.parse(_Options, texts)
  assert record == built.to_dict()
  assert not any(isinstance(value, tuple) for value in record.values())
  assert options.build(_Options, record) == built


@pytest.mark.parametrize(
  ("field", "value", "expected"),
  [
    ("count", "7", "an integer"),
    ("count", 0, "1 or more"),
    ("rate", 1, "(0, 1)"),
    ("names", "", "names"),
    ("names", "a,,b", "names"),
    ("names", ["a", 1], "names"),
  ],
)
def test_refuses(field, value, expected):
  with rejected(field, expected, value=value):
    _Options(**{field: value})


def test_refuses_what_does_not_go_together():
  with rejected("size", "another than count", value=5):
    _Derived(size=5)


@pytest.mark.parametrize(
  ("texts", "facts"),
  [
    (["count"], "count: .*NAME=VALUE"),
    (["x=1"], "'x'.*count, size, rate"),
    (["count=1", "count=2"], "count.*twice"),
    (["count=1.5"], "count='1.5'.*an integer"),
  ],
)
def test_refuses_assignments(texts, facts):
  with pytest.raises(ValueError, match=facts):
    options.parse(_Options, texts)


def test_another_default_keeps_meaning_and_bounds():
  fields = options.fields_of(_Derived)
  assert [*fields] == ["count", "size", "rate", "names"]
  assert fields["count"].default == 5
  assert fields["count"].meaning == "Number of things."
  with rejected("count", "1 or more", value=0):
    _Derived(count=0)
  assert fields["rate"].meaning == "Rate of others."
  assert _Derived(rate=7).rate == 7


def test_an_option_without_a_meaning_is_a_mistake():
  @dataclasses.dataclass(frozen=True, kw_only=True)
  class Undeclared(_Options):
    flag: bool = False

  with pytest.raises(TypeError, match=r"Undeclared\.flag.*declared\.value"):
    Undeclared()


def test_names_all_unknown_options():
  with pytest.raises(ValueError, match="'x', 'y'"):
    options.build(_Options, {"x": 1, "count": 1, "y": 1})
