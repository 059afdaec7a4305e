"""Tests of momentum that clients keep, against local training in NumPy."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.client_works import local_work
from tests.client_works.local_work import theta_of, weights_of
from tests.refusals import rejected
from tff_fair import client_works, optimizers

ARRAYS = small_problem.client_arrays()
RATE = small_problem.LEARNING_RATE
RHO = 0.8
COHORTS = ((12, 3), (8, 12), (3, 12, 8), (12,))
OPTIMIZERS = {
  "momentum": tff.learning.optimizers.build_sgdm(RATE, RHO),
  "nesterov": optimizers.build_nesterov(RATE, RHO),
}


@functools.cache
def build(name="momentum", *, personal_lam=None, **settings):
  return client_works.MethodWork(
    model_fn=local_work.MODELS["functional"],
    optimizer=OPTIMIZERS[name],
    settings=client_works.TrainingSettings(
      batch_size=4, learning_rate_decay=0.5, **settings
    ),
    persistent_state=client_works.PersistentState(
      optimizer_state=True, personal_lam=personal_lam
    ),
  ).build()


def run(process, state, cohort, round_num):
  return process.next(
    process.initialize() if state is None else state,
    [weights_of(theta_of(round_num))] * len(cohort),
    small_problem.cohort(cohort),
  )


def step(name, velocity, gradient):
  velocity = RHO * velocity + gradient
  along = gradient + RHO * velocity if name == "nesterov" else velocity
  return velocity, along


def trained(name, theta, client_id, velocity, rate):
  """Returns a client's update and velocity after a round."""
  w = theta
  for x, y in local_work.batches_of(ARRAYS[client_id], 4):
    _, gradient = reference.loss_and_gradient(w, x, y)
    velocity, along = step(name, velocity, gradient)
    w = w - rate * along
  return theta - w, velocity


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_momentum_goes_on_by_id_over_rounds(name):
  process = build(name)
  state = process.initialize()
  velocities: dict[int, np.ndarray] = {}
  unit: dict[int, float] = {}
  for t, cohort in enumerate(COHORTS):
    output = run(process, state, cohort, t)
    state = output.state
    for result, k in zip(output.result, cohort, strict=True):
      # The learning rate is the current round's, even if momentum was kept.
      update, velocities[k] = trained(
        name, theta_of(t), k, velocities.get(k, 0.0), RATE * 0.5**t
      )
      np.testing.assert_allclose(
        local_work.flat(result.update), update, atol=1e-5
      )
      way, unit[k] = 0.0, unit.get(k, 0.0)
      for _ in local_work.batches_of(ARRAYS[k], 4):
        unit[k], along = step(name, unit[k], 1.0)
        way += along
      assert result.update_weight.effective_steps == pytest.approx(way)
  table = state["optimizer"]
  assert table["client_id"].tolist() == sorted(velocities)
  # A row has momenta of 18 weights and of the probe, and 2 + 2 hyperparameters.
  assert table["state"].shape == (3, 18 + 5)
  first = {"momentum": 0, "nesterov": 2}[name]  # Sorted by name.
  np.testing.assert_allclose(
    table["state"][:, first : first + 18],
    [velocities[k] for k in (3, 8, 12)],
    atol=1e-5,
  )


def test_a_first_round_is_that_of_an_optimizer_that_starts_anew():
  plain = local_work.build(
    optimizer=OPTIMIZERS["momentum"], batch_size=4, learning_rate_decay=0.5
  )
  cohort, theta = (12, 3), weights_of(theta_of(0))
  data = small_problem.cohort(cohort)
  kept = run(build(), None, cohort, 0)
  new = local_work.run(plain, data, weights=theta)
  tf.nest.map_structure(np.testing.assert_array_equal, kept.result, new.result)


def test_personal_models_train_with_a_momentum_of_their_own():
  process, v = build(personal_lam=0.7), theta_of(0)
  state = process.initialize()
  for t in range(2):
    state = run(process, state, (3,), t).state
    velocity, theta = 0.0, theta_of(t)  # The momentum is not kept.
    for x, y in local_work.batches_of(ARRAYS[3], 4):
      _, gradient = reference.loss_and_gradient(v, x, y)
      velocity = RHO * velocity + gradient + 0.7 * (v - theta)
      v = v - RATE * 0.5**t * velocity
  assert list(state) == ["training", "personal", "optimizer"]
  np.testing.assert_allclose(state["personal"]["weights"], [v], atol=1e-5)


@pytest.mark.parametrize(
  ("optimizer", "found"),
  [
    (tff.learning.optimizers.build_sgdm(RATE), "nothing"),
    (tff.learning.optimizers.build_adam(RATE), "counts"),
  ],
)
def test_an_optimizer_without_a_momentum_is_named(optimizer, found):
  with rejected("keeps_optimizer_state", found):
    client_works.MethodWork(
      model_fn=local_work.MODELS["functional"],
      optimizer=optimizer,
      settings=client_works.TrainingSettings(batch_size=4),
      persistent_state=client_works.PersistentState(optimizer_state=True),
    ).build()
