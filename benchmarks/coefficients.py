"""What the coefficients of the geometric methods cost, in a round of the CNN.

FedMGDA+'s quadratic program at m = 100, and FedFV with ten clients and the
cohorts of ten rounds remembered: the inner products that are new in a round
(10 x 110, d = 1.2 M) and the rule on the Gram matrix of 110 updates. Against a
FedAvg round of the CNN over 10 clients x 100 examples.

  python -m benchmarks.coefficients
"""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from absl import flags

import tff_fair
from benchmarks import measure, workload
from tff_fair import kernels, types
from tff_fair.methods import fedfv

_REPETITIONS = flags.DEFINE_integer("repetitions", 10, "Times each is timed.")

_CLIENTS_OF_PROGRAM = 100
_CLIENTS = 10
_ROUNDS_REMEMBERED = 10
_WEIGHTS = 1_206_590


def _gram(num_rows: int) -> np.ndarray:
  """Returns the Gram matrix of updates that share a direction."""
  rng = np.random.default_rng(0)
  rows = rng.normal(size=(num_rows, 300)) + rng.normal(size=300)
  return rows @ rows.T


def _fedfv_rule() -> Any:
  rule = fedfv.FedFvRule(alpha=0.1, tau=_ROUNDS_REMEMBERED)
  num_remembered = _CLIENTS * _ROUNDS_REMEMBERED
  gram = tf.constant(_gram(_CLIENTS + num_remembered))
  cohort = types.Cohort(
    client_id=tf.range(_CLIENTS, dtype=tf.int64),
    weight=tf.fill([_CLIENTS], tf.constant(1 / _CLIENTS, tf.float64)),
    num_examples=tf.fill([_CLIENTS], tf.constant(100.0, tf.float64)),
    loss=tf.linspace(tf.constant(0.1, tf.float64), 2.0, _CLIENTS),
    squared_norm=tf.linalg.diag_part(gram)[:_CLIENTS],
    gram=gram,
    remembered_id=tf.range(_CLIENTS, _CLIENTS + num_remembered, dtype=tf.int64),
    remembered_age=tf.repeat(tf.range(1, _ROUNDS_REMEMBERED + 1), _CLIENTS),
  )

  @tf.function
  def coefficients() -> Any:
    return rule.coefficients(cohort, rule.initialize()).coefficients

  return lambda: coefficients().numpy()


def main() -> None:
  """Prints the table."""
  tff_fair.runtime.use_local()
  model = workload.cnn()
  process = tff_fair.algorithms.build_fedavg(
    model,
    client_optimizer=tff.learning.optimizers.build_sgdm(0.05),
    batch_size=20,
  )
  gram = tf.constant(_gram(_CLIENTS_OF_PROGRAM))
  rows = tf.random.stateless_normal([_CLIENTS, _WEIGHTS], [0, 1])
  remembered = tf.random.stateless_normal(
    [_CLIENTS * _ROUNDS_REMEMBERED, _WEIGHTS], [0, 2]
  )

  @tf.function
  def program(gram: tf.Tensor) -> tf.Tensor:
    # The box of epsilon = 0.01 around equal weights.
    return kernels.min_norm_point(gram, 0.0, 0.02).coefficients

  @tf.function
  def new_products() -> tf.Tensor:
    return kernels.inner_products([rows], [remembered])

  seconds = measure.time_in_turns(
    {
      "FedAvg round, CNN": workload.rounds(
        process, workload.client_data(model, _CLIENTS, 100)
      ),
      "FedMGDA+, program, m = 100": lambda: program(gram).numpy(),
      "FedFV, rule, tau = 10": _fedfv_rule(),
      "FedFV, inner products": lambda: new_products().numpy(),
    },
    repetitions=_REPETITIONS.value,
  )
  print(measure.ratio_table(seconds, "FedAvg round, CNN"))


if __name__ == "__main__":
  measure.run(main)
