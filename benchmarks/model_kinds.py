"""A round of a Keras model against the same model as a `FunctionalModel`.

The tasks' models in TFF's two forms, with the same metrics; the same clients.

  python -m benchmarks.model_kinds [--model=mlp] [--repetitions=20]
"""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from absl import flags

import tff_fair
from benchmarks import measure, workload
from tasks import models

_MODEL = flags.DEFINE_enum(
  "model",
  "mlp",
  ["linear", "mlp", "cnn", "cnn_dropout", "tags"],
  "What to compare; mlp is 784-200-200-62, tags has 10,000 words and 500 tags.",
)
_REPETITIONS = flags.DEFINE_integer("repetitions", 20, "Rounds timed.")

_CLIENTS = 10
_EXAMPLES = 100
_IMAGE = (28, 28, 1)
_WORDS, _TAGS, _TEXT_LENGTH = 10_000, 500, 60


def _build() -> tf.keras.Model:
  if _MODEL.value == "tags":
    return models.bag_of_words_regression(_WORDS, _TAGS, 0)
  if _MODEL.value == "cnn_dropout":
    return models.dropout_cnn(workload.NUM_CLASSES, 0)
  build = models.image_classifier(_MODEL.value, _IMAGE, workload.NUM_CLASSES, 0)
  return build()


def _image_clients() -> tuple[Any, Any, list[tf.data.Dataset]]:
  element_spec = (
    tf.TensorSpec([None, *_IMAGE], tf.float32),
    tf.TensorSpec([None], tf.int32),
  )
  functional = models.functional_model(_build, element_spec)
  data = workload.client_data(functional, _CLIENTS, _EXAMPLES)
  return functional, models.model_fn(_build, element_spec), data


def _text_clients() -> tuple[Any, Any, list[tf.data.Dataset]]:
  element_spec = (
    tf.TensorSpec([None, _TEXT_LENGTH], tf.int32),
    tf.TensorSpec([None, _TAGS], tf.float32),
  )
  rng = np.random.default_rng(0)
  data = [
    tff_fair.client_dataset(
      k,
      tf.data.Dataset.from_tensors(
        (
          rng.integers(1, _WORDS, (_EXAMPLES, _TEXT_LENGTH), np.int32),
          (rng.random((_EXAMPLES, _TAGS)) < 0.01).astype(np.float32),
        )
      ),
    )
    for k in range(_CLIENTS)
  ]
  functional = models.multi_label_functional_model_fn(_build, element_spec)()
  return functional, models.multi_label_model_fn(_build, element_spec), data


def main() -> None:
  """Prints the table."""
  tff_fair.runtime.use_local()
  clients = _text_clients if _MODEL.value == "tags" else _image_clients
  functional, keras, data = clients()
  calls = {
    name: workload.rounds(
      tff_fair.algorithms.build_fedavg(
        model,
        client_optimizer=tff.learning.optimizers.build_sgdm(0.05),
        batch_size=20,
      ),
      data,
    )
    for name, model in (("FunctionalModel", functional), ("Keras", keras))
  }
  seconds = measure.time_in_turns(calls, repetitions=_REPETITIONS.value)
  print(measure.ratio_table(seconds, "FunctionalModel"))


if __name__ == "__main__":
  measure.run(main)
