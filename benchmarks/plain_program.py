"""A whole program that runs FedAvg on MNIST in plain TensorFlow.

It imports TensorFlow, reads the files, divides the examples among clients as
the task `mnist` does, trains an MLP 784-200-200-10 with FedAvg, and evaluates
all clients every ten rounds and at the end. It writes nothing. One compiled
function trains a client, without transport, losses before training, or tables.

  python -m benchmarks.plain_program DATA_DIR CLIENTS CLIENTS_PER_ROUND ROUNDS
"""

import itertools
import json
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tasks import cuts
from tasks.formats import mnist

_LAYERS = (784, 200, 200, 10)
# The defaults of binaries.train.
_LEARNING_RATE = 0.1
_BATCH_SIZE = 16
_ROUNDS_PER_EVALUATION = 10
_SEED = 0

Weights = tuple[tf.Tensor, ...]
Data = tuple[np.ndarray, np.ndarray]


def _clients(
  data_dir: pathlib.Path, num_clients: int
) -> tuple[list[Data], list[Data]]:
  """Returns each client's training and test data `(x, y)`, with x as bytes."""
  _, (train, test) = mnist.find_and_read(data_dir, "mnist", what="MNIST")
  train_parts = cuts.label_shards(train.labels, num_clients, 2, _SEED)
  test_parts = cuts.match_label_proportions(
    train_parts, train.labels, test.labels, (_SEED, 1)
  )
  halves = []
  for half, parts in ((train, train_parts), (test, test_parts)):
    x = half.images.reshape(len(half.images), -1)
    y = half.labels.astype(np.int32)
    halves.append([(x[part], y[part]) for part in parts if len(part)])
  return halves[0], halves[1]


def _initial_weights() -> Weights:
  draw = tf.keras.initializers.GlorotUniform(_SEED)
  weights: list[tf.Tensor] = []
  for size, next_size in itertools.pairwise(_LAYERS):
    weights += [draw((size, next_size)), tf.zeros([next_size])]
  return tuple(weights)


def _predict(weights: Weights, x: tf.Tensor) -> tf.Tensor:
  w1, b1, w2, b2, w3, b3 = weights
  x = tf.nn.relu(x @ w1 + b1)
  return tf.nn.relu(x @ w2 + b2) @ w3 + b3


def _floats(x: tf.Tensor) -> tf.Tensor:
  return tf.cast(x, tf.float32) / 255.0


def _any_length(function: Callable[..., Any]) -> Callable[..., Any]:
  """Compiles a function of weights and client data once for all data sizes."""
  shapes = [
    shape
    for size, next_size in itertools.pairwise(_LAYERS)
    for shape in ([size, next_size], [next_size])
  ]
  return tf.function(
    function,
    input_signature=[
      tuple(tf.TensorSpec(shape) for shape in shapes),
      tf.TensorSpec([None, _LAYERS[0]], tf.uint8),
      tf.TensorSpec([None], tf.int32),
    ],
  )


def _train(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> Weights:
  order = tf.random.shuffle(tf.range(tf.shape(y)[0]), _SEED)
  for start in tf.range(0, tf.shape(y)[0], _BATCH_SIZE):
    batch = order[start : start + _BATCH_SIZE]
    with tf.GradientTape() as tape:
      tape.watch(weights)
      losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        tf.gather(y, batch), _predict(weights, _floats(tf.gather(x, batch)))
      )
      loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, weights)
    weights = tuple(
      w - _LEARNING_RATE * g for w, g in zip(weights, gradients, strict=True)
    )
  return weights


def _accuracy(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
  found = tf.argmax(_predict(weights, _floats(x)), axis=1, output_type=tf.int32)
  return tf.reduce_mean(tf.cast(found == y, tf.float32))


def _round(
  train: Callable[..., Weights], weights: Weights, cohort: Sequence[Data]
) -> Weights:
  """Trains a cohort; returns the mean weights, weighted by examples."""
  trained = [train(weights, x, y) for x, y in cohort]
  shares = np.array([len(y) for _, y in cohort], np.float32)
  shares /= shares.sum()
  return tuple(
    tf.add_n([share * w for share, w in zip(shares, layer, strict=True)])
    for layer in zip(*trained, strict=True)
  )


def main(
  data_dir: str, num_clients: str, clients_per_round: str, total_rounds: str
) -> None:
  """Trains, and prints the mean accuracy and the seconds of each round."""
  clients, test_clients = _clients(pathlib.Path(data_dir), int(num_clients))
  train, evaluate = _any_length(_train), _any_length(_accuracy)
  weights = _initial_weights()
  random = np.random.default_rng(_SEED)
  accuracies: list[float] = []
  seconds = []
  for round_num in range(int(total_rounds) + 1):
    if round_num:
      cohort = random.choice(len(clients), int(clients_per_round), False)
      start = time.perf_counter()
      weights = _round(train, weights, [clients[k] for k in cohort])
      weights[0].numpy()  # This waits for the result.
      seconds.append(time.perf_counter() - start)
    is_last = round_num == int(total_rounds)
    if round_num % _ROUNDS_PER_EVALUATION == 0 or is_last:
      accuracies = [
        float(np.asarray(evaluate(weights, *data))) for data in test_clients
      ]
  accuracy = float(np.mean(accuracies))
  print(json.dumps({"accuracy": accuracy, "round_seconds": seconds}))


if __name__ == "__main__":
  main(*sys.argv[1:])
