"""Tests rounds of every rule, with their state and memory, against NumPy."""

import numpy as np
import pytest

from tests import reference
from tests.cases import Cases
from tests.methods import cohorts, in_graph
from tests.methods.settings import (
  POPULATION,
  every_rule,
  numpy_direction,
  rules_of,
)

BY_PROGRAM = ("fedmgda_plus", "aaggff_s", "fedmdfg")


class Memory:
  """The latest updates of the clients, as the library keeps them for a rule."""

  def __init__(self, num_rounds):
    self._num_rounds = num_rounds
    self._latest = {}

  def recall(self, round_num, d):
    """Returns the remembered clients' ids, ages and updates, latest first."""
    rows = sorted(
      (round_num - when, client_id)
      for client_id, (when, _) in self._latest.items()
      if round_num - when <= self._num_rounds
    )
    return (
      [client_id for _, client_id in rows],
      [age for age, _ in rows],
      np.array([self._latest[k][1] for _, k in rows]).reshape(-1, d),
    )

  def keep(self, round_num, client_ids, updates):
    for client_id, update in zip(client_ids, updates, strict=True):
      self._latest[client_id] = (round_num, update)


@pytest.mark.parametrize("m", [1, 2, 7])
@every_rule
def test_rounds_are_those_of_numpy(name, m):
  with Cases() as cases:
    for rule in rules_of(name):
      # NumPy cannot repeat a random order; fedfv_test covers this.
      if getattr(rule, "order", None) != "random":
        with cases.case(rule):
          assert_rounds_are_those_of_numpy(name, rule, m)


def assert_rounds_are_those_of_numpy(name, rule, m):
  d, memory, state = 23, {}, None
  history = Memory(rule.remembered_rounds)
  rng = np.random.default_rng(m)
  for round_num in range(5 if reference.METHODS[name].stateful else 1):
    client_id = np.sort(rng.permutation(POPULATION)[:m])
    known = cohorts.random(m, d, seed=[m, round_num])
    remembered = history.recall(round_num, d)
    cohort = cohorts.make(
      *known,
      client_id=client_id,
      remembered=remembered if rule.remembered_rounds else None,
      **cohorts.random_signals(m, round_num),
    )
    output = in_graph.eagerly(rule, cohort, state)
    everything = np.concatenate([known[0], remembered[2]])
    direction = output.coefficients @ everything[: len(output.coefficients)]
    clients = cohorts.clients(cohort, known[0])
    expected = numpy_direction(rule, clients, memory)
    # Where the reference solves a program numerically, it is accurate to 1e-8.
    tolerance = 1e-6 if name in BY_PROGRAM else 1e-9
    tolerance *= abs(expected).max()
    np.testing.assert_allclose(direction, expected, rtol=0, atol=tolerance)
    history.keep(round_num, client_id, known[0])
    state = output.state
