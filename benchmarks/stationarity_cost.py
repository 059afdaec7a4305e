"""Times a round with and without measuring its Pareto stationarity.

FedAvg needs no Gram matrix, so its certificate costs both the matrix and the
least-norm point. Methods that use the matrix pay only for the least-norm point,
whose time is on the last line.

  python -m benchmarks.stationarity_cost [--model=mlp|cnn]
"""

import numpy as np
import tensorflow as tf
from absl import flags

import tff_fair
from benchmarks import measure, workload
from tff_fair import kernels

_MODEL = flags.DEFINE_enum("model", "mlp", list(workload.MODELS), "The model.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 20, "Times each is timed.")


def main() -> None:
  """Prints the times with and without the certificate as a table."""
  tff_fair.runtime.use_local()
  model = workload.MODELS[_MODEL.value]()
  data = workload.client_data(model)
  # With a common direction, the least-norm point is not 0.
  rng = np.random.default_rng(0)
  rows = rng.normal(size=(workload.NUM_CLIENTS, 300)) + rng.normal(size=300)
  gram = tf.constant(rows @ rows.T)
  stationarity = tf.function(kernels.pareto_stationarity)
  calls = {
    name: workload.rounds(
      workload.process(
        "fedavg", model, aggregation="stacked", certificate=certificate
      ),
      data,
    )
    for name, certificate in {"stacked": False, "certificate": True}.items()
  }

  def least_norm() -> object:
    return stationarity(gram).value.numpy()

  calls["least norm alone"] = least_norm
  seconds = measure.time_in_turns(calls, repetitions=_REPETITIONS.value)
  print(measure.ratio_table(seconds, "stacked"))


if __name__ == "__main__":
  measure.run(main)
