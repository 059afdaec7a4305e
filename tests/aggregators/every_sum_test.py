"""Tests that all aggregations of a rule give the same results in each round."""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.aggregators import processes
from tests.cases import one_of_each
from tests.methods import cohorts
from tests.methods.settings import (
  FOR_SECURE_SUMS,
  RULE_CLASSES,
  rules_of,
  sums_of,
)
from tests.summing import rounds
from tff_fair import aggregators, types

NUM_ROUNDS = 3
RULES_AND_SUMS = [
  (name, aggregation)
  for name in RULE_CLASSES
  for aggregation in sums_of(name)[1:]
]


def kind_of_sum(pair):
  """Returns a pair's kind; short runs test only the first pair of each kind."""
  name, aggregation = pair
  rule = RULE_CLASSES[name]
  kinds = types.SeparableRule, types.ComparingRule, types.PopulationRule
  return (
    aggregation,
    rule.geometry,
    bool(rule.remembered_rounds),
    *(issubclass(rule, kind) for kind in kinds),
  )


def reports(round_number):
  """Yields updates and signals of unequal clients; one update is not finite."""
  clients = processes.clients(5, seed=round_number)
  clients[3].update[7] = np.nan
  random = cohorts.random_signals(len(clients), seed=round_number)
  for k, client in enumerate(clients):
    own = {name: np.float32(values[k]) for name, values in random.items()}
    yield client.structured(), client.signals()._replace(**own)


@functools.cache
def outputs(name, aggregation, for_secure_sums):
  """Returns the outputs of a rule in NUM_ROUNDS rounds with an aggregation."""
  rule: Any = rules_of(name)[0]
  hparams = FOR_SECURE_SUMS[name] if for_secure_sums else {}
  options: dict[str, Any] = {}
  if getattr(rule, "needs_uniform_weights", False):
    options["client_weighting"] = "uniform"
  if aggregation == "secure":  # Simulated by exact sums.
    options["sum_factory"] = tff.aggregators.SumFactory()
  process = rounds.create(
    aggregators.RuleFactory(
      dataclasses.replace(rule, **hparams), aggregation=aggregation, **options
    )
  )
  found, state = [], process.initialize()
  for number in range(NUM_ROUNDS):
    updates, signals = zip(*reports(number), strict=True)
    found.append(process.next(state, [*updates], [*signals]))
    state = found[-1].state
  return found


@pytest.mark.parametrize(
  ("name", "aggregation"), one_of_each(RULES_AND_SUMS, kind_of_sum)
)
def test_every_sum_gives_the_same_rounds(name, aggregation):
  for_secure_sums = aggregation == "secure" and name in FOR_SECURE_SUMS
  for found, expected in zip(
    outputs(name, aggregation, for_secure_sums),
    outputs(name, sums_of(name)[0], for_secure_sums),
    strict=True,
  ):
    assert found.measurements["num_clients"] == 4
    assert found.measurements["num_clients_excluded"] == 1
    rounds.assert_same(found.result, rounds.flat(expected.result), 1e-5)
    for a, b in zip(
      tf.nest.flatten(found.state), tf.nest.flatten(expected.state), strict=True
    ):
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    # Secure sums hide measurements of single clients from the server.
    common = found.measurements.keys() & expected.measurements.keys()
    for key in common:
      np.testing.assert_allclose(
        found.measurements[key],
        expected.measurements[key],
        rtol=1e-4,
        atol=1e-6,
        err_msg=key,
      )
