"""What the certificate costs: rounds with stacked sums, without it and with it.

The cohort, model and training are those of `benchmarks.methods_round`. FedAvg
needs no Gram matrix, so its certificate adds the matrix, too. Methods that have
one pay for the point of least norm alone, the last line, and for nothing where
their own direction is that point.

  python -m benchmarks.certificate [--model=mlp|cnn] [--clients=10]
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import flags

import tff_fair
from benchmarks import measure, workload
from tff_fair import kernels

_MODEL = flags.DEFINE_enum(
  "model", "mlp", list(workload.MODELS), "784-200-200-62, or the CNN."
)
_CLIENTS = flags.DEFINE_integer(
  "clients", workload.NUM_CLIENTS, "Clients per round."
)
_REPETITIONS = flags.DEFINE_integer("repetitions", 50, "Rounds timed.")


def main() -> None:
  """Prints the table."""
  tff_fair.runtime.use_local()
  model = workload.MODELS[_MODEL.value]()
  data = workload.client_data(model, _CLIENTS.value)
  calls = {
    name: workload.rounds(
      workload.process(
        "fedavg", model, aggregation="stacked", certificate=certificate
      ),
      data,
    )
    for name, certificate in {"stacked": False, "certificate": True}.items()
  }
  calls["least norm alone"] = _least_norm()
  seconds = measure.time_in_turns(calls, repetitions=_REPETITIONS.value)
  print(measure.ratio_table(seconds, "stacked"), flush=True)


def _least_norm() -> Callable[[], object]:
  """Returns what a certificate computes from a Gram matrix that is known."""
  updates = np.random.default_rng(0).normal(size=(_CLIENTS.value, 1000))
  gram = tf.constant(updates @ updates.T)
  compute = tf.function(kernels.pareto_stationarity)

  def run() -> object:
    return compute(gram).value.numpy()

  return run


if __name__ == "__main__":
  measure.run(main)
