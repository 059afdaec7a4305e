import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import tasks
from tests.experiments.training.small_run import process_of
from tff_fair.experiments import RunSpec
from tff_fair.experiments.training import costs, sampling

# 64 x 10 weights and 10 biases, of four bytes.
NUM_PRODUCTS = 640
NUM_BYTES = 2600
# An id of eight bytes, and seven scalars of four bytes.
SIGNALS = 36


def of_client(task, algorithm, aggregation="streaming", spec=None, **settings):
  spec = spec or RunSpec(algorithm=algorithm, **settings)
  return costs.per_client(spec, task, process_of(task, algorithm), aggregation)


@pytest.mark.parametrize(
  ("algorithm", "changes", "expected"),
  [
    ("fedavg", {}, {}),
    ("fedavg", {"loss_at": "training"}, {"extra_operations": 0}),
    ("fedavg", {"loss_at": "after"}, {}),
    ("fedavg", {"aggregation": "two_phase"}, {"bytes_down_per_client": 16}),
    # Each update goes into two sums; in one, it is multiplied by the loss.
    (
      "fedavg",
      {"aggregation": "secure", "spec": RunSpec(algorithm="vred")},
      {"bytes_up": 2 * NUM_BYTES + SIGNALS},
    ),
    (
      "scaffold",
      {},
      {"bytes_down": 2 * NUM_BYTES, "bytes_up": 2 * NUM_BYTES + SIGNALS},
    ),
    ("ditto", {}, {"training_operations": 6 * NUM_PRODUCTS}),
    (
      "adafedadam",
      {},
      {"bytes_down": 2 * NUM_BYTES, "extra_operations": 4 * NUM_PRODUCTS},
    ),
  ],
)
def test_what_a_client_costs(task, algorithm, changes, expected):
  assert of_client(task, algorithm, **changes) == costs.ClientCosts(
    **{
      "bytes_down": NUM_BYTES,
      "bytes_up": NUM_BYTES + SIGNALS,
      "training_operations": 3 * NUM_PRODUCTS,
      "extra_operations": NUM_PRODUCTS,
      **expected,
    }
  )


def test_a_search_sends_the_direction_and_brings_the_losses_of_its_steps(task):
  spec = RunSpec(algorithm="fedmdfg", hparams={"line_search": 3})
  with_search = of_client(task, "fedavg", spec=spec)
  assert with_search == dataclasses.replace(
    of_client(task, "fedavg"),
    bytes_down_later=NUM_BYTES + 4,
    bytes_up=NUM_BYTES + SIGNALS + 8 + 7 * 4,
    extra_operations=(1 + 7) * NUM_PRODUCTS,
  )


@pytest.mark.parametrize("algorithm", ["fairfed", "fedminmax"])
def test_a_pass_before_training_measures_groups(task, algorithm):
  spec = RunSpec(algorithm=algorithm)
  found = of_client(task, "fedavg", spec=spec)
  assert found.extra_operations == 2 * NUM_PRODUCTS


def test_what_a_round_costs():
  client = costs.ClientCosts(
    bytes_down=1000,
    bytes_up=100,
    training_operations=10**12,
    extra_operations=7,
    bytes_down_later=500,
    bytes_down_per_client=16,
  )
  found = costs.round_total(
    client,
    sampling.DrawnCohort([1, 2, 5], [1, 5]),
    np.array([10**6, 3]),
    np.array([10**7, 6]),
  )
  assert found == {
    "num_clients": 2,
    "bytes_down": 3000 + 2 * 500 + 2 * 32,
    "bytes_up": 200,
    # More than int64 can hold.
    "local_operations": 10**6 * (10**13 + 7) + 3 * (2 * 10**12 + 7),
  }
  assert all(type(value) is int for value in found.values())


def with_model(layers, x_shape):
  def build():
    shape = [size or 1 for size in x_shape]
    return tf.keras.Sequential([tf.keras.layers.Input(shape), *layers()])

  return dataclasses.replace(
    tasks.load("digits"),
    element_spec=tasks.task.element_spec(x_shape),
    num_classes=3,
    keras_model_fn=build,
  )


keras = tf.keras.layers


@pytest.mark.parametrize(
  ("layers", "shape", "expected"),
  [
    (lambda: [keras.Dense(4), keras.Dense(3)], [5], 5 * 4 + 4 * 3),
    (
      lambda: [
        keras.Conv2D(6, 3, padding="valid"),
        keras.DepthwiseConv2D(3, padding="same"),
        keras.GlobalAveragePooling2D(),
        keras.Dense(3),
      ],
      [8, 8, 2],
      36 * 6 * 9 * 2 + 36 * 6 * 9 + 6 * 3,
    ),
    (
      lambda: [
        keras.Conv2DTranspose(6, 3, strides=2, padding="same"),
        keras.GlobalAveragePooling2D(),
        keras.Dense(3),
      ],
      [4, 4, 2],
      4 * 4 * 2 * 9 * 6 + 6 * 3,
    ),
    (
      lambda: [
        keras.Conv3DTranspose(4, 2),
        keras.GlobalAveragePooling3D(),
        keras.Dense(3),
      ],
      [3, 3, 3, 2],
      27 * 2 * 8 * 4 + 4 * 3,
    ),
    (
      lambda: [
        keras.EinsumDense("...x,xy->...y", output_shape=4),
        keras.Lambda(lambda x: tf.einsum("bij,bkj->bik", x, x)),
        keras.Lambda(lambda x: tf.einsum("bij->bj", x)),
        keras.Dense(3),
      ],
      [6, 5],
      6 * 5 * 4 + 6 * 6 * 4 + 6 * 3,
    ),
    # Two products for each of ten steps, and for one more in which Keras infers
    # the shape.
    (
      lambda: [keras.SimpleRNN(4), keras.Dense(3)],
      [10, 5],
      11 * (5 * 4 + 4 * 4) + 4 * 3,
    ),
  ],
  ids=[
    *("dense", "convolutional", "transposed", "transposed-3d"),
    *("einsum", "recurrent"),
  ],
)
def test_multiply_accumulates_are_counted(layers, shape, expected):
  assert costs.multiply_accumulates(with_model(layers, shape)) == expected
  assert not tf.config.functions_run_eagerly()
