"""Tests of AdaFedAdam's process: the special case in which it equals Adam."""

import functools

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.cases import one_of_each
from tff_fair import algorithms

pytestmark = [pytest.mark.tff, pytest.mark.usefixtures("built_once")]

COHORTS = ((12, 3), (5, 12, 31), (3,), (8, 5, 2**40 + 1))
WHOLE = 1000  # Examples in a batch: more than any client has.


@functools.cache
def build(client_optimizer=None, **options):
  return algorithms.build_adafedadam(
    small_problem.functional_model(),
    client_optimizer=client_optimizer or small_problem.optimizer(),
    **{"batch_size": WHOLE, **options},
  )


@functools.cache
def local_adam():
  return tff.learning.optimizers.build_adam(1e-3)


def run(process, cohorts=COHORTS):
  state, reported = process.initialize(), []
  for cohort in cohorts:
    state, metrics = process.next(state, small_problem.cohort(cohort))
    reported.append(metrics["aggregator"])
  return state, reported


def adam(**hparams):
  """Returns the weights after Adam on each cohort's mean gradient."""
  theta, optimizer = reference.initial_theta(), reference.Adam(**hparams)
  for cohort in COHORTS:
    arrays = [small_problem.client_arrays()[k] for k in cohort]
    x, y = (np.concatenate(part) for part in zip(*arrays, strict=True))
    _, g = reference.loss_and_gradient(theta, x, y)
    theta = theta - optimizer.step(g)
  return theta


@pytest.mark.parametrize(
  ("rate", "hparams"),
  one_of_each(
    [
      (
        3.0,
        {"learning_rate": 0.1, "beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3},
      ),
      (1e-3, {}),
    ]
  ),
)
def test_one_full_step_without_fairness_is_adam_at_any_rate(rate, hparams):
  clients = tff.learning.optimizers.build_sgdm(rate)
  state, reported = run(build(clients, alpha=0.0, **hparams))
  start = reference.initial_theta()
  moved, wanted = (
    small_problem.flat_weights(state) - start,
    adam(**hparams) - start,
  )
  np.testing.assert_allclose(moved, wanted, atol=1e-3 * np.abs(wanted).max())
  for measurements in reported:
    assert measurements["certainty"] == pytest.approx(1, abs=1e-5)
    assert measurements["certainty_floored"] == 0


@pytest.mark.parametrize(("scale", "floored"), [(1.0, 0), (1e3, 1)])
def test_a_floor_under_the_certainty_is_reported(scale, floored):
  # Adam's steps are as long as its rate, however large the gradient is.
  process = build(local_adam())
  x, y = small_problem.client_arrays()[31]
  start = process.initialize()
  data = small_problem.whole(31, (scale * x, y))
  state, metrics = process.next(start, [data])
  reported = metrics["aggregator"]
  assert reported["certainty_floored"] == floored
  assert (reported["certainty"] < 1e-3) == bool(floored)
  # The step is still taken, and it is short.
  moved = small_problem.flat_weights(state) - small_problem.flat_weights(start)
  assert (
    0 < np.abs(moved).max() <= 0.001001 * max(reported["certainty"], 1.1e-3)
  )


def test_theta_0_is_what_the_process_was_started_with():
  process = build(local_adam())
  state = process.initialize()
  weights = process.get_model_weights(state)
  moved = tff.learning.models.ModelWeights(
    tuple(w + 0.5 for w in weights.trainable), weights.non_trainable
  )
  state = process.set_model_weights(state, moved)
  for cohort in COHORTS[:2]:
    state = process.next(state, small_problem.cohort(cohort)).state
  sent = state.distributor["weights"].trainable
  for actual, wanted in zip(sent, moved.trainable, strict=True):
    np.testing.assert_array_equal(actual, wanted)
