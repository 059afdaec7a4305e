"""Tests that kernels which keep state compute one client at a time.

Two calls at the same time would corrupt the heap, so a child process computes.
"""

import subprocess

import pytest

from tests import source_tree

pytestmark = pytest.mark.program

PROGRAM = """
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import tff_fair

def model_fn():
  layers = tf.keras.layers
  normalize = layers.LayerNormalization(input_shape=(16, 8))
  return tff.learning.models.from_keras_model(
    tf.keras.Sequential([normalize, layers.Flatten(), layers.Dense(3)]),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=(
      tf.TensorSpec([None, 16, 8]),
      tf.TensorSpec([None, 1], tf.int32),
    ),
  )

def client(number):
  random = np.random.default_rng(number)
  n = 20 + 7 * (number % 5)
  x = random.normal(size=(n, 16, 8)).astype(np.float32)
  y = random.integers(0, 3, size=(n, 1)).astype(np.int32)
  return tff_fair.client_dataset(number, tf.data.Dataset.from_tensors((x, y)))

tff_fair.runtime.use_local()
process = tff_fair.algorithms.build(
  "fedavg",
  model_fn,
  client_optimizer=tff.learning.optimizers.build_sgdm(0.1),
  batch_size=4,
)
state = process.initialize()
data = [client(number) for number in range(12)]
results = set()
for _ in range(20):
  result = process.next(state, data)
  found = process.get_model_weights(result.state).trainable
  results.add(b"".join(np.asarray(w).tobytes() for w in found))
print(len(results))
"""


@pytest.mark.long
def test_layer_normalization_repeats(warm_python):
  program = subprocess.run(
    [warm_python, "-c", PROGRAM],
    cwd=source_tree.ROOT,
    stdout=subprocess.PIPE,
    timeout=200,
    check=True,
  )
  assert program.stdout.split() == [b"1"]
