"""A round of a Keras model against the same model as a `FunctionalModel`.

784-200-200-62 as the tasks build it, and in bare operations; the same clients.

  python -m benchmarks.model_kinds
"""

import collections

import tensorflow as tf
import tensorflow_federated as tff
from absl import app, flags

import tff_fair
from benchmarks import functional_models, measure, workload
from tasks import models

_REPETITIONS = flags.DEFINE_integer("repetitions", 20, "Rounds timed.")

_CLIENTS = 10
_EXAMPLES = 100


def main(argv: list[str]) -> None:
  """Prints the table."""
  if len(argv) > 1:
    raise app.UsageError(f"No positional arguments expected: {argv[1:]}")
  tff_fair.runtime.use_local()
  functional = functional_models.mlp()

  def keras() -> tff.learning.models.VariableModel:
    return tff.learning.models.from_keras_model(
      models.mlp((784,), (200, 200), workload.NUM_CLASSES, 0),
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      input_spec=functional.input_spec,
      metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
    )

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
    for name, model in (("FunctionalModel", functional), ("Keras", keras))
  )
  seconds = measure.time_in_turns(calls, repetitions=_REPETITIONS.value)
  print(measure.ratio_table(seconds, "FunctionalModel"))


if __name__ == "__main__":
  app.run(main)
