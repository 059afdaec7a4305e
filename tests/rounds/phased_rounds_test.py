"""Tests of rounds in phases, and of rounds that send only the cohort's rows."""

import collections
import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tests.cases import one_of_each
from tests.rounds import problem
from tff_fair import (
  algorithms,
  client_works,
  declared,
  evaluation,
  rounds,
  summing,
  types,
)
from tff_fair.methods import fednova, vred
from tff_fair.rounds import phased_rounds
from tff_fair.runtime import phases
from tff_fair.runtime.parts import cohort_cuts, part_by_part

pytestmark = pytest.mark.usefixtures("built_once")

# Attackers who send false reports, in one of the two phases.
ATTACKS = {
  name: client_works.Attack(kind=kind, strength=5.0, client_ids=(3, 31))
  for name, kind in (("gifair", "bias"), ("delta_fl", "scaling"))
}


@functools.cache
def built(name):
  """Returns a process and its first state, built once to save time."""
  process = problem.build(name, attack=ATTACKS.get(name))
  return process, process.initialize()


# Cohorts here have six clients, in parts of three: another number of clients
# would be compiled anew.
def cohort_of_six():
  return [*map(problem.client, problem.COHORT[:6])]


@pytest.mark.parametrize("name", one_of_each(["afl", *ATTACKS]))
def test_rounds_agree_with_those_of_the_whole(name):
  process, start = built(name)
  assert len(cohort_cuts.phases_of(process.next)) == 2
  clients = cohort_of_six()
  first = problem.run_both(process, start, clients)
  bad = problem.hostile()
  mixed = [bad[0], *clients[:2], bad[1], clients[5], bad[2]]
  second = problem.run_both(process, first.state, mixed)
  assert second.metrics["aggregator"]["num_clients"] == 3
  assert second.metrics["aggregator"]["num_clients_excluded"] == 3
  third = problem.run_both(process, second.state, [*bad, *bad])
  problem.assert_equal(third.state, second.state)


def test_a_round_with_who_diverges_in_training_is_the_round_without():
  process, start = built("afl")
  *good, _ = cohort_of_six()
  mixed = [good[0], problem.diverging(30), *good[1:]]
  *_, empty = problem.hostile()
  without = problem.run(process, start, [*good, empty], 3)
  for clients_per_part in (0, 3):
    found = problem.run(process, start, mixed, clients_per_part)
    measured = found.metrics["aggregator"]
    assert measured["num_clients"] == 5
    assert measured["num_clients_excluded"] == 1
    assert measured["client_ids"].tolist() == sorted(problem.COHORT[:5])
    problem.assert_close(found.state, without.state)
    problem.assert_close(
      found.metrics["client_work"], without.metrics["client_work"]
    )


def test_a_round_in_which_all_diverge_changes_nothing():
  process, start = built("afl")
  clients = [problem.diverging(k) for k in range(6)]
  output = problem.run(process, start, clients, 3)
  assert output.metrics["aggregator"]["num_clients"] == 0
  assert output.metrics["aggregator"]["num_clients_excluded"] == 6
  problem.assert_equal(output.state, start)


def test_clients_that_failed_before_stay_left_out():
  retry = phased_rounds.TWO_PHASE_CONVERSIONS.retry_arguments
  again = retry(["data", np.array([30])], {"left_out": np.array([7, 2])})
  assert again is not None
  assert [again[0], again[1].tolist()] == ["data", [30, 7, 2]]
  assert retry(again, {"left_out": np.array([], np.int64)}) is None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ManySignals(types.Rule):
  """Uses all signals that clients know before they train."""

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
    small_problem.functional_model(),
    _ManySignals(),
    client_optimizer=small_problem.optimizer(),
    batch_size=4,
    learning_rate_decay=0.5,
    local_epochs=(1, 3),
    attack=ATTACKS["gifair"],
  )
  clients = cohort_of_six()
  first = problem.run_both(process, process.initialize(), clients)
  problem.run_both(process, first.state, clients[::-1])


def parts_of(rule, *, loss_at="before", kept=None, **options):
  work = client_works.MethodWork(
    model_fn=small_problem.functional_model(),
    optimizer=small_problem.optimizer(),
    settings=client_works.TrainingSettings(loss_at=loss_at),
    signals=rule.signals,
    persistent_state=kept or client_works.PersistentState(),
  )
  factory = summing.RuleFactory(rule, **options)
  return phased_rounds.RoundParts(None, work, factory, None)


_PERSONAL = client_works.PersistentState(personal_lam=0.1)


@pytest.mark.parametrize(
  ("has_phases", "rule", "options"),
  [
    (True, vred.SemiVRedRule(), {}),
    (True, vred.VRedRule(), {"aggregation": "two_phase"}),
    (True, vred.SemiVRedRule(), {"defence": summing.Defence(kind="median")}),
    # One phase: streaming sums can be merged, and a stack keeps all updates.
    (False, vred.VRedRule(), {}),
    (False, vred.SemiVRedRule(), {"aggregation": "stacked"}),
    # The rule's signals are known only after training.
    (False, vred.SemiVRedRule(), {"loss_at": "training"}),
    (False, vred.SemiVRedRule(), {"loss_at": "after"}),
    (False, fednova.FedNovaRule(), {"aggregation": "two_phase"}),
    # Clipping comes between the updates and their sum.
    (False, vred.SemiVRedRule(), {"defence": summing.Defence(kind="clipping")}),
    (True, vred.SemiVRedRule(), {"kept": _PERSONAL}),
    (False, vred.VRedRule(), {"kept": _PERSONAL}),
  ],
)
def test_which_rounds_have_two_phases(has_phases, rule, options):
  assert phased_rounds.can_build_phases(parts_of(rule, **options)) is has_phases


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
      assert phased_rounds.can_build_phases(parts_of(made))
      found.append(name)
  assert found == [
    *("afl", "delta_fl", "gifair", "fedfa", "semi_vred"),
    *("aaggff_s", "aaggff_d", "fedgini", "fairfed", "drfa"),
  ]


