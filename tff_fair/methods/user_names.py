"""The names of methods that are not ours: users' code and installed packages'.

The registry imports it for such names alone. A user's rule is named as
path/to/file.py:NAME, or as PACKAGE.MODULE:NAME; see `tff_fair.user_functions`.
Installed packages add methods by entry points of the group tff_fair.methods:

[project.entry-points."tff_fair.methods"]
maxfl_sharp = "my_package.my_module:MaxFlRule"
"""

from __future__ import annotations

import ast
import contextlib
import functools
import typing
from collections.abc import Mapping

from tff_fair import user_functions
from tff_fair.declared import FieldError

if typing.TYPE_CHECKING:
  from tff_fair.methods import building


@functools.cache
def installed(taken: tuple[str, ...]) -> Mapping[str, str]:
  """Returns rules of installed packages, by names that are not `taken`."""
  return user_functions.installed("tff_fair.methods", "method", taken)


def code(name: str, taken: tuple[str, ...]) -> str | None:
  """Returns the rule or builder that a name means, if there may be one."""
  return name if user_functions.is_name(name) else installed(taken).get(name)


def is_closed(code: str) -> bool:
  """Returns whether a user's code must not run at present."""
  return not user_functions.may_run(code)


def digest(code: str) -> str:
  """Returns a digest of a rule's file, and of what it imports beside it.

  Raises `FieldError` if there is no such file.
  """
  return user_functions.digest(code)


def load(code: str) -> building.Builder:
  """Returns the builder of a user's method; imports TensorFlow.

  Raises:
    FieldError: If it cannot be used.
  """
  from tff_fair.methods import user_method  # noqa: PLC0415

  with user_functions.given_as("name", code):
    return user_method.load(code)


def reference(code: str) -> str:
  """Returns the second paragraph of a file's docstring, or else the first."""
  text = ""
  with contextlib.suppress(FieldError, OSError, SyntaxError):
    source = user_functions.file_of(code).read_text("utf-8")
    text = ast.get_docstring(ast.parse(source)) or ""
  paragraphs = [" ".join(p.split()) for p in text.split("\n\n")]
  found = filter(None, paragraphs[1:2] + paragraphs[:1])
  return next(found, user_functions.short_name(code))
