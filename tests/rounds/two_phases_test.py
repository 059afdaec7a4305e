"""Tests of rounds in two phases against the same rounds as a whole."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tests.rounds import problem
from tff_fair import algorithms, client_works, declared, rounds, summing, types
from tff_fair.methods import fednova, vred
from tff_fair.rounds import phasing, round_parts
from tff_fair.runtime import phases
from tff_fair.runtime.parts import cohort_cuts

# Clients that report something false, in one of the two phases.
ATTACKS = {
  name: client_works.Attack(kind=kind, strength=5.0, client_ids=(3, 31))
  for name, kind in (("gifair", "bias"), ("delta_fl", "scaling"))
}


@functools.cache
def built(name):
  """A process and its first state, built once: that takes long."""
  process = problem.build(name, attack=ATTACKS.get(name))
  return process, process.initialize()


@pytest.fixture(scope="module", autouse=True)
def processes_are_forgotten():
  yield
  built.cache_clear()


@pytest.mark.parametrize("name", ["afl", *ATTACKS])
def test_rounds_agree_with_those_of_the_whole(name):
  process, start = built(name)
  assert len(cohort_cuts.phases_of(process.next)) == 2
  clients = [*map(problem.client, problem.COHORT)]
  first = problem.run_both(process, start, clients)
  bad = problem.hostile()
  mixed = [bad[0], *clients[:3], bad[1], clients[5], bad[2]]
  second = problem.run_both(process, first.state, mixed)
  assert second.metrics["aggregator"]["num_clients"] == 4
  assert second.metrics["aggregator"]["num_clients_excluded"] == 3
  third = problem.run_both(process, second.state, bad, size=1)
  problem.assert_equal(third.state, second.state)


def test_a_round_with_who_diverges_in_training_is_the_round_without():
  process, start = built("afl")
  good = [*map(problem.client, (3, 8, 5))]
  mixed = [good[0], problem.diverging(30), *good[1:]]
  without = problem.run(process, start, good, 2)
  for clients_per_part in (0, 2):
    found = problem.run(process, start, mixed, clients_per_part)
    measured = found.metrics["aggregator"]
    assert measured["num_clients"] == 3
    assert measured["num_clients_excluded"] == 1
    assert measured["client_ids"].tolist() == [3, 5, 8]
    problem.assert_close(found.state, without.state)
    problem.assert_close(
      found.metrics["client_work"], without.metrics["client_work"]
    )


def test_a_round_in_which_all_diverge_changes_nothing():
  process, start = built("afl")
  clients = [problem.diverging(k) for k in range(3)]
  output = problem.run(process, start, clients, 2)
  assert output.metrics["aggregator"]["num_clients"] == 0
  assert output.metrics["aggregator"]["num_clients_excluded"] == 3
  problem.assert_equal(output.state, start)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ManySignals(types.Rule):
  """Uses all that clients know before they train."""

  power: float = declared.value(1.0, "Of the ratio of losses.")

  signals = (
    "loss",
    "accuracy",
    "learning_rate",
    "gradient_norm",
    "initial_loss",
  )

  def coefficients(self, cohort, state):
    raw = (
      (cohort.loss / cohort.initial_loss) ** self.power
      + cohort.gradient_norm * cohort.learning_rate
      + cohort.accuracy
    )
    return types.RuleOutput(raw / tf.reduce_sum(raw), state)


def test_a_rule_may_use_all_that_is_known_before_training():
  process = rounds.compose(
    small_problem.keras_model,
    _ManySignals(),
    client_optimizer=small_problem.optimizer(),
    batch_size=4,
    learning_rate_decay=0.5,
    local_epochs=(1, 3),
  )
  clients = [*map(problem.client, problem.COHORT[:5])]
  first = problem.run_both(process, process.initialize(), clients)
  problem.run_both(process, first.state, clients[1:])


def parts_of(rule, *, loss_at="before", kept=None, **options):
  work = client_works.MethodWork(
    model_fn=small_problem.functional_model(),
    optimizer=small_problem.optimizer(),
    settings=client_works.TrainingSettings(loss_at=loss_at),
    signals=rule.signals,
    kept=kept or client_works.Keeping(),
  )
  factory = summing.RuleFactory(rule, **options)
  return round_parts.RoundParts(None, work, factory, None)


_PERSONAL = client_works.Keeping(personal_lam=0.1)


@pytest.mark.parametrize(
  ("has_phases", "rule", "options"),
  [
    (True, vred.SemiVRedRule(), {}),
    (True, vred.VRedRule(), {"aggregation": "two_phase"}),
    (True, vred.SemiVRedRule(), {"defence": summing.Defence(kind="median")}),
    # Mergeable as it is, or kept for itself.
    (False, vred.VRedRule(), {}),
    (False, vred.SemiVRedRule(), {"aggregation": "stacked"}),
    # Training comes first.
    (False, vred.SemiVRedRule(), {"loss_at": "training"}),
    (False, vred.SemiVRedRule(), {"loss_at": "after"}),
    (False, fednova.FedNovaRule(), {"aggregation": "two_phase"}),
    # Something stands between updates and their sum.
    (False, vred.SemiVRedRule(), {"defence": summing.Defence(kind="clipping")}),
    (True, vred.SemiVRedRule(), {"kept": _PERSONAL}),
    (False, vred.VRedRule(), {"kept": _PERSONAL}),
  ],
)
def test_who_has_two_phases(has_phases, rule, options):
  assert phasing.can_build(parts_of(rule, **options)) is has_phases


def test_rules_that_need_scalars_first_have_two_phases():
  found = []
  for name in algorithms.names():
    algorithm = algorithms.get(name)
    if algorithm.aggregations[0] == "two_phase":
      rule = algorithm.build.rule
      if issubclass(rule, types.PopulationRule):
        made: types.Rule = rule(num_clients=3)
      else:
        made = rule()
      assert phasing.can_build(parts_of(made))
      found.append(name)
  assert found == [
    *("afl", "delta_fl", "gifair", "fedfa", "semi_vred"),
    *("aaggff_s", "aaggff_d"),
  ]


def test_no_phase_is_built_before_it_is_asked_for(monkeypatch):
  def fail(*_):
    raise AssertionError("too early")

  monkeypatch.setattr(phasing, "build_phases", fail)
  process = problem.build("gifair")
  assert isinstance(process.next, phases.PhasedComputation)
  assert isinstance(process, tff.learning.templates.LearningProcess)
  with pytest.raises(AssertionError, match="too early"):
    _ = process.next.phases


@pytest.mark.parametrize("name", ["semi_vred", "fedavg"])
def test_weights_by_hand_in_parts(name):
  given = {k: 1.0 + k for k in problem.COHORT}
  process = problem.build(name, client_weighting=given)
  clients = [*map(problem.client, problem.COHORT)]
  output = problem.run_both(process, process.initialize(), clients)
  if name == "fedavg":
    weights = np.array([given[k] for k in sorted(given)])
    np.testing.assert_allclose(
      output.metrics["aggregator"]["coefficients"],
      weights / weights.sum(),
      rtol=1e-6,
    )
