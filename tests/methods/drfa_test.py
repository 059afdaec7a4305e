"""Tests DRFA's estimates by enumeration, and a run against NumPy."""

import itertools

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from tests import reference
from tests.experiments.training.small_run import (
  SMALL,
  check_same,
  interrupt,
  tables,
  train,
)
from tests.methods import cohorts, fairfed_test, in_graph
from tests.refusals import rejected
from tff_fair.client_works import training_settings
from tff_fair.experiments.spec import seeds, task_loading
from tff_fair.experiments.training import sampling
from tff_fair.methods import drfa, rule_state

STEPS, RATE, GAMMA, COHORT = 4, 0.2, 0.3, 3
SPEC = SMALL.replace(
  algorithm="drfa",
  hparams={"lambda_learning_rate": GAMMA},
  client_learning_rate=RATE,
  batch_size=10_000,  # For full gradients.
  local_steps=STEPS,
  clients_per_round=COHORT,
  unseen_clients="0.2",
  total_rounds=4,
  rounds_per_evaluation=4,
  seed=3,
)


def test_the_second_cohort_estimates_all_losses():
  losses = np.array([0.3, 2.0, 0.0, 1.1, 5.0])
  among = np.array([True, True, False, True, True])
  for size in (1, 3):
    drawn = list(itertools.combinations(np.flatnonzero(among), size))
    mean = np.mean(
      [drfa.estimate_losses(losses[[*k]], k, among) for k in drawn], 0
    )
    np.testing.assert_allclose(mean, losses * among, rtol=1e-12)


def test_a_client_that_was_drawn_twice_counts_twice():
  rule = drfa.DrfaRule(num_clients=3)
  mixture, values = np.array([0.5, 0.3, 0.2]), np.array([1.0, -2.0, 7.0])
  total = 0.0
  for ids in itertools.product(range(3), repeat=2):
    cohort = cohorts.of_losses(np.ones(2), [5, 90], client_id=np.array(ids))
    c = in_graph.apply(rule, cohort).coefficients
    total += np.prod(mixture[[*ids]]) * (c @ values[[*ids]])
  assert total == pytest.approx(mixture @ values)


class Observer(fairfed_test.Models):
  """Keeps the weights and lambda after each round."""

  def __init__(self):
    super().__init__()
    self.mixtures = {}

  def on_round(self, state):
    super().on_round(state)
    found = rule_state.get(state.process_state)["mixture"]
    self.mixtures[state.round_num] = np.asarray(found)


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
  observer = Observer()
  path = tmp_path_factory.mktemp("runs") / "whole"
  return train(SPEC, path, callbacks=[observer]), observer


def gradient(weights, x, y):
  kernel, bias = weights
  error = softmax(x @ kernel + bias, axis=1)
  error[np.arange(len(y)), y] -= 1
  return x.T @ error / len(y), error.mean(0)


def loss(weights, x, y):
  kernel, bias = weights
  return -log_softmax(x @ kernel + bias, axis=1)[np.arange(len(y)), y].mean()


@pytest.mark.usefixtures("unpainted")
def test_lambda_is_the_papers(observed):
  run, observer = observed
  task = task_loading.load(SPEC)
  data = {
    k: (np.float64(x), y)
    for k in range(task.num_clients)
    for x, y in [task.train.load(k)]
  }
  among = sampling.first_rounds(SPEC, task) == 1
  assert among.sum() == 5
  mixture = among / among.sum()
  np.testing.assert_allclose(observer.mixtures[0], mixture)
  for round_num in range(1, 5):
    theta = [np.float64(w) for w in observer.weights[round_num - 1]]
    draw = seeds.generator(SPEC.seed, 1, round_num)
    ids = draw.choice(len(data), COHORT, p=mixture)
    middle = int(
      training_settings.snapshot_step(STEPS, SPEC.seed, round_num - 1)
    )
    ends, middles = [], []
    for k in ids:
      w = theta
      for step in range(STEPS):
        w = [
          v - RATE * g for v, g in zip(w, gradient(w, *data[k]), strict=True)
        ]
        if step + 1 == middle:
          middles.append(w)
      ends.append(w)
    for found, of_clients in zip(
      observer.weights[round_num], zip(*ends, strict=True), strict=True
    ):
      np.testing.assert_allclose(found, np.mean(of_clients, 0), atol=1e-6)
    rows = run.cohorts[run.cohorts["round"] == round_num]
    clients, counts = np.unique(ids, return_counts=True)
    np.testing.assert_array_equal(rows["client_id"], clients)
    np.testing.assert_allclose(rows["coefficient"], counts / COHORT)
    snapshot = [np.mean(w, 0) for w in zip(*middles, strict=True)]
    second = seeds.generator(SPEC.seed, 10, round_num).choice(
      np.flatnonzero(among), COHORT, replace=False
    )
    v = np.zeros(len(data))
    for j in second:
      v[j] = 5 / COHORT * loss(snapshot, *data[j])
    moved = mixture + GAMMA * STEPS * v
    mixture = np.zeros(len(data))
    mixture[among] = reference.project_to_simplex(moved[among])
    np.testing.assert_allclose(observer.mixtures[round_num], mixture, atol=1e-6)
  assert 0 in mixture[among]


@pytest.mark.long
@pytest.mark.usefixtures("unpainted")
def test_an_interrupted_run_goes_on_with_the_same_lambda(observed, tmp_path):
  whole, _ = observed
  path = tmp_path / "run"
  interrupt(SPEC, path, after=2)
  run = train(SPEC, path)
  assert tables(run) == tables(whole)
  check_same(run.weights(), whole.weights())


@pytest.mark.parametrize("local_steps", [None, "2-4"])
def test_all_clients_need_the_same_number_of_steps(local_steps, tmp_path):
  with rejected("local_steps"):
    train(SPEC.replace(local_steps=local_steps), tmp_path / "run")
