"""Models, random clients and rounds that several benchmarks share."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_fair

NUM_CLASSES = 62

# The usual size of a round.
NUM_CLIENTS = 10
NUM_EXAMPLES = 100
BATCH_SIZE = 20
LEARNING_RATE = 0.05

PLAIN = "plain TensorFlow"  # The name of the baseline for rounds.

Arrays = tuple[np.ndarray, np.ndarray]


def client_arrays(
  model: tff.learning.models.FunctionalModel,
  num_clients: int = NUM_CLIENTS,
  num_examples: int = NUM_EXAMPLES,
) -> list[Arrays]:
  """Returns `(x, y)` of each client: random images, random labels."""
  rng = np.random.default_rng(0)
  shape = model.input_spec[0].shape[1:]
  return [
    (
      rng.random((num_examples, *shape), np.float32),
      rng.integers(0, NUM_CLASSES, num_examples, np.int32),
    )
    for _ in range(num_clients)
  ]


def client_data(
  model: tff.learning.models.FunctionalModel,
  num_clients: int = NUM_CLIENTS,
  num_examples: int = NUM_EXAMPLES,
) -> list[tf.data.Dataset]:
  """Returns the data of `client_arrays` as datasets for `tff_fair`."""
  return [
    tff_fair.client_dataset(k, tf.data.Dataset.from_tensors(arrays))
    for k, arrays in enumerate(client_arrays(model, num_clients, num_examples))
  ]


def process(
  name: str, model: tff.learning.models.FunctionalModel, **options: Any
) -> tff.learning.templates.LearningProcess:
  """Returns the learning process of a method, with this module's constants."""
  return tff_fair.algorithms.build(
    name,
    model,
    client_optimizer=tff.learning.optimizers.build_sgdm(LEARNING_RATE),
    batch_size=BATCH_SIZE,
    **options,
  )


def rounds(
  process: tff.learning.templates.LearningProcess, data: list[tf.data.Dataset]
) -> Callable[[], Any]:
  """Returns a function that runs the next round of a process."""
  state = process.initialize()

  def run() -> Any:
    nonlocal state
    state, metrics = process.next(state, data)
    return metrics

  return run


def plain_rounds(
  model: tff.learning.models.FunctionalModel, clients: list[Arrays]
) -> Callable[[], Any]:
  """Returns a function that runs the next round of FedAvg without TFF."""

  @tf.function
  def train(weights: Any, x: tf.Tensor, y: tf.Tensor) -> Any:
    trained = weights
    for start in tf.range(0, tf.shape(y)[0], BATCH_SIZE):
      stop = start + BATCH_SIZE
      with tf.GradientTape() as tape:
        tape.watch(trained)
        output = model.predict_on_batch((trained, ()), x[start:stop])
        loss = model.loss(output, y[start:stop])
      gradients = tape.gradient(loss, trained)
      trained = tuple(
        w - LEARNING_RATE * g for w, g in zip(trained, gradients, strict=True)
      )
    return trained

  tensors = [(tf.constant(x), tf.constant(y)) for x, y in clients]
  weights = tuple(tf.constant(w) for w in model.initial_weights[0])

  def run() -> Any:
    nonlocal weights
    trained = [train(weights, x, y) for x, y in tensors]
    weights = tuple(
      tf.add_n(layers) / len(layers) for layers in zip(*trained, strict=True)
    )
    return [w.numpy() for w in weights]

  return run


# Models that all compared programs train.


def mlp() -> tff.learning.models.FunctionalModel:
  """Returns an MLP 784-200-200-62 with 209,662 weights."""

  def predict(weights: Any, x: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = weights
    x = tf.nn.relu(x @ w1 + b1)
    x = tf.nn.relu(x @ w2 + b2)
    return x @ w3 + b3

  shapes = [(784, 200), (200,), (200, 200), (200,), (200, NUM_CLASSES)]
  return _model(predict, [*shapes, (NUM_CLASSES,)], (784,))


def cnn() -> tff.learning.models.FunctionalModel:
  """Returns two convolutional and two dense layers with 1,206,590 weights."""

  def predict(weights: Any, x: Any) -> Any:
    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    x = tf.nn.relu(tf.nn.conv2d(x, k1, 1, "VALID") + b1)
    x = tf.nn.relu(tf.nn.conv2d(x, k2, 1, "VALID") + b2)
    x = tf.reshape(tf.nn.max_pool2d(x, 2, 2, "VALID"), [-1, 9216])
    return tf.nn.relu(x @ w3 + b3) @ w4 + b4

  shapes = [(3, 3, 1, 32), (32,), (3, 3, 32, 64), (64,), (9216, 128), (128,)]
  return _model(
    predict,
    [*shapes, (128, NUM_CLASSES), (NUM_CLASSES,)],
    (28, 28, 1),
  )


MODELS: Mapping[str, Callable[[], tff.learning.models.FunctionalModel]] = {
  "mlp": mlp,
  "cnn": cnn,
}


def _model(
  predict: Callable[[Any, Any], Any],
  shapes: list[tuple[int, ...]],
  example_shape: tuple[int, ...],
) -> tff.learning.models.FunctionalModel:
  rng = np.random.default_rng(0)

  @tf.function
  def predict_on_batch(weights: Any, x: Any, training: bool) -> Any:
    del training
    return predict(weights[0], x)

  def loss(output: Any, label: Any, sample_weight: Any = None) -> Any:
    del sample_weight
    return tf.reduce_mean(
      tf.nn.sparse_softmax_cross_entropy_with_logits(label, output)
    )

  weights = tuple(
    rng.normal(scale=1 / math.sqrt(math.prod(shape[:-1])), size=shape).astype(
      np.float32
    )
    for shape in shapes
  )
  return tff.learning.models.FunctionalModel(
    initial_weights=(weights, ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=loss,
    input_spec=(
      tf.TensorSpec([None, *example_shape], tf.float32),
      tf.TensorSpec([None], tf.int32),
    ),
  )
