"""Evaluation of many clients against the same forward passes in TensorFlow.

Plain TensorFlow calls one compiled function per client, over arrays that are
tensors already, and gets loss and accuracy back.

  python -m benchmarks.evaluation [--clients=500] [--examples=100]
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff
from absl import flags

import tff_fair
from benchmarks import measure, workload

_MODEL = flags.DEFINE_enum(
  "model", "mlp", list(workload.MODELS), "784-200-200-62, or the CNN."
)
_CLIENTS = flags.DEFINE_integer("clients", 500, "Clients to evaluate.")
_EXAMPLES = flags.DEFINE_integer("examples", 100, "Examples per client.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 10, "Times each is timed.")


def _plain_tensorflow(
  model: tff.learning.models.FunctionalModel,
  clients: list[workload.Arrays],
) -> Callable[[], Any]:
  @tf.function
  def evaluate(weights: Any, x: tf.Tensor, y: tf.Tensor) -> Any:
    output = model.predict_on_batch((weights, ()), x, False)
    hits = tf.equal(tf.argmax(output, 1, tf.int32), y)
    return model.loss(output, y), tf.reduce_mean(tf.cast(hits, tf.float32))

  tensors = [(tf.constant(x), tf.constant(y)) for x, y in clients]
  weights = tuple(tf.constant(w) for w in model.initial_weights[0])
  return lambda: [
    [value.numpy() for value in evaluate(weights, x, y)] for x, y in tensors
  ]


def main() -> None:
  """Prints the table."""
  tff_fair.runtime.use_local()
  model = workload.MODELS[_MODEL.value]()
  size = (_CLIENTS.value, _EXAMPLES.value)
  evaluate = tff_fair.evaluation.build_client_evaluation(model)
  weights = tff.learning.models.ModelWeights(*model.initial_weights)
  data = workload.client_data(model, *size)
  seconds = measure.time_in_turns(
    {
      workload.PLAIN: _plain_tensorflow(
        model, workload.client_arrays(model, *size)
      ),
      "tff_fair": lambda: evaluate(weights, data),
    },
    repetitions=_REPETITIONS.value,
  )
  print(measure.ratio_table(seconds, workload.PLAIN))


if __name__ == "__main__":
  measure.run(main)
