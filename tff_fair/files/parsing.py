"""Parses JSON and TOML that others wrote, and writes standard JSON.

Python's parsers raise errors of several classes, including `RecursionError` for
deep nesting. Here, invalid text always raises `ParseError`, whose message is
one short line. Python's writer also writes NaN and infinities, which are not
valid JSON; this module's writer does not.
"""

import json
import math
import tomllib
from collections.abc import Mapping
from typing import Any


class ParseError(ValueError):
  """Text cannot be parsed. Callers add the file's name to the message."""


def parse_json(content: str | bytes) -> Any:
  """Returns the value of a JSON text; raises `ParseError`."""
  try:
    return json.loads(content)
  except json.JSONDecodeError as error:
    raise ParseError(
      f"line {error.lineno}, column {error.colno}: is not JSON: {error.msg}"
    ) from error
  except UnicodeDecodeError as error:
    raise ParseError(_decoding_problem(error)) from error
  except RecursionError as error:
    raise ParseError("its JSON is nested too deeply") from error
  except ValueError as error:  # For example a number with thousands of digits.
    raise ParseError(f"is not JSON: {error}") from error


def json_text(value: object, indent: int | None = 2) -> str:
  """Returns a value as JSON and a newline; non-finite numbers become null."""
  return json.dumps(_nan_to_null(value), indent=indent, allow_nan=False) + "\n"


def null_to_nan(value: Any) -> Any:
  """Returns a JSON value in which each null is replaced by NaN."""
  match value:
    case None:
      return math.nan
    case dict():
      return {name: null_to_nan(item) for name, item in value.items()}
    case list():
      return [null_to_nan(item) for item in value]
  return value


def _nan_to_null(value: object) -> object:
  match value:
    case float() if not math.isfinite(value):
      return None
    case Mapping():
      return {name: _nan_to_null(item) for name, item in value.items()}
    case list() | tuple():
      return [_nan_to_null(item) for item in value]
  return value


def parse_toml(content: str | bytes) -> dict[str, Any]:
  """Returns the table of a TOML text; raises `ParseError`."""
  try:
    text = content if isinstance(content, str) else content.decode()
    return tomllib.loads(text)
  except UnicodeDecodeError as error:
    raise ParseError(_decoding_problem(error)) from error
  except RecursionError as error:
    raise ParseError("its TOML is nested too deeply") from error
  except ValueError as error:
    raise ParseError(str(error)) from error


def _decoding_problem(error: UnicodeDecodeError) -> str:
  return f"byte {error.start + 1}: is not UTF-8 text"
