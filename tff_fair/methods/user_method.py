"""Loads a user's method: a rule class or a builder, from a file or a package.

A rule is a frozen dataclass derived from `types.Rule`, with hyperparameters
that `declared.value` declares. Loading a rule applies it once, to two identical
clients, so that errors are reported in one line, before any data is read.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tff_fair import declared, rounds, summing, types, user_functions
from tff_fair.declared import FieldError
from tff_fair.methods import building

_NUM_CLIENTS = 2  # The size of the cohort on which `_try` tests a rule.


def load(name: str) -> building.Builder:
  """Imports a user's method by the name of its code; returns its builder.

  Raises `FieldError` if there is no such code, if it is neither a rule class
  nor a builder, or if its rule fails.
  """
  return _builder(name, user_functions.load(name))


@functools.lru_cache(maxsize=64)
def _builder(name: str, found: Any) -> building.Builder:
  if inspect.isclass(found) and issubclass(found, types.Rule):
    built = building.rule_builder(found, user_functions.short_name(name))
  elif all(map(functools.partial(hasattr, found), ("rule", "make_rule"))):
    built = found
  else:
    raise FieldError(
      name,
      "expected a class derived from tff_fair.types.Rule, or what "
      f"tff_fair.methods.building.builder returns; found {found!r:.80}.",
    )
  for problem in problems(built.rule):
    raise FieldError(name, problem)
  _try(name, built)
  return built


def factory_of(
  rule_class: type[types.Rule],
) -> Callable[..., summing.RuleFactory]:
  """Returns the aggregation factory of a rule.

  Args:
    rule_class: The class of the rule.

  Returns:
    A class whose constructor takes the rule's hyperparameters and the options
    of `RuleFactory`, as keywords.
  """
  title = rule_class.__name__.removesuffix("Rule")
  factory = type(
    f"{title}Factory",
    (summing.RuleFactory,),
    {
      "__doc__": f"Sums client updates as {rule_class.__name__} says.",
      "__module__": rule_class.__module__,
    },
  )
  return summing.factory_of(rule_class)(factory)


def problems(rule: type[types.Rule]) -> Iterator[str]:
  """Yields the reasons why a rule class cannot be a method."""
  if inspect.isabstract(rule):
    missing = ", ".join(sorted(rule.__abstractmethods__))
    yield f"its rule {rule.__name__} does not define {missing}."
  for place in rule.__mro__:
    for name, value in vars(place).items():
      if isinstance(value, dataclasses.Field):
        yield (
          f"its field {name} is not in a dataclass; decorate {place.__name__} "
          "with @dataclasses.dataclass(frozen=True, kw_only=True)."
        )
  known = declared.fields_of(rule)
  if dataclasses.is_dataclass(rule):
    for plain in dataclasses.fields(rule):
      if plain.name not in known:
        yield (
          f"its field {plain.name} is not declared; write {plain.name} = "
          "tff_fair.declared.value(DEFAULT, MEANING)."
        )
  options = rounds.BuildOptions.__annotations__
  for field in known.values():
    if field.is_required and field.name not in options:
      yield f"its hyperparameter {field.name} has no default; it needs one."
    if not field.is_required and field.name in options:
      yield (
        f"its hyperparameter {field.name} has the name of an option of every "
        "method; choose another."
      )
  if unknown := set(rule.signals) - set(types.MEASURED_SIGNALS):
    yield (
      f"its signals have {', '.join(sorted(unknown))}; valid are "
      f"{', '.join(types.MEASURED_SIGNALS)}."
    )


def _try(name: str, builder: building.Builder) -> None:
  """Raises `FieldError` if a builder's rule fails for two identical clients."""
  path = user_functions.file_of(name)
  try:
    rule = builder.make_rule({"num_clients": _NUM_CLIENTS})
    state = rule.initialize()
    output = rule.coefficients(_cohort(rule), state)
    coefficients = tf.convert_to_tensor(output.coefficients)
    tf.nest.assert_same_structure(output.state, state)
    if isinstance(rule, types.SeparableRule):
      rule.log_weight(_cohort(rule))
  except Exception as error:  # Users' code may raise any error.
    raise user_functions.user_code_error(name, path, error) from error
  if (
    coefficients.dtype != tf.float64
    or coefficients.shape != [_NUM_CLIENTS]
    or not bool(tf.reduce_all(tf.math.is_finite(coefficients)))
  ):
    raise FieldError(
      name,
      f"for {_NUM_CLIENTS} clients its coefficients are "
      f"{coefficients.dtype.name} {coefficients.numpy().tolist()}; expected "
      f"float64[{_NUM_CLIENTS}], all finite.",
    )


def _cohort(rule: types.Rule) -> types.Cohort:
  """Returns a cohort of identical clients with all data that a rule reads."""
  one = tf.ones([_NUM_CLIENTS], tf.float64)
  known: dict[str, tf.Tensor] = dict.fromkeys(rule.signals, one)
  if rule.geometry is not types.Geometry.NONE:
    known["squared_norm"] = one
  if rule.geometry is types.Geometry.GRAM:
    known["gram"] = tf.ones([_NUM_CLIENTS, _NUM_CLIENTS], tf.float64)
  if rule.remembered_rounds:
    known["remembered_id"] = tf.zeros([0], tf.int64)
    known["remembered_age"] = tf.zeros([0], tf.int32)
  return types.Cohort(
    client_id=tf.range(_NUM_CLIENTS, dtype=tf.int64),
    weight=one / _NUM_CLIENTS,
    num_examples=one,
    **known,
  )
