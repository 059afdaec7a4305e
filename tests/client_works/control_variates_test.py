"""Tests of SCAFFOLD's control variates, against local training in NumPy."""

import functools

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.client_works import local_work
from tests.refusals import rejected
from tff_fair import algorithms

ARRAYS = small_problem.client_arrays()
RATE = small_problem.LEARNING_RATE
POPULATION = len(ARRAYS)
COHORTS = ((12, 3, 8), (8, 5), (31, 12, 2**40 + 1), (5,), (12, 3, 31, 8))
DECAY = 0.8


@functools.cache
def build(name="scaffold", optimizer=None, **options):
  return getattr(algorithms, f"build_{name}")(
    small_problem.functional_model(),
    client_optimizer=optimizer or small_problem.optimizer(),
    **{"num_clients": POPULATION, "batch_size": 4, **options},
  )


def simulate(weigh, decay=1.0, epochs=1, mu=0.0):
  """Yields weights, the server's and the clients' controls after each round.

  Args:
    weigh: Maps numbers of examples and losses to coefficients.
  """
  theta = small_problem.flat(small_problem.model_weights())
  server, own = np.zeros_like(theta), {}
  for t, cohort in enumerate(COHORTS):
    rate = RATE * decay**t
    updates, changes, sizes, losses = [], [], [], []
    for k in cohort:
      w, control, steps = theta, own.get(k, np.zeros_like(theta)), 0
      for _ in range(epochs):
        for x, y in local_work.batches_of(ARRAYS[k], 4):
          _, gradient = reference.loss_and_gradient(w, x, y)
          w = w - rate * (gradient + mu * (w - theta) - control + server)
          steps += 1
      new = control - server + (theta - w) / (steps * rate)
      changes.append(new - control)
      updates.append(theta - w)
      sizes.append(len(ARRAYS[k][1]))
      losses.append(reference.loss_and_gradient(theta, *ARRAYS[k])[0])
      own[k] = new
    theta = theta - weigh(np.array(sizes), np.array(losses)) @ updates
    server = server + np.sum(changes, 0) / POPULATION
    yield theta, server, own


def check(process, expected, atol=1e-6):
  state = process.initialize()
  for cohort, (theta, server, own) in zip(COHORTS, expected, strict=True):
    state = process.next(state, small_problem.cohort(cohort)).state
    work = state.client_work
    np.testing.assert_allclose(
      small_problem.flat_weights(state), theta, atol=atol
    )
    np.testing.assert_allclose(work["training"]["control"], server, atol=1e-5)
    table = work["controls"]
    # Only clients that took part have a row.
    assert table["client_id"].tolist() == sorted(own)
    np.testing.assert_allclose(
      table["variate"], [own[k] for k in sorted(own)], atol=1e-5
    )


def by_examples(sizes, losses):
  del losses
  return sizes / sizes.sum()


def test_a_decaying_rate_and_epochs_count_in_the_controls():
  process = build(learning_rate_decay=DECAY, local_epochs=2)
  check(process, simulate(by_examples, DECAY, 2))


def test_it_goes_with_the_rule_of_another_method_and_a_proximal_term():
  def weigh(sizes, losses):
    weights = sizes * np.exp(2.0 * losses)
    return weights / weights.sum()

  process = build(
    "term",
    t=2.0,
    local_correction="scaffold",
    proximal_mu=0.3,
    aggregation="two_phase",
  )
  check(process, simulate(weigh, mu=0.3))


@pytest.mark.parametrize(
  ("options", "field"),
  [
    ({"num_clients": None}, "num_clients"),
    ({"local_correction": "scafold"}, "local_correction"),
    ({"num_participants": 0}, "num_participants"),
    ({"aggregation": "secure"}, "aggregation"),
    (
      {"optimizer": tff.learning.optimizers.build_sgdm(RATE, 0.9)},
      "local_correction",
    ),
  ],
)
def test_options_that_do_not_go_with_scaffold_are_named(options, field):
  with rejected(field):
    build("fedavg", **{"local_correction": "scaffold", **options})
