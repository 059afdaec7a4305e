"""Griffe extension that shows hyperparameters and formulas on API pages.

Griffe reads only the source, but some members exist only at run time.
"""

import ast
import re
import textwrap
from typing import Any

import griffe

# Headings of Google-style sections, such as "Args:".
_SECTIONS = re.compile(r"^\w+:\n", re.MULTILINE)
_CODE_OR_LESS = re.compile(r"```.*?```|`[^`]*`|<", re.DOTALL)
# A block of indented lines between empty lines.
_FORMULA = re.compile(r"(?<=\n\n)(?:  +\S.*\n?)+(?=\n|\Z)")
# API pages omit members whose docstring is _SAYS_NOTHING, special methods other
# than __init__, and the methods' builders, which pages.py documents with their
# hyperparameters.
_SAYS_NOTHING = "See the base class."
_HIDDEN = re.compile(
  r"tff_fair\.methods\.\w+\.build_\w+|.*\.__(?!init__|version__)\w+__"
)
_HPARAM = "hyperparameter"


class Docstrings(griffe.Extension):
  """Shows hyperparameters with their defaults, and formulas verbatim."""

  def on_module_members(
    self, *, node: ast.AST | griffe.ObjectNode, mod: griffe.Module, **_: Any
  ) -> None:
    """Makes names imported as "x as x" public if a module has no `__all__`."""
    if mod.exports is None and isinstance(node, ast.AST):
      mod.exports = [
        alias.name
        for found in ast.walk(node)
        if isinstance(found, ast.ImportFrom)
        for alias in found.names
        if alias.name == alias.asname
      ] or None

  def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
    """Sets a hyperparameter's default and docstring from its declaration."""
    call = ast.parse(str(attr.value), mode="eval").body
    match call:
      case ast.Call(
        ast.Attribute(ast.Name("declared"), "value"),
        [default, ast.Constant(meaning), *_],
      ):
        attr.value = ast.unparse(default)
      case ast.Call(
        ast.Attribute(ast.Name("declared"), "required"),
        [ast.Constant(meaning), *_],
      ):
        attr.value = None
      case _:
        return
    attr.labels.add(_HPARAM)
    attr.docstring = griffe.Docstring(meaning, parent=attr)

  def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
    """Hides an object or formats its docstring; adds factories' `__init__`."""
    text = obj.docstring.value if obj.docstring else ""
    if text == _SAYS_NOTHING or _HIDDEN.fullmatch(obj.path):
      obj.public = False
    elif obj.docstring:
      sections = _SECTIONS.search(text)
      end = sections.start() if sections else len(text)
      obj.docstring.value = escape(fence(text[:end]) + text[end:])
    if isinstance(obj, griffe.Class):
      for decorator in obj.decorators:
        if rule := re.fullmatch(
          r"summing\.factory_of\((\w+)\)", str(decorator.value)
        ):
          obj.set_member("__init__", constructor(obj.module[rule[1]]))


def constructor(rule: griffe.Class) -> griffe.Function:
  """Returns the constructor that `summing.factory_of` makes for a rule."""
  keyword = griffe.ParameterKind.keyword_only
  hparams = [
    griffe.Parameter(
      a.name, annotation=a.annotation, kind=keyword, default=a.value
    )
    for a in {**rule.inherited_members, **rule.members}.values()
    if a.is_attribute and _HPARAM in a.labels
  ]
  options = griffe.Parameter("options", kind=griffe.ParameterKind.var_keyword)
  myself = griffe.Parameter(
    "self", kind=griffe.ParameterKind.positional_or_keyword
  )
  return griffe.Function(
    "__init__",
    parameters=griffe.Parameters(myself, *hparams, options),
    docstring=griffe.Docstring("Takes the options of `RuleFactory`, too."),
  )


def escape(text: str) -> str:
  """Escapes "<" outside code, lest a type <S@SERVER> become an HTML element."""
  return _CODE_OR_LESS.sub(
    lambda found: "&lt;" if found[0] == "<" else found[0], text
  )


def fence(text: str) -> str:
  """Returns the text with a code fence around each block of indented lines."""
  return _FORMULA.sub(
    lambda found: f"```text\n{textwrap.dedent(found[0]).rstrip()}\n```\n", text
  )