def test_no_phase_is_built_before_it_is_asked_for(monkeypatch):
  def fail(*_):
    raise AssertionError("too early")

  monkeypatch.setattr(phased_rounds, "build_phases", fail)
  process = problem.build("gifair")
  assert isinstance(process.next, phases.PhasedComputation)
  assert isinstance(process, tff.learning.templates.LearningProcess)
  with pytest.raises(AssertionError, match="too early"):
    _ = process.next.phases


D = 18


@pytest.fixture(scope="module")
def process():
  # The attacker reports false updates, but trains an honest personal model.
  attack = client_works.Attack(kind="scaling", strength=3.0, client_ids=(31,))
  return problem.build("ditto", hparams={"lam": 0.5}, attack=attack)


@pytest.mark.long
def test_rounds_of_own_rows_agree_with_those_of_the_whole(process):
  state = process.initialize()
  cohorts = ((12, 3, 8, 5), (31, 3, 2**40 + 1, 17, 12))
  for cohort in cohorts:  # Two parts each: any other number is compiled anew.
    clients = [*map(problem.client, cohort)]
    state = problem.run_both(process, state, clients).state
  table = state.client_work["personal"]
  assert table["client_id"].tolist() == sorted(set().union(*cohorts))
  # Client 4 has no row yet; client 3 diverges, so it keeps its row.
  clients = [problem.client(4), problem.diverging(3), *problem.hostile()]
  after = problem.run_both(process, state, clients).state
  kept = after.client_work["personal"]
  assert kept["client_id"].tolist() == sorted({4, *table["client_id"]})
  np.testing.assert_array_equal(
    kept["weights"][kept["client_id"] == 3],
    table["weights"][table["client_id"] == 3],
  )
  excluded = [*problem.hostile(), *problem.hostile()]
  problem.assert_equal(problem.run(process, after, excluded, 3).state, after)


def test_only_the_rows_of_a_cohort_travel_with_the_same_bits(process):
  own = phased_rounds.CohortRowsProcess(process, process.next.single_phase, 0)
  state = own.initialize()
  for cohort in ((12, 3, 8), (31, 3, 5)):
    clients = [*map(problem.client, cohort)]
    found = own.next(state, clients)
    problem.assert_equal(found, problem.run(process, state, clients, 0))
    state = found.state


@pytest.mark.long
def test_what_clients_keep_goes_with_two_phases():
  process = problem.build(
    "gifair",
    client_optimizer=tff.learning.optimizers.build_sgdm(0.1, 0.9),
    personal_lam=0.5,
    keeps_optimizer_state=True,
    attack=client_works.Attack(kind="bias", strength=3.0, client_ids=(31,)),
  )
  state = process.initialize()
  for cohort in ((12, 3, 8, 5), (31, 3, 5, 17)):
    clients = [*map(problem.client, cohort)]
    state = problem.run_both(process, state, clients).state
  for table in ("personal", "optimizer"):
    ids = state.client_work[table]["client_id"]
    assert ids.tolist() == [3, 5, 8, 12, 17, 31]


def test_larger_cohorts_are_the_runtimes_to_cut():
  class Process:
    def next(self, state, clients):
      return state, len(clients)

  own = phased_rounds.CohortRowsProcess(Process(), None, 2)
  assert own.next("state", [1, 2, 3]) == ("state", 3)


def test_a_part_gets_the_rows_of_its_own_clients():
  state = state_of([2, 5, 7, 9])
  clients = [*map(small_problem.whole, (5, 3, 12))]
  clients.append(problem.client(9))
  sent, data, own = phased_rounds.with_client_rows([state, clients])
  assert data is clients
  own = [tables["personal"] for tables in own]
  assert [t["client_id"].tolist() for t in own] == [[5], [], [], [9]]
  assert [t["weights"].tolist() for t in own] == [
    [[5.0] * D],
    [],
    [],
    [[9.0] * D],
  ]
  assert len(sent.client_work.personal["client_id"]) == 0
  assert sent.client_work.personal["weights"].shape == (0, D)
  assert sent.client_work.training == "training"
  assert sent.finalizer == "finalizer"


def state_of(ids):
  """Returns a state; each client's personal model is filled with its id."""
  rows = np.repeat(np.array(ids)[:, np.newaxis], D, axis=1)
  table = collections.OrderedDict(
    client_id=np.array(ids, np.int64), weights=rows.astype(np.float32)
  )
  work = collections.OrderedDict(training="training", personal=table)
  return tff.learning.templates.LearningAlgorithmState(
    "weights", "distributor", work, "aggregator", "finalizer"
  )


def test_personal_models_are_evaluated_in_parts():
  evaluate = evaluation.build_personal_evaluation(
    small_problem.functional_model()
  )
  table = state_of([3, 12]).client_work["personal"]
  table["weights"] = np.random.default_rng(0).normal(size=(2, D))
  table["weights"] = table["weights"].astype(np.float32)
  weights = small_problem.model_weights()
  clients = [*map(small_problem.whole, (12, 5, 3, 8))]
  whole = evaluate(weights, table, clients)
  context = tff.framework.get_context_stack().current
  # A local context computes evaluations as a whole.
  parts = part_by_part.compute(
    context,
    tff.structure.Struct.unnamed(weights, table, clients),
    cohort_cuts.phases_of(evaluate),
    2,
  )
  problem.assert_equal(parts, whole)
  assert whole["client_id"].tolist() == [3, 5, 8, 12]
