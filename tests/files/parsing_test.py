"""JSON and TOML of others: a value, or one line that says what is wrong."""

import contextlib
import json
import math

import hypothesis
import hypothesis.strategies as st
import pytest

from tff_fair.files import parsing


def test_what_is_written_is_strict_and_comes_back_as_nan():
  value = {"a": [math.inf, (1, -math.inf)], "b": {"c": math.nan, "d": True}}
  text = parsing.json_text(value)
  assert json.loads(text) == {"a": [None, [1, None]], "b": {"c": None, "d": 1}}
  assert text.endswith("}\n")
  assert parsing.json_text(0.1 + 0.2, None) == f"{0.1 + 0.2}\n"
  found = parsing.null_to_nan(parsing.parse_json(text))
  assert str(found) == "{'a': [nan, [1, nan]], 'b': {'c': nan, 'd': True}}"


def test_what_is_right_is_read():
  assert parsing.parse_json(b'{"a": [1, null]}') == {"a": [1, None]}
  assert parsing.parse_json('"\u00e9"'.encode("utf-16")) == "\u00e9"
  assert parsing.parse_toml("a = 1\r\n[b]\nc = [2]") == {
    "a": 1,
    "b": {"c": [2]},
  }


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (b"[1,\n", "line 2, column 1: is not JSON: Expecting value"),
    (b"\xe9", "byte 1: is not UTF-8 text"),
    (b"9" * 5000, "JSON.*limit"),
    (b"[" * 100_000, "JSON.*deep"),
    (b'{"a":' * 100_000, "JSON.*deep"),
  ],
  ids=range(5),
)
def test_faults_of_json_are_named(content, message):
  with pytest.raises(parsing.ParseError, match=message) as raised:
    parsing.parse_json(content)
  assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("a = 1 b", r"after a statement \(at line 1, column 7\)"),
    (b"a = '\xe9'", "byte 6: is not UTF-8 text"),
    ("a = " + "9" * 5000, "limit"),
    ("a = " + "[" * 100_000, "TOML.*deep"),
    ("a = " + "{b=" * 100_000, "TOML.*deep"),
  ],
  ids=range(5),
)
def test_faults_of_toml_are_named(content, message):
  with pytest.raises(parsing.ParseError, match=message) as raised:
    parsing.parse_toml(content)
  assert "\n" not in str(raised.value)


@hypothesis.given(st.one_of(st.binary(), st.text().map(str.encode)))
def test_any_bytes_are_a_value_or_an_error(content):
  for parse in (parsing.parse_json, parsing.parse_toml):
    with contextlib.suppress(parsing.ParseError):
      parse(content)


@hypothesis.given(
  st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
  )
)
def test_what_json_writes_is_read(value):
  assert parsing.parse_json(json.dumps(value)) == value
