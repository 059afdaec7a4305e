"""The tasks' models in two forms, side by side.

A round of a Keras model against the same model as a `FunctionalModel`, with the
same metrics and clients. Of `lstm`, Shakespeare's model, a training step on one
thread or more: with our LSTM against Keras' own.

  python -m benchmarks.model_kinds [--model=mlp] [--repetitions=20]
  python -m benchmarks.model_kinds --model=lstm [--threads=1]
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from absl import flags

import tff_fair
from benchmarks import measure, workload
from tasks import models
from tasks.models import exportable

_MODEL = flags.DEFINE_enum(
  "model",
  "mlp",
  ["linear", "mlp", "cnn", "cnn_dropout", "tags", "lstm"],
  "What to compare; mlp is 784-200-200-62, tags has 10,000 words and 500 tags.",
)
_THREADS = flags.DEFINE_integer("threads", 1, "TensorFlow's, of `lstm`.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 20, "Times each is timed.")

_IMAGE = (28, 28, 1)
_WORDS, _TAGS, _TEXT_LENGTH = 10_000, 500, 60
_CHARACTERS, _TEXTS, _LENGTH = 90, 10, 80

_Calls = dict[str, Callable[[], object]]


def _build() -> tf.keras.Model:
  if _MODEL.value == "tags":
    return models.bag_of_words_regression(_WORDS, _TAGS, 0)
  if _MODEL.value == "cnn_dropout":
    return models.dropout_cnn(workload.NUM_CLASSES, 0)
  build = models.image_classifier(_MODEL.value, _IMAGE, workload.NUM_CLASSES, 0)
  return build()


def _of_images() -> tuple[Any, Any, list[tf.data.Dataset]]:
  element_spec = (
    tf.TensorSpec([None, *_IMAGE], tf.float32),
    tf.TensorSpec([None], tf.int32),
  )
  functional = models.functional_model(_build, element_spec)
  keras = models.class_objective().model_fn(_build, element_spec)
  return functional, keras, workload.client_data(functional)


def _of_texts() -> tuple[Any, Any, list[tf.data.Dataset]]:
  element_spec = (
    tf.TensorSpec([None, _TEXT_LENGTH], tf.int32),
    tf.TensorSpec([None, _TAGS], tf.float32),
  )
  rng = np.random.default_rng(0)
  num = workload.NUM_EXAMPLES
  data = [
    tff_fair.client_dataset(
      k,
      tf.data.Dataset.from_tensors(
        (
          rng.integers(1, _WORDS, (num, _TEXT_LENGTH), np.int32),
          (rng.random((num, _TAGS)) < 0.01).astype(np.float32),
        )
      ),
    )
    for k in range(workload.NUM_CLIENTS)
  ]
  objective = models.multi_label_objective()
  functional = objective.functional_model_fn(_build, element_spec)()
  return functional, objective.model_fn(_build, element_spec), data


def _rounds() -> _Calls:
  tff_fair.runtime.use_local()
  functional, keras, data = (
    _of_texts() if _MODEL.value == "tags" else _of_images()
  )
  return {
    name: workload.rounds(workload.process("fedavg", model), data)
    for name, model in (("FunctionalModel", functional), ("Keras", keras))
  }


def _steps() -> _Calls:
  tf.config.threading.set_intra_op_parallelism_threads(_THREADS.value)
  tf.config.threading.set_inter_op_parallelism_threads(_THREADS.value)
  ours = models.character_lstm(_CHARACTERS, seed=0)
  keras = exportable.build(exportable.describe(ours, "keras"))
  keras.set_weights(ours.get_weights())
  return {"Keras' LSTM": _step(keras), "ours": _step(ours)}


def _step(model: tf.keras.Model) -> Callable[[], object]:
  """Returns the gradient of a batch of texts by all weights."""
  rng = np.random.default_rng(0)
  x, y = rng.integers(0, _CHARACTERS, (2, _TEXTS, _LENGTH), np.int32)

  @tf.function(autograph=False)
  def step() -> list[tf.Tensor]:
    with tf.GradientTape() as tape:
      losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x))
      loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, model.trainable_variables)
    return [tf.convert_to_tensor(gradient) for gradient in gradients]

  return lambda: [gradient.numpy() for gradient in step()]


def main() -> None:
  """Prints the table."""
  calls = _steps() if _MODEL.value == "lstm" else _rounds()
  seconds = measure.time_in_turns(calls, repetitions=_REPETITIONS.value)
  print(measure.ratio_table(seconds, next(iter(calls))))


if __name__ == "__main__":
  measure.run(main)
