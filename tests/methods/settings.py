"""All rules, with hyperparameters that tests should try, and hard cohorts."""

import math
import typing
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests import reference
from tff_fair import aggregators, algorithms, declared, testing, types

RULE_CLASSES: dict[str, type[types.Rule]] = {}
for _name in algorithms.names():
  _rule = algorithms.get(_name).build.rule
  if _rule not in RULE_CLASSES.values():
    RULE_CLASSES[_name] = _rule

POPULATION = 10
# Hyperparameters without a default.
REQUIRED = {"num_clients": POPULATION}
# Hyperparameters for secure sums; no loss in the tests is larger.
FOR_SECURE_SUMS: dict[str, dict[str, Any]] = {"term": {"loss_cap": 10.0}}
# Settings to try besides the defaults and the bounds of each hyperparameter.
EXTRA: dict[str, list[dict[str, Any]]] = {
  "qfedavg": [
    *[{"q": q} for q in (0, 0.125, 1, 2.5, 15)],
    *[{"q": 2.5, "lipschitz": bound} for bound in (1e-3, 1e3)],
  ],
  "term": [
    *[{"t": t} for t in (0, 0.1, 1.0, -2, 1000, -1000)],
    *[{"t": t, "loss_cap": 0.7} for t in (1.0, -2, 1000)],
  ],
  "vred": [{"beta": beta} for beta in (0, 0.1, 50.0)],
  "semi_vred": [{"beta": beta} for beta in (0, 0.1, 50.0)],
  "delta_fl": [{"alpha": alpha} for alpha in (1e-12, 0.3, 0.5, 1)],
  "gifair": [{"fraction": f} for f in (1e-12, 0.5, float(np.nextafter(1, 0)))],
  "afl": [{"lambda_learning_rate": rate} for rate in (0, 0.01, 1e3)],
  "fedfa": [{"b": b} for b in (0, 0.5, 1)],
  "fedmgda_plus": [
    {"epsilon": epsilon, "normalize": normalize}
    for epsilon in (0, 0.1, 1)
    for normalize in (True, False)
  ],
  "adafed": [
    *({"gamma": gamma} for gamma in (0, 0.5, 1.0, 10)),
    {"hull": True},
  ],
  "fedfv": [
    {"alpha": alpha, "tau": tau, "order": order}
    for alpha, tau, order in (
      (0, 0, "loss"),
      (0.1, 0, "reverse"),
      (0.1, 0, "random"),
      (0.5, 2, "loss"),
      (0, 1, "reverse"),
      (0, 2, "random"),
      (1, 2, "loss"),
    )
  ],
  "adafedadam": [{"alpha": alpha} for alpha in (0, 0.01, 1.0, 50.0)],
  "drfl": [{"q": q} for q in (0, 1e-3, 0.5, 1.0, 300.0)],
  # `aaggff_test` tries all transforms.
  "aaggff_s": [{"transform": "frechet"}],
  "aaggff_d": [{"transform": "frechet"}],
  "fedmdfg": [{"theta": theta} for theta in (1e-6, 45.0, 89.999)],
}


def sums_of(name: str) -> typing.Sequence[str]:
  """Returns the aggregations that a rule supports."""
  return aggregators.supported_aggregations(RULE_CLASSES[name])


def rules_of(name: str) -> list[types.Rule]:
  """Returns a method's rule in each of its settings, without repetitions."""
  rule_class = RULE_CLASSES[name]
  fields = declared.fields_of(rule_class).values()
  ends = [
    {h.name: end}
    for h in fields
    for end, excluded in (
      (h.minimum, h.exclude_minimum),
      (h.maximum, h.exclude_maximum),
    )
    if not excluded and not math.isinf(end) and not h.is_required
  ]
  required = {h.name: REQUIRED[h.name] for h in fields if h.is_required}
  return list(
    dict.fromkeys(
      rule_class(**required, **setting)
      for setting in ({}, *ends, *EXTRA.get(name, []))
    )
  )


def numpy_direction(
  rule: types.Rule, clients: list[Any], memory: dict[str, Any]
) -> np.ndarray:
  """Returns the NumPy reference's direction; `memory` keeps its state."""
  hparams = {
    h.name: getattr(rule, h.name)
    for h in declared.fields_of(type(rule)).values()
    if getattr(rule, h.name) != h.default
  }
  # `reference.adafedadam` returns a whole step, not a direction.
  if RULE_CLASSES["adafedadam"] is type(rule):
    return reference.pseudo_gradient(clients, **hparams)[0]
  name = next(n for n, made in RULE_CLASSES.items() if made is type(rule))
  method = reference.METHODS[name]
  state = [memory] if method.stateful else []
  return method.direction(clients, *state, **hparams)


def wrong_values(
  field: declared.Field,
) -> Iterator[tuple[Any, type[Exception]]]:
  """Yields values that a declared field must refuse, with the error of each."""
  kinds = typing.get_args(field.annotation)
  if type(None) not in kinds:
    yield None, declared.FieldError if field.choices else TypeError
  if field.choices:
    yield "unknown", declared.FieldError
  elif field.annotation is bool:
    yield from ((1, TypeError), ("true", TypeError))
  else:
    yield from (("1", TypeError), (True, TypeError), ([1], TypeError))
    if int in (field.annotation, *kinds):
      yield 1.5, TypeError
    else:
      yield from ((value, declared.FieldError) for value in (np.nan, np.inf))
    for bound, excluded, step in (
      (field.minimum, field.exclude_minimum, -1),
      (field.maximum, field.exclude_maximum, 1),
    ):
      if np.isfinite(bound):
        yield bound + step, declared.FieldError
        if excluded:
          yield bound, declared.FieldError


every_rule = pytest.mark.parametrize("name", RULE_CLASSES)

HARD = testing.HARD_COHORTS
