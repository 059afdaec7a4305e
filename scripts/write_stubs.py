"""Writes the type stubs (.pyi) of packages with generated functions.

  python -m scripts.write_stubs

The keyword arguments of builders and factories are the hyperparameters that
their rules declare. Stubs show these arguments to type checkers and editors.
"""

import inspect
import pathlib
import re
import textwrap
import typing
from collections.abc import Iterator

import tff_fair
from tff_fair import aggregators, algorithms

ROOT = pathlib.Path(tff_fair.__file__).parent

_ALGORITHMS = '''\
"""The methods; `scripts/write_stubs.py` writes this file."""

from typing import Literal, Unpack

from tff_fair.methods import (
  Algorithm as Algorithm,
  build as build,
  get as get,
  hyperparameters as hyperparameters,
  names as names,
)
from tff_fair.rounds import (
  BuildOptions,
  LearningProcess,
  ModelFn,
  Optimizer,
  compose as compose,
  compose_client_work as compose_client_work,
)

__all__: list[str]
'''

_AGGREGATORS = '''\
"""Aggregation factories; `scripts/write_stubs.py` writes this file."""

from typing import Literal, Unpack

from tff_fair.methods.user_method import factory_of as factory_of
from tff_fair.summing import (
  Defence as Defence,
  FactoryOptions,
  RuleFactory as RuleFactory,
  TrimmedSumFactory as TrimmedSumFactory,
  supported_aggregations as supported_aggregations,
)

__all__: list[str]
'''


def stubs() -> dict[pathlib.Path, str]:
  """Returns the text of each stub file, by its path."""
  return {
    ROOT / "algorithms" / "__init__.pyi": "\n".join(
      [_ALGORITHMS, *_builders()]
    ),
    ROOT / "aggregators" / "__init__.pyi": "\n".join(
      [_AGGREGATORS, *_factories()]
    ),
  }


def _builders() -> Iterator[str]:
  for name in algorithms.__all__:
    if name.startswith("build_"):
      builder = getattr(algorithms, name)
      lines = [
        f"def {name}(",
        "  model_fn: ModelFn,",
        "  *,",
        "  client_optimizer: Optimizer,",
        *_hyperparameters(builder, indent=2),
        "  **options: Unpack[BuildOptions],",
        ") -> LearningProcess:",
        *_docstring(builder, indent=2),
      ]
      yield "\n".join(lines)


def _factories() -> Iterator[str]:
  for name in aggregators.__all__:
    factory = getattr(aggregators, name)
    if getattr(factory, "__base__", None) is aggregators.RuleFactory:
      own = _hyperparameters(factory.__init__, indent=4)
      lines = [
        f"class {name}(RuleFactory):",
        *_docstring(factory, indent=2),
        "",
        "  def __init__(",
        "    self,",
        *(["    *,"] if own else []),
        *own,
        "    **options: Unpack[FactoryOptions],",
        "  ) -> None:",
        *_docstring(factory.__init__, indent=4),
      ]
      yield "\n".join(lines)


# All builders share these arguments, which `compose` documents.
_SHARED = ("model_fn", "client_optimizer", "options")
_ARGUMENT = re.compile(r"^  (?:\*\*)?(\w+): .*(?:\n    .*)*", re.MULTILINE)


def _docstring(documented: object, indent: int) -> list[str]:
  found, _, rest = (inspect.getdoc(documented) or "").partition("\n\nArgs:\n")
  arguments = [
    argument[0]
    for argument in _ARGUMENT.finditer(re.split(r"\n\n", rest)[0])
    if argument[1] not in _SHARED
  ]
  if arguments:
    found = "\n".join([f"{found}\n\nArgs:", *arguments])
  text = f'"""{found}'
  if "\n" in text:
    text += "\n"
  return textwrap.indent(f'{text}"""', " " * indent).splitlines()


def _hyperparameters(function: object, indent: int) -> list[str]:
  parameters = inspect.signature(typing.cast(typing.Any, function)).parameters
  return [
    f"{' ' * indent}{p.name}: {_annotation(p.annotation)}{_default(p)},"
    for p in parameters.values()
    if p.kind is p.KEYWORD_ONLY and p.name != "client_optimizer"
  ]


def _annotation(annotation: object) -> str:
  if isinstance(annotation, type):
    return annotation.__name__
  text = str(annotation).replace("typing.", "")
  return text.replace("'", '"')


def _default(parameter: inspect.Parameter) -> str:
  if parameter.default is parameter.empty:
    return ""
  return f" = {parameter.default!r}".replace("'", '"')


def main() -> None:
  """Writes the stub files."""
  for path, text in stubs().items():
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
  main()
