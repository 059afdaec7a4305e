"""Tests of a number of local steps in place of epochs."""

import numpy as np
import pytest

from tests import reference, small_problem
from tests.client_works import local_work
from tff_fair import client_works, methods
from tff_fair.client_works import training_settings

IDS = small_problem.CLIENT_IDS
BATCH_SIZE = small_problem.BATCH_SIZE
SHUFFLED = {"batch_size": BATCH_SIZE, "shuffle_seed": 7}


def passes(client_id, *, seed=None, round_num=0):
  """Yields a client's minibatches, pass after pass, forever."""
  x, y = small_problem.client_arrays()[client_id]
  number = 0
  while True:
    order = np.arange(len(y))
    if seed is not None:
      order = training_settings.permutation(
        len(y), seed, *map(np.int64, (client_id, round_num, number))
      ).numpy()
    yield from local_work.batches_of((x[order], y[order]), BATCH_SIZE)
    number += 1


def first(steps, minibatches):
  return [batch for _, batch in zip(range(steps), minibatches, strict=False)]


def num_batches(client_id):
  return -(-len(small_problem.client_arrays()[client_id][1]) // BATCH_SIZE)


# Some clients take their last step at the end of a pass, or one step later.
@pytest.mark.parametrize("steps", [1, 4, 5, 16])
def test_so_many_minibatches_in_the_order_of_each_pass(steps):
  process = local_work.build(local_steps=steps, **SHUFFLED)
  output = local_work.run(process, [*map(small_problem.whole, IDS)])
  for client_id, result in zip(IDS, output.result, strict=True):
    wanted, _ = local_work.train(first(steps, passes(client_id, seed=7)))
    update, signals = local_work.flat(result.update), result.update_weight
    np.testing.assert_allclose(update, wanted, atol=1e-6)
    assert signals.num_examples == len(
      small_problem.client_arrays()[client_id][1]
    )
    assert signals.effective_steps == pytest.approx(steps, rel=1e-5)


@pytest.mark.parametrize(
  ("batch_size", "make"),
  [(None, small_problem.batched), (BATCH_SIZE, small_problem.whole)],
)
def test_each_client_trains_on_its_own_number(batch_size, make):
  # The data is several elements of one minibatch each, or a single element.
  settings = {"local_steps": (1, 6), "local_epochs_seed": 3}
  process = local_work.build("keras", batch_size=batch_size, **settings)
  output = local_work.run(process, [make(k) for k in IDS])
  drawn = []
  for client_id, result in zip(IDS, output.result, strict=True):
    steps = round(float(result.update_weight.effective_steps))
    wanted, _ = local_work.train(first(steps, passes(client_id)))
    np.testing.assert_allclose(
      local_work.flat(result.update), wanted, atol=1e-6
    )
    drawn.append(steps)
  assert set(drawn) <= set(range(1, 7))
  assert len(set(drawn)) > 1


def test_all_steps_of_some_epochs_are_these_epochs():
  client_id = IDS[0]
  epochs = local_work.build(local_epochs=3, **SHUFFLED)
  steps = local_work.build(local_steps=3 * num_batches(client_id), **SHUFFLED)
  found, expected = (
    local_work.run_one(process, small_problem.whole(client_id))
    for process in (steps, epochs)
  )
  np.testing.assert_array_equal(found[0], expected[0])
  assert found[1] == expected[1]


@pytest.mark.parametrize("loss_at", ["before", "training", "after"])
def test_signals_are_those_of_all_examples(loss_at):
  client_id = IDS[0]
  process = local_work.build(loss_at=loss_at, local_steps=1, **SHUFFLED)
  update, signals = local_work.run_one(process, small_problem.whole(client_id))
  _, losses = local_work.train(first(1, passes(client_id, seed=7)))
  x, y = small_problem.client_arrays()[client_id]
  theta = reference.initial_theta()
  expected = {
    "before": reference.loss_and_gradient(theta, x, y)[0],
    "training": losses[0],
    "after": reference.loss_and_gradient(theta - update, x, y)[0],
  }[loss_at]
  assert signals.loss == pytest.approx(expected, rel=1e-5)
  assert signals.num_examples == len(y)


def test_a_client_without_examples_ends():
  process = local_work.build(local_steps=5, **SHUFFLED)
  for data in (
    small_problem.whole(3).take(0),
    small_problem.whole(3).map(lambda k, e: (k, (e[0][:0], e[1][:0]))),
  ):
    update, signals = local_work.run_one(process, data)
    np.testing.assert_array_equal(update, 0)
    assert signals.num_examples == 0


def test_fednova_divides_by_the_steps():
  ids = IDS[:2]
  process = methods.get("fednova").build(
    small_problem.functional_model(),
    client_optimizer=small_problem.optimizer(),
    client_weighting="uniform",
    local_steps=(1, 6),
    local_epochs_seed=3,
    batch_size=BATCH_SIZE,
  )
  state, metrics = process.next(process.initialize(), small_problem.cohort(ids))
  settings = client_works.TrainingSettings(
    local_steps=(1, 6), local_epochs_seed=3, batch_size=BATCH_SIZE
  )
  sizes = [len(small_problem.client_arrays()[k][1]) for k in ids]
  updates, drawn = [], []
  used: list[tuple[np.ndarray, np.ndarray]]
  for client_id, size in zip(ids, sizes, strict=True):
    trained = client_works.num_trained_examples(settings, size, client_id, 0)
    minibatches = passes(client_id)
    used = []
    while sum(len(y) for _, y in used) < trained:
      used.append(next(minibatches))
    updates.append(local_work.train(used)[0])
    drawn.append(len(used))
  assert drawn[0] != drawn[1]
  mean = np.mean(drawn)
  assert metrics["aggregator"]["effective_steps_mean"] == pytest.approx(mean)
  d = mean * sum(u / n for u, n in zip(updates, drawn, strict=True)) / 2
  np.testing.assert_allclose(
    small_problem.flat_weights(state), reference.initial_theta() - d, atol=1e-6
  )


@pytest.mark.parametrize("num_examples", [0, 1, 4, 9])
@pytest.mark.parametrize("batch_size", [4, 100, None])
def test_examples_are_counted_each_time(num_examples, batch_size):
  rows = np.arange(num_examples)
  for steps in (1, 2, 3, 7):
    settings = client_works.TrainingSettings(
      batch_size=batch_size, local_steps=steps
    )
    sizes = [
      len(rows[start : start + (batch_size or 100)])
      for start in range(0, num_examples, batch_size or 100)
    ]
    expected = sum((sizes * steps)[:steps])
    assert expected == client_works.num_trained_examples(
      settings, num_examples, 5, 0
    )
  epochs = client_works.TrainingSettings(local_epochs=3)
  assert client_works.num_trained_examples(epochs, num_examples, 5, 0) == (
    3 * num_examples
  )
