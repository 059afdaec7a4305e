"""Tests of decaying learning rates and of how far a client went, in steps."""

import functools

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.client_works import local_work
from tff_fair import algorithms, client_works

ARRAYS = small_problem.client_arrays()
BASE = small_problem.LEARNING_RATE
DECAYS = {
  "exponential": (0.7, lambda t: 0.7**t),
  "inverse_time": (0.5, lambda t: 1 / (1 + 0.5 * t)),
}


@functools.cache
def decaying(kind, model="functional"):
  return local_work.build(
    model,
    batch_size=4,
    learning_rate_decay=DECAYS[kind][0],
    learning_rate_decay_kind=kind,
  )


def assert_trained_at(rate, result, client_id=31):
  """Checks that a client reports the rate and has trained at it."""
  assert result.update_weight.learning_rate == pytest.approx(rate, rel=1e-6)
  wanted = reference.run_client(
    reference.initial_theta(), client_id, learning_rate=rate
  )
  np.testing.assert_allclose(
    local_work.flat(result.update), wanted.update, rtol=1e-5, atol=1e-6
  )


@pytest.mark.parametrize("kind", DECAYS)
@pytest.mark.parametrize("model", local_work.MODELS)
def test_learning_rate_decays_from_round_to_round(model, kind):
  process, factor = decaying(kind, model), DECAYS[kind][1]
  state = process.initialize()
  for t in range(6):
    output = local_work.run(process, [small_problem.whole(31)], state=state)
    assert_trained_at(BASE * factor(t), output.result[0])
    # The steps are counted in units of the rate they were taken at.
    steps = output.result[0].update_weight.effective_steps
    assert steps == pytest.approx(4, rel=1e-5)
    state = output.state
    assert state["round_num"] == t + 1


@pytest.mark.parametrize("kind", DECAYS)
def test_the_learning_rate_that_is_set_is_the_one_before_decay(kind):
  process, factor = decaying(kind), DECAYS[kind][1]
  state = process.initialize()
  for _ in range(2):
    state = local_work.run(
      process, [small_problem.whole(31)], state=state
    ).state
  hparams = process.get_hparams(state)
  assert hparams["learning_rate"] == np.float32(BASE)
  hparams["learning_rate"] = np.float32(0.4)
  state = process.set_hparams(state, hparams)
  assert state["round_num"] == 2
  for t in (2, 3):
    output = local_work.run(process, [small_problem.whole(31)], state=state)
    assert_trained_at(0.4 * factor(t), output.result[0])
    state = output.state
  assert process.get_hparams(state) == hparams


def test_a_round_without_clients_does_not_decay():
  process = decaying("exponential")
  nobody = small_problem.whole(31).take(0)
  state = local_work.run(process, [nobody, nobody]).state
  output = local_work.run(process, [small_problem.whole(31)], state=state)
  assert_trained_at(BASE, output.result[0])


def test_one_client_that_counts_is_enough_to_decay():
  process = decaying("exponential")
  nobody = small_problem.whole(31).take(0)
  data = [nobody, small_problem.whole(3)]
  state = local_work.run(process, data).state
  output = local_work.run(process, [small_problem.whole(31)], state=state)
  assert_trained_at(BASE * 0.7, output.result[0])


@pytest.mark.parametrize(
  ("kind", "decay"), [("exponential", 1.0), ("inverse_time", 0.0)]
)
def test_neutral_decays_keep_the_rate(kind, decay):
  process = local_work.build(
    batch_size=4, learning_rate_decay=decay, learning_rate_decay_kind=kind
  )
  state = process.initialize()
  for _ in range(3):
    output = local_work.run(process, [small_problem.whole(31)], state=state)
    assert_trained_at(BASE, output.result[0])
    state = output.state


@pytest.mark.parametrize(
  ("settings", "error"),
  [
    ({"learning_rate_decay": 0.0}, ValueError),
    ({"learning_rate_decay": 1.1}, ValueError),
    ({"learning_rate_decay": -0.5}, ValueError),
    ({"learning_rate_decay": "0.5"}, TypeError),
    ({"learning_rate_decay": float("nan")}, ValueError),
    (
      {
        "learning_rate_decay": -0.1,
        "learning_rate_decay_kind": "inverse_time",
      },
      ValueError,
    ),
    ({"learning_rate_decay_kind": "linear"}, ValueError),
    ({"learning_rate_decay_rounds": 0}, ValueError),
  ],
)
def test_bad_decays_are_named(settings, error):
  with pytest.raises(error, match=next(iter(settings))):
    client_works.TrainingSettings(**settings)


def normalized_steps(steps, *, rho=0.0, mu=0.0):
  """FedNova's ||a||_1: how much each gradient counts in the update."""
  a = np.zeros(steps)
  for i in range(steps):  # A unit gradient at step i alone.
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
@pytest.mark.parametrize("epochs", [1, 4])
def test_effective_steps_are_those_of_fednova(epochs, rho, mu):
  optimizer = tff.learning.optimizers.build_sgdm(BASE, rho)
  process = local_work.build(
    optimizer=optimizer, batch_size=4, local_epochs=epochs, proximal_mu=mu
  )
  data = [small_problem.whole(k) for k in small_problem.CLIENT_IDS]
  for result, size in zip(
    local_work.run(process, data).result, small_problem.SIZES, strict=True
  ):
    steps = epochs * -(-size // 4)
    assert result.update_weight.effective_steps == pytest.approx(
      normalized_steps(steps, rho=rho, mu=mu), rel=1e-5
    )


def test_effective_steps_of_adam_are_its_steps():
  # Under a constant gradient each of its steps is as long as the rate.
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
  # A schedule within the round, which here keeps the rate.
  scheduled = tff.learning.optimizers.schedule_learning_rate(
    small_problem.optimizer(), lambda _: BASE
  )
  data = [small_problem.whole(k) for k in small_problem.CLIENT_IDS]
  weights = []
  for optimizer in (scheduled, small_problem.optimizer()):
    process = algorithms.build(
      "fednova",
      small_problem.functional_model(),
      client_optimizer=optimizer,
      batch_size=4,
    )
    state, _ = process.next(process.initialize(), data)
    weights.append(small_problem.flat_weights(state))
  np.testing.assert_allclose(weights[0], weights[1], rtol=1e-5)


@pytest.mark.parametrize("model", local_work.MODELS)
def test_loss_after_training_is_taken_after_all_epochs(model):
  process = local_work.build(
    model, batch_size=4, local_epochs=3, loss_at="after"
  )
  output = local_work.run(
    process, [small_problem.whole(k) for k in small_problem.CLIENT_IDS]
  )
  for client_id, result in zip(
    small_problem.CLIENT_IDS, output.result, strict=True
  ):
    theta = reference.initial_theta()
    wanted = reference.run_client(theta, client_id, epochs=3)
    trained = theta - wanted.update
    loss, _ = reference.loss_and_gradient(trained, *ARRAYS[client_id])
    signals = result.update_weight
    assert signals.loss == pytest.approx(loss, rel=1e-5)
    assert signals.accuracy == pytest.approx(
      reference.accuracy(trained, *ARRAYS[client_id])
    )
    # The metrics are those of training, not of the pass after it.
    assert signals.num_examples == len(ARRAYS[client_id][1])
