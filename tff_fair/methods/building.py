"""Makes the builders of methods, with hyperparameters as typed keywords."""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, Unpack, cast

from tff_fair import checks, hyperparameters, rounds, types
from tff_fair.rounds import BuildOptions, LearningProcess

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Builder(Protocol):
  """Builds the learning process of a method.

  Attributes:
    rule: The class of the method's rule.
    hyperparameters: The method's hyperparameters, keywords of the builder.
  """

  rule: type[types.Rule]
  hyperparameters: tuple[hyperparameters.Hyperparameter, ...]

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
  """Returns the builder of a method that is a rule, and nothing else.

  Args:
    rule: The class of the rule.
    name: The name of the method.
    fixed: Fields of the rule that the method sets; see `builder`.
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
  *others: type[hyperparameters.Hyperparameters],
  fixed: Mapping[str, Any] = _NOTHING,
) -> Callable[[Callable[..., LearningProcess]], Builder]:
  """Gives a function the hyperparameters of a method as typed keywords.

  The function gets `model_fn`, an instance of each class and, as keywords,
  `client_optimizer` and the options. A field that `hyperparameters.required`
  makes is taken from the option of its name.

  Args:
    rule: The class of the rule.
    *others: Classes of hyperparameters beside the rule's.
    fixed: Fields that the method sets: they are no hyperparameters of it.

  Returns:
    A decorator.
  """
  classes = (rule, *others)
  declared = tuple(
    h
    for settings in classes
    for h in hyperparameters.of(settings)
    if h.name not in fixed and not h.is_required
  )
  names = [h.name for h in declared]

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
      settings = [_instance(c, {**others, **values, **fixed}) for c in classes]
      return compose(
        model_fn, *settings, client_optimizer=client_optimizer, **others
      )

    signature = hyperparameters.add_to_signature(
      inspect.signature(build), declared
    )
    vars(build).update(
      __signature__=signature, rule=rule, hyperparameters=declared
    )
    build.__name__ = build.__qualname__ = compose.__name__
    build.__module__ = compose.__module__
    build.__doc__ = _document(inspect.getdoc(compose) or "", declared)
    return cast(Builder, build)

  return decorate


def _instance(
  settings: type[hyperparameters.Hyperparameters], values: Mapping[str, Any]
) -> hyperparameters.Hyperparameters:
  """Returns a class with those of some values that are its fields."""
  declared = hyperparameters.of(settings)
  for h in declared:
    if h.is_required and values.get(h.name) is None:
      raise checks.OptionError(
        h.name, f"This method needs {h.name}, found none. {h.meaning}"
      )
  return settings(
    **{h.name: values[h.name] for h in declared if h.name in values}
  )


def _document(
  doc: str, declared: tuple[hyperparameters.Hyperparameter, ...]
) -> str:
  """Returns the documentation of a builder, in Google style."""
  arguments = [
    "  model_fn: See `tff_fair.algorithms.compose`, as for the options.",
    "  client_optimizer: Trains at the clients.",
    *([hyperparameters.document(declared)] if declared else []),
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
      "  OptionError: If an argument has a wrong value; a `ValueError`.",
    ]
  )
