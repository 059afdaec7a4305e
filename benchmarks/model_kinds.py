"""A round of a Keras model against the same model as a `FunctionalModel`.

The tasks' models in TFF's two forms, with the same metrics; the same clients.

  python -m benchmarks.model_kinds [--model=mlp] [--repetitions=20]
"""

import collections

import tensorflow as tf
import tensorflow_federated as tff
from absl import app, flags

import tff_fair
from benchmarks import measure, workload
from tasks import models

_MODEL = flags.DEFINE_enum(
  "model",
  "mlp",
  ["linear", "mlp", "cnn", "cnn_dropout"],
  "What to compare; mlp is 784-200-200-62.",
)
_REPETITIONS = flags.DEFINE_integer("repetitions", 20, "Rounds timed.")

_CLIENTS = 10
_EXAMPLES = 100
_IMAGE = (28, 28, 1)


def _build() -> tf.keras.Model:
  if _MODEL.value == "cnn_dropout":
    return models.dropout_cnn(workload.NUM_CLASSES, 0)
  build = models.image_classifier(_MODEL.value, _IMAGE, workload.NUM_CLASSES, 0)
  return build()


def main(argv: list[str]) -> None:
  """Prints the table."""
  if len(argv) > 1:
    raise app.UsageError(f"No positional arguments expected: {argv[1:]}")
  tff_fair.runtime.use_local()
  element_spec = (
    tf.TensorSpec([None, *_IMAGE], tf.float32),
    tf.TensorSpec([None], tf.int32),
  )
  functional = models.functional_model(_build, element_spec)
  kinds = [
    ("FunctionalModel", functional),
    ("Keras", models.model_fn(_build, element_spec)),
  ]
  data = workload.client_data(functional, _CLIENTS, _EXAMPLES)
  calls = collections.OrderedDict(
    (
      name,
      workload.rounds(
        tff_fair.algorithms.build_fedavg(
          model,
          client_optimizer=tff.learning.optimizers.build_sgdm(0.05),
          batch_size=20,
        ),
        data,
      ),
    )
    for name, model in kinds
  )
  seconds = measure.time_in_turns(calls, repetitions=_REPETITIONS.value)
  print(measure.ratio_table(seconds, "FunctionalModel"))


if __name__ == "__main__":
  app.run(main)
