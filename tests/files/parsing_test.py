"""Tests that parsing JSON and TOML gives a value or an error of one line."""

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


JSON, TOML = parsing.parse_json, parsing.parse_toml


@pytest.mark.parametrize(
  ("parse", "content", "message"),
  [
    (JSON, b"[1,\n", "line 2, column 1: is not JSON: Expecting value"),
    (JSON, b"\xe9", "byte 1: is not UTF-8 text"),
    (JSON, b"9" * 5000, "JSON.*limit"),
    (JSON, b"[" * 100_000, "JSON.*deep"),
    (JSON, b'{"a":' * 100_000, "JSON.*deep"),
    (TOML, "a = 1 b", r"after a statement \(at line 1, column 7\)"),
    (TOML, b"a = '\xe9'", "byte 6: is not UTF-8 text"),
    (TOML, "a = " + "9" * 5000, "limit"),
    (TOML, "a = " + "[" * 100_000, "TOML.*deep"),
    (TOML, "a = " + "{b=" * 100_000, "TOML.*deep"),
  ],
  ids=range(10),
)
def test_faults_are_named(parse, content, message):
  with pytest.raises(parsing.ParseError, match=message) as raised:
    parse(content)
  assert "\n" not in str(raised.value)


@hypothesis.given(st.one_of(st.binary(), st.text().map(str.encode)))
def test_any_bytes_are_a_value_or_an_error(content):
  for parse in (JSON, TOML):
    with contextlib.suppress(parsing.ParseError):
      parse(content)
