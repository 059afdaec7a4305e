"""Creates methods' builders, which take hyperparameters as typed keywords."""

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, Unpack, cast

from tff_fair import declared, rounds, types
from tff_fair.rounds import BuildOptions, LearningProcess

_Settings = TypeVar("_Settings", bound=declared.Hyperparameters)
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Builder(Protocol):
  """Builds the learning process of a method.

  Attributes:
    rule: The class of the method's rule.
    hyperparameters: The method's hyperparameters, keywords of the builder.
    make_rule: Returns the rule for hyperparameters and options, by name.
  """

  rule: type[types.Rule]
  hyperparameters: tuple[declared.Field, ...]
  make_rule: Callable[[Mapping[str, Any]], types.Rule]

  def __call__(
    self,
    model_fn: rounds.ModelFn,
    *,
    client_optimizer: rounds.Optimizer,
    **keywords: Any,
  ) -> LearningProcess:
    """Builds the process from hyperparameters and options by name."""


def rule_builder(
  rule: type[types.Rule],
  name: str,
  *,
  fixed: Mapping[str, Any] = _NOTHING,
) -> Builder:
  """Returns the builder of a method that consists only of a rule.

  Args:
    rule: The class of the rule.
    name: The name of the method.
    fixed: Values of the rule's fields that the method sets; see `builder`.
  """

  def build(
    model_fn: rounds.ModelFn,
    rule: types.Rule,
    **options: Unpack[rounds.ComposeOptions],
  ) -> LearningProcess:
    return rounds.compose(model_fn, rule, **options)

  build.__name__ = f"build_{name}"
  build.__module__ = rule.__module__
  build.__doc__ = f"Builds the learning process of {name}."
  return builder(rule, fixed=fixed)(build)


def builder(
  rule: type[types.Rule],
  *others: type[declared.Hyperparameters],
  fixed: Mapping[str, Any] = _NOTHING,
) -> Callable[[Callable[..., LearningProcess]], Builder]:
  """Returns a decorator that turns a function into the builder of a method.

  The function's arguments are `model_fn`, instances of `rule` and `others` and,
  as keywords, `client_optimizer` and the options. A field that
  `declared.required` declares gets its value from the option of the same name.

  Args:
    rule: The class of the rule.
    *others: Further classes with hyperparameters of the method.
    fixed: Values that the method sets, by field; these fields are then not
      hyperparameters.

  Returns:
    A decorator that turns the function into a `Builder`.
  """
  classes = (rule, *others)
  fields = tuple(
    field
    for settings in classes
    for field in declared.fields_of(settings).values()
    if field.name not in fixed and not field.is_required
  )
  names = [field.name for field in fields]

  def instance(
    settings: type[_Settings], values: Mapping[str, Any]
  ) -> _Settings:
    return _instance(settings, {**values, **fixed})

  def decorate(compose: Callable[..., LearningProcess]) -> Builder:
    def build(
      model_fn: rounds.ModelFn,
      *,
      client_optimizer: rounds.Optimizer,
      **options: Unpack[BuildOptions],
    ) -> LearningProcess:
      rounds.check_keywords(options, names)
      others: dict[str, Any] = dict(options)
      values = {name: others.pop(name) for name in names if name in others}
      settings = [instance(c, {**others, **values}) for c in classes]
      return compose(
        model_fn, *settings, client_optimizer=client_optimizer, **others
      )

    signature = declared.add_to_signature(inspect.signature(build), fields)
    vars(build).update(
      __signature__=signature,
      rule=rule,
      hyperparameters=fields,
      make_rule=functools.partial(instance, rule),
    )
    build.__name__ = build.__qualname__ = compose.__name__
    build.__module__ = compose.__module__
    build.__doc__ = _document(inspect.getdoc(compose) or "", fields)
    return cast(Builder, build)

  return decorate


def _instance(
  settings: type[_Settings], values: Mapping[str, Any]
) -> _Settings:
  """Returns an instance of `settings` with its fields set from `values`.

  Raises `FieldError` if a required field is missing.
  """
  fields = declared.fields_of(settings)
  for name, field in fields.items():
    if field.is_required and values.get(name) is None:
      raise declared.FieldError(name, f"this method needs it. {field.meaning}")
  return settings(**{name: values[name] for name in fields if name in values})


def _document(doc: str, fields: tuple[declared.Field, ...]) -> str:
  """Returns a builder's docstring: `doc`, then arguments, result and errors."""
  arguments = [
    "  model_fn: See `tff_fair.algorithms.compose`, as for the options.",
    "  client_optimizer: Trains at the clients.",
    *([declared.document(fields)] if fields else []),
    "  **options: Options that hold for every method.",
  ]
  return "\n".join(
    [
      doc,
      "",
      "Args:",
      *arguments,
      "",
      "Returns:",
      "  A `tff.learning.templates.LearningProcess`.",
      "",
      "Raises:",
      "  TypeError: If an argument has the wrong type.",
      "  FieldError: If an argument has a wrong value; a `ValueError`.",
    ]
  )
