"""A small federated problem: softmax regression on six unequal clients."""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import algorithms, client_dataset

NUM_FEATURES = 5
NUM_CLASSES = 3
SIZES = (7, 13, 20, 1, 11, 16)
# These ids are not sorted, do not start at 0, and one exceeds 32 bits.
CLIENT_IDS = (12, 3, 2**40 + 1, 8, 5, 31)
BATCH_SIZE = 4
LEARNING_RATE = 0.1

INPUT_SPEC = (
  tf.TensorSpec([None, NUM_FEATURES], tf.float32),
  tf.TensorSpec([None], tf.int32),
)


def initial_weights() -> tuple[np.ndarray, np.ndarray]:
  rng = np.random.default_rng(1)
  kernel = rng.normal(size=(NUM_FEATURES, NUM_CLASSES), scale=0.3)
  return kernel.astype(np.float32), np.array([0.1, -0.2, 0.0], np.float32)


def model_weights() -> tff.learning.models.ModelWeights:
  return tff.learning.models.ModelWeights(initial_weights(), ())


def client_arrays() -> dict[int, tuple[np.ndarray, np.ndarray]]:
  """Returns the clients' examples by id; clients differ in scale and labels."""
  rng = np.random.default_rng(0)
  arrays = {}
  for k, (client_id, size) in enumerate(zip(CLIENT_IDS, SIZES, strict=True)):
    x = rng.normal(size=(size, NUM_FEATURES), scale=0.5 + 0.4 * k)
    y = rng.choice(NUM_CLASSES, size=size, p=np.roll([0.7, 0.2, 0.1], k))
    arrays[client_id] = (x.astype(np.float32), y.astype(np.int32))
  return arrays


def whole(client_id: int, arrays=None) -> tf.data.Dataset:
  """Returns a client's data as one element, for processes with a batch size."""
  if arrays is None:
    arrays = client_arrays()[client_id]
  return client_dataset(client_id, tf.data.Dataset.from_tensors(arrays))


def cohort(client_ids) -> list[tf.data.Dataset]:
  """Returns the clients' data, a dataset of one element for each client."""
  return [whole(k) for k in client_ids]


def run_rounds(process, cohorts):
  """Returns the state after a round of each cohort of clients."""
  state = process.initialize()
  for client_ids in cohorts:
    state = process.next(state, cohort(client_ids)).state
  return state


def not_a_number(client_id: int) -> tf.data.Dataset:
  """Returns a client's data with a NaN, which excludes the client."""
  x, y = client_arrays()[client_id]
  x[0, 0] = np.nan
  return whole(client_id, (x, y))


def empty(client_id: int) -> tf.data.Dataset:
  """Returns the data of a client without examples, and so without its id."""
  return whole(client_id, client_arrays()[12]).take(0)


def batched(client_id: int, batch_size: int = BATCH_SIZE) -> tf.data.Dataset:
  """Returns a client's minibatches, for processes without a batch size."""
  arrays = client_arrays()[client_id]
  return client_dataset(
    client_id, tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)
  )


ACCURACY = {"accuracy": tf.keras.metrics.SparseCategoricalAccuracy}


def functional_model(
  metrics=ACCURACY, **changes
) -> tff.learning.models.FunctionalModel:
  """Returns the problem's model with `metrics`; `changes` replace its parts."""

  @tf.function
  def predict(weights, x, training):
    del training
    kernel, bias = weights[0]
    return x @ kernel + bias

  def loss(output, label, sample_weight=None):
    del sample_weight
    return tf.reduce_mean(
      tf.nn.sparse_softmax_cross_entropy_with_logits(label, output)
    )

  arguments: dict[str, Any] = {
    "initial_weights": (initial_weights(), ()),
    "predict_on_batch_fn": predict,
    "loss_fn": loss,
    "input_spec": INPUT_SPEC,
    **changes,
  }
  if metrics:
    arguments["metrics_fns"] = (
      tff.learning.metrics.create_functional_metric_fns(
        lambda: collections.OrderedDict((n, m()) for n, m in metrics.items())
      )
    )
  return tff.learning.models.FunctionalModel(**arguments)


def keras_model() -> tff.learning.models.VariableModel:
  kernel, bias = initial_weights()
  model = tf.keras.Sequential(
    [
      tf.keras.layers.InputLayer(NUM_FEATURES),
      tf.keras.layers.Dense(
        NUM_CLASSES,
        kernel_initializer=tf.keras.initializers.Constant(kernel),
        bias_initializer=tf.keras.initializers.Constant(bias),
      ),
    ]
  )
  return tff.learning.models.from_keras_model(
    model,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=INPUT_SPEC,
    metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
  )


def optimizer(learning_rate: float = LEARNING_RATE):
  return tff.learning.optimizers.build_sgdm(learning_rate)


def process(name: str, model_fn=None, **options):
  """Returns the process of the method `name` on the problem."""
  return algorithms.build(
    name,
    model_fn or functional_model(),
    **{"client_optimizer": optimizer(), "batch_size": BATCH_SIZE, **options},
  )


def flat(structure) -> np.ndarray:
  """Flattens a structure, or a model's trainable weights, to float64."""
  if isinstance(structure, tff.learning.models.ModelWeights):
    structure = structure.trainable
  return np.concatenate(
    [np.ravel(x).astype(np.float64) for x in tf.nest.flatten(structure)]
  )


def flat_weights(state) -> np.ndarray:
  """Returns the trainable weights of a process state as one float64 vector."""
  return flat(state.global_model_weights)
