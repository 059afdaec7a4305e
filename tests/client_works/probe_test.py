"""Tests of the number of effective steps of a client."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.client_works import local_work

BASE = small_problem.LEARNING_RATE


def normalized_steps(steps, *, rho=0.0, mu=0.0):
  """Returns FedNova's ||a||_1, the total weight of gradients in an update."""
  a = np.zeros(steps)
  for i in range(steps):  # A unit gradient at step i only.
    w = velocity = 0.0
    for t in range(steps):
      velocity = rho * velocity + float(t == i) + mu * w
      w -= BASE * velocity
    a[i] = -w / BASE
  return a.sum()


def test_norms_are_those_of_fednova_in_closed_form():
  tau, rho, shrink = 9, 0.9, 1 - BASE * 2.0
  assert normalized_steps(tau) == pytest.approx(tau)
  assert normalized_steps(tau, rho=rho) == pytest.approx(
    (tau - rho * (1 - rho**tau) / (1 - rho)) / (1 - rho)
  )
  assert normalized_steps(tau, mu=2.0) == pytest.approx(
    (1 - shrink**tau) / (1 - shrink)
  )


@pytest.mark.parametrize("mu", [0.0, 2.0])
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_effective_steps_are_those_of_fednova(rho, mu):
  optimizer = tff.learning.optimizers.build_sgdm(BASE, rho)
  process = local_work.build(
    optimizer=optimizer, batch_size=4, local_epochs=4, proximal_mu=mu
  )
  data = small_problem.cohort(small_problem.CLIENT_IDS)
  for result, size in zip(
    local_work.run(process, data).result, small_problem.SIZES, strict=True
  ):
    steps = 4 * -(-size // 4)
    assert result.update_weight.effective_steps == pytest.approx(
      normalized_steps(steps, rho=rho, mu=mu), rel=1e-5
    )


def test_effective_steps_of_adam_are_its_steps():
  # With a constant gradient, each step of Adam is as long as the rate.
  optimizer = tff.learning.optimizers.build_adam(BASE)
  process = local_work.build(optimizer=optimizer, batch_size=4, local_epochs=3)
  _, signals = local_work.run_one(process, small_problem.whole(31))
  assert signals.effective_steps == pytest.approx(12, rel=1e-4)


def test_weight_decay_shortens_the_way_by_the_rate_times_itself():
  optimizer = tff.learning.optimizers.build_adamw(BASE, weight_decay=0.5)
  process = local_work.build(optimizer=optimizer, batch_size=4, local_epochs=10)
  _, signals = local_work.run_one(process, small_problem.whole(31))
  moved = 0.0
  for _ in range(40):
    moved += BASE * (1 - 0.5 * moved)
  assert signals.effective_steps == pytest.approx(moved / BASE, rel=1e-4)


def test_many_steps_are_counted_exactly():
  # A sum of a thousand equal steps in float32 is off by one in 10^5.
  process = local_work.build(batch_size=1, local_epochs=250)
  _, signals = local_work.run_one(process, small_problem.whole(2**40 + 1))
  assert signals.effective_steps == pytest.approx(250 * 20, rel=1e-5)


def test_steps_count_at_a_rate_of_zero_too():
  process = local_work.build(batch_size=4)
  state = local_work.learning_rate(process, 0.0)
  _, signals = local_work.run_one(process, small_problem.whole(31), state=state)
  assert signals.effective_steps == 4


def test_fednova_trains_with_a_rate_that_is_not_a_hyperparameter():
  # The rate follows a schedule within the round, here a constant one.
  scheduled = tff.learning.optimizers.schedule_learning_rate(
    small_problem.optimizer(), lambda _: BASE
  )
  process = small_problem.process("fednova", client_optimizer=scheduled)
  ids = small_problem.CLIENT_IDS
  state, _ = process.next(process.initialize(), small_problem.cohort(ids))
  np.testing.assert_allclose(
    small_problem.flat_weights(state),
    reference.run("fednova", [ids]),
    rtol=1e-5,
    atol=1e-6,
  )
