"""Random clients for a model, and rounds over them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_fair

NUM_CLASSES = 62

Arrays = tuple[np.ndarray, np.ndarray]


def client_arrays(
  model: tff.learning.models.FunctionalModel,
  num_clients: int,
  num_examples: int,
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
  num_clients: int,
  num_examples: int,
) -> list[tf.data.Dataset]:
  """Returns the same clients as the processes of `tff_fair` take them."""
  return [
    tff_fair.client_dataset(k, tf.data.Dataset.from_tensors(arrays))
    for k, arrays in enumerate(client_arrays(model, num_clients, num_examples))
  ]


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
