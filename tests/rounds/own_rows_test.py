"""Tests of rounds with personal models in which only a cohort's rows travel."""

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import small_problem
from tests.rounds import problem
from tff_fair import client_works, evaluation
from tff_fair.rounds import phasing
from tff_fair.runtime.parts import cohort_cuts, part_by_part

D = 18


@pytest.fixture(scope="module")
def process():
  # Attackers report false updates, and have honest personal models.
  attack = client_works.Attack(kind="scaling", strength=3.0, client_ids=(31,))
  return problem.build("ditto", hparams={"lam": 0.5}, attack=attack)


def test_rounds_agree_with_those_of_the_whole(process):
  state = process.initialize()
  cohorts = ((12, 3, 8, 5), (31, 3, 2**40 + 1, 17, 12))
  for cohort in cohorts:  # Two parts each: any other number is compiled anew.
    clients = [*map(problem.client, cohort)]
    state = problem.run_both(process, state, clients).state
  table = state.client_work["personal"]
  assert table["client_id"].tolist() == sorted(set().union(*cohorts))
  # One without a row, and one that keeps the row it has.
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
  own = phasing.OwnRowsProcess(process, process.next.uncut, 0)
  state = own.initialize()
  for cohort in ((12, 3, 8), (31, 3)):
    clients = [*map(problem.client, cohort)]
    found = own.next(state, clients)
    problem.assert_equal(found, problem.run(process, state, clients, 0))
    state = found.state


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

  own = phasing.OwnRowsProcess(Process(), None, 2)
  assert own.next("state", [1, 2, 3]) == ("state", 3)


def test_a_part_gets_the_rows_of_its_own_clients():
  state = state_of([2, 5, 7, 9])
  clients = [*map(small_problem.whole, (5, 3, 12))]
  clients.append(problem.client(9))
  sent, data, own = phasing.with_own_rows([state, clients])
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


def test_the_rows_of_a_cohort_go_into_the_whole_table():
  cohort = state_of([3, 5], factor=-1.0)
  output = tff.learning.templates.LearningProcessOutput(cohort, "metrics")
  found = phasing.with_whole_tables([state_of([2, 5, 7]), []], output)
  table = found.state.client_work["personal"]
  assert table["client_id"].tolist() == [2, 3, 5, 7]
  assert table["client_id"].dtype == np.int64
  assert table["weights"][:, 0].tolist() == [2.0, -3.0, -5.0, 7.0]
  assert table["weights"].dtype == np.float32
  assert found.metrics == "metrics"
  assert list(found.state.client_work) == ["training", "personal"]
  assert found.state.global_model_weights == "weights"


def state_of(ids, *, factor=1.0):
  """The state of a process, with personal models that tell whose they are."""
  rows = np.repeat(factor * np.array(ids)[:, np.newaxis], D, axis=1)
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
  weights = tff.learning.models.ModelWeights(
    small_problem.initial_weights(), ()
  )
  clients = [*map(small_problem.whole, (12, 5, 3, 8, 31))]
  whole = evaluate(weights, table, clients)
  context = tff.framework.get_context_stack().current
  # A local context computes evaluations as a whole.
  parts = part_by_part.compute_in_one_worker(
    lambda comp, arg: lambda: context.invoke(comp, arg),
    cohort_cuts.phases_of(evaluate),
    tff.structure.Struct.unnamed(weights, table, clients),
    2,
  )
  problem.assert_equal(parts, whole)
  assert whole["client_id"].tolist() == [3, 5, 8, 12, 31]
