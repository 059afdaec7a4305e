"""Tests of local training: decaying learning rates, and losses after it."""

import functools

import numpy as np
import pytest

from tests import reference, small_problem
from tests.client_works import local_work

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


def assert_trained_at(rate, result):
  """Checks that client 31 reports the rate and has trained at it."""
  assert result.update_weight.learning_rate == pytest.approx(rate, rel=1e-6)
  wanted = reference.run_client(
    reference.initial_theta(), 31, learning_rate=rate
  )
  np.testing.assert_allclose(
    local_work.flat(result.update), wanted.update, rtol=1e-5, atol=1e-6
  )


@pytest.mark.parametrize("kind", DECAYS)
@pytest.mark.parametrize("model", local_work.MODELS)
def test_learning_rate_decays_from_round_to_round(model, kind):
  process, factor = decaying(kind, model), DECAYS[kind][1]
  state = process.initialize()
  for t in range(4):
    output = local_work.run(process, [small_problem.whole(31)], state=state)
    assert_trained_at(BASE * factor(t), output.result[0])
    # Effective steps are in units of the round's own learning rate.
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


def test_a_rate_decays_after_a_round_with_a_client_that_counts():
  process = decaying("exponential")
  empty = small_problem.whole(31).take(0)
  for other, rate in ((empty, BASE), (small_problem.whole(3), BASE * 0.7)):
    state = local_work.run(process, [empty, other]).state
    output = local_work.run(process, [small_problem.whole(31)], state=state)
    assert_trained_at(rate, output.result[0])


@pytest.mark.parametrize("model", local_work.MODELS)
def test_loss_after_training_is_taken_after_all_epochs(model):
  process = local_work.build(
    model, batch_size=4, local_epochs=3, loss_at="after"
  )
  output = local_work.run(
    process, small_problem.cohort(small_problem.CLIENT_IDS)
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
