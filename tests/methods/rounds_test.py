"""Rounds of every rule against NumPy, with state and memory between them."""

from collections.abc import Callable

import numpy as np
import pytest

from tests import reference
from tests.cases import Cases
from tests.methods import cohorts, in_graph
from tests.methods.settings import POPULATION, every_rule, rules_of
from tff_fair import declared


def adafedadam_direction(clients, memory, alpha=1.0):
  """After one step of Algorithm 1, the moment without bias is g itself."""
  del memory
  moments = {}
  reference.adafedadam(clients, moments, alpha)
  return moments["m"] / (1 - moments["c1"])


DIRECTIONS: dict[str, Callable[..., np.ndarray]] = {
  name: method.direction for name, method in reference.METHODS.items()
}
DIRECTIONS["adafedadam"] = adafedadam_direction
BY_PROGRAM = ("fedmgda_plus", "aaggff_s", "fedmdfg")


def hparams_of(rule):
  """The hyperparameters of a rule that are not its defaults."""
  return {
    h.name: getattr(rule, h.name)
    for h in declared.fields_of(type(rule)).values()
    if getattr(rule, h.name) != h.default
  }


def in_reference(hparams):
  """Whether the reference can follow; where not, the rule's own test does."""
  return (
    abs(hparams.get("t", 0)) < 100  # exp(t f) overflows.
    and hparams.get("lambda_learning_rate", 0) < 1  # Cohorts without weight.
    and hparams.get("order") != "random"  # Of TensorFlow's making.
    and "loss_cap" not in hparams
  )


class Memory:
  """The latest updates of the clients, as the library keeps them for a rule."""

  def __init__(self, num_rounds):
    self._num_rounds = num_rounds
    self._latest = {}

  def recall(self, round_num, d):
    """Ids, ages and updates, in the order of their age."""
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
      if in_reference(hparams_of(rule)):
        with cases.case(rule):
          assert_rounds_are_those_of_numpy(name, rule, m)


def assert_rounds_are_those_of_numpy(name, rule, m):
  hparams, d = hparams_of(rule), 23
  stateful = reference.METHODS[name].stateful
  memory, state, history = {}, None, Memory(rule.remembered_rounds)
  rng = np.random.default_rng(m)
  for round_num in range(5 if stateful else 1):
    client_id = np.sort(rng.permutation(POPULATION)[:m])
    known = cohorts.random(m, d, seed=[m, round_num])
    signals = cohorts.random_signals(m, round_num)
    remembered = history.recall(round_num, d)
    cohort = cohorts.make(
      *known,
      client_id=client_id,
      remembered=remembered if rule.remembered_rounds else None,
      **signals,
    )
    output = in_graph.eagerly(rule, cohort, state)
    everything = np.concatenate([known[0], remembered[2]])
    direction = output.coefficients @ everything[: len(output.coefficients)]
    clients = cohorts.clients(*known, client_id=client_id, **signals)
    arguments = (clients, memory) if stateful else (clients,)
    expected = DIRECTIONS[name](*arguments, **hparams)
    # The programs' reference solutions are good to about 1e-8 themselves.
    tolerance = 1e-6 if name in BY_PROGRAM else 1e-9
    tolerance *= abs(expected).max()
    np.testing.assert_allclose(direction, expected, rtol=0, atol=tolerance)
    history.keep(round_num, client_id, known[0])
    state = output.state
