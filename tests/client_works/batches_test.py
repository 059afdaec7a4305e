"""Tests of slicing examples into minibatches, and of the examples' order."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tests import small_problem
from tests.client_works import local_work
from tff_fair.client_works import batches


@pytest.mark.parametrize("batch_size", [1, 3, 4, 100, 2**40])
@pytest.mark.parametrize("ordered", [True, False])
def test_slices_hold_all_examples_once(batch_size, ordered):
  @tf.function(reduce_retracing=True)
  def run(examples, order):
    n = tf.size(order)

    def step(carry, batch):
      seen, sizes, i = carry
      size = tf.size(batch["y"])
      # The rows of x and y belong together.
      tf.debugging.assert_equal(
        tf.cast(batch["x"][:, 0], tf.int64), 3 * batch["y"]
      )
      seen = tf.tensor_scatter_nd_update(
        seen, (tf.reduce_sum(sizes) + tf.range(size))[:, tf.newaxis], batch["y"]
      )
      return seen, tf.tensor_scatter_nd_add(sizes, [[i]], [size]), i + 1

    start = (
      tf.fill([n], tf.constant(-1, tf.int64)),
      tf.zeros([9], tf.int32),
      0,
    )
    return batches.reduce_slices(
      examples, batch_size, start, step, order if ordered else None
    )

  for n in (0, 1, 4, 7, 8):
    x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
    examples = collections.OrderedDict(x=x, y=np.arange(n))
    order = np.random.default_rng(0).permutation(n).astype(np.int32)
    seen, sizes, steps = run(examples, order)
    np.testing.assert_array_equal(seen, order if ordered else np.arange(n))
    assert steps == -(-n // batch_size)
    wanted = [min(batch_size, n - i) for i in range(0, n, batch_size)]
    np.testing.assert_array_equal(sizes[:steps], wanted)


def test_without_a_batch_size_all_examples_are_one_batch():
  examples = (np.zeros([5, 2]), np.zeros(5))
  size = batches.reduce_slices(
    examples, None, 10, lambda seen, batch: seen + len(batch[1])
  )
  assert size == 15


SHUFFLED = {"batch_size": 4, "shuffle_seed": 3}


def update_of(client_id, state=None, **settings):
  process = local_work.build(**{**SHUFFLED, **settings})
  data = small_problem.whole(client_id, small_problem.client_arrays()[31])
  return local_work.run_one(process, data, state=state)[0]


def test_the_same_seed_gives_the_same_training():
  # With the default `local_epochs=1` written out, another process is built.
  for other in (update_of(31), update_of(31, local_epochs=1)):
    np.testing.assert_array_equal(other, update_of(31))


def test_other_seeds_rounds_and_clients_give_other_orders():
  process = local_work.build(**SHUFFLED)
  later = local_work.run(process, [small_problem.whole(31)]).state
  assert later["round_num"] == 1
  updates = [
    update_of(31),
    update_of(31, shuffle_seed=4),
    update_of(31, state=later),
    update_of(5),  # Another client with the same examples.
    update_of(31, shuffle_seed=None),
  ]
  for i, update in enumerate(updates):
    for other in updates[:i]:
      assert np.abs(update - other).max() > 1e-5


@pytest.mark.parametrize("epochs", [1, 2])
def test_each_epoch_sees_each_example_once(epochs):
  # At a tiny learning rate the order of the examples does not matter.
  process = local_work.build(**SHUFFLED, local_epochs=epochs)
  state = local_work.learning_rate(process, 1e-3)
  update, signals = local_work.run_one(
    process, small_problem.whole(31), state=state
  )
  batch = local_work.batches_of(small_problem.client_arrays()[31], 16)
  one_step, _ = local_work.train(batch)
  # 4 steps an epoch, at a hundredth of the rate.
  wanted = 4 * epochs * one_step / 100
  np.testing.assert_allclose(update, wanted, atol=0.02 * abs(wanted).max())
  assert signals.num_examples == 16


def test_epochs_are_shuffled_anew():
  # Two epochs in the same order would give the update `first + second`.
  twice = update_of(31, local_epochs=2)
  process = local_work.build(**SHUFFLED)
  state = process.initialize()
  first = update_of(31, state=state)
  weights = local_work.initial_weights(local_work.MODELS["functional"])
  kernel, bias = np.split(first, [15])
  moved = type(weights)(
    (
      weights.trainable[0] - np.float32(kernel.reshape(5, 3)),
      weights.trainable[1] - np.float32(bias),
    ),
    weights.non_trainable,
  )
  second, _ = local_work.run_one(
    process, small_problem.whole(31), state=state, weights=moved
  )
  assert np.abs(first + second - twice).max() > 1e-5


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_id_is_that_of_the_first_element(number):
  data = small_problem.whole(7, small_problem.client_arrays()[12])
  client_id = batches.client_id(data.repeat(number))
  assert client_id.dtype == tf.int64
  assert client_id == (7 if number else 0)
