"""Collecting m updates at the server, against TFF's mean of them, in one run.

Clients make their updates from a seed and train nothing, so that what is timed
is all overhead. The stacked FedMGDA+ collects, computes the Gram matrix and the
combination; `tff.aggregators.MeanFactory` adds up. Memory is the peak of the
worker; each way has a worker of its own.

  python -m benchmarks.collecting_updates [--clients=50] [--weights=1200000]
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from absl import flags

import tff_fair
from benchmarks import measure

_CLIENTS = flags.DEFINE_list("clients", ["50"], "Numbers of clients.")
_WEIGHTS = flags.DEFINE_integer("weights", 1_200_000, "Weights of the model.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 7, "Rounds timed.")
_WAYS = flags.DEFINE_list(
  "ways", ["mean", "fedmgda_plus", "fedfv", "semi_vred"], "What to time."
)


def _factory(way: str) -> tff.aggregators.WeightedAggregationFactory:
  return {
    "mean": tff.aggregators.MeanFactory,
    "fedmgda_plus": tff_fair.aggregators.FedMgdaPlusFactory,
    "fedfv": lambda: tff_fair.aggregators.FedFvFactory(tau=10),
    "semi_vred": tff_fair.aggregators.SemiVRedFactory,
  }[way]()


def _round(way: str, num_clients: int) -> Callable[[], Any]:
  """Returns a function that runs a round of so many clients."""
  # Layers as a network's: one large, two small.
  num_weights = _WEIGHTS.value
  shapes = [(num_weights - 12_010,), (12_000,), (10,)]
  update_type = tff.types.tensorflow_to_type(
    tuple(tf.TensorSpec(shape, tf.float32) for shape in shapes)
  )
  weight_type = tff.types.tensorflow_to_type(
    tff_fair.ClientSignals(
      tf.TensorSpec([], tf.int64), *[tf.TensorSpec([], tf.float32)] * 7
    )
  )
  is_mean = way == "mean"
  process = _factory(way).create(
    update_type, tff.to_type(np.float32) if is_mean else weight_type
  )

  @tff.tensorflow.computation(np.int64)
  def work(client_id: Any) -> Any:
    # Cheap, and different for every client.
    start = tf.random.stateless_uniform([1024], [client_id, 1])
    update = tuple(
      tf.reshape(
        tf.tile(start, [-(-int(np.prod(s)) // 1024)])[: int(np.prod(s))], s
      )
      for s in shapes
    )
    one = tf.ones([])
    loss = start[0]
    signals = tff_fair.ClientSignals(
      client_id, one, loss, loss, one, one, one, loss
    )
    return update, one if is_mean else signals

  @tff.federated_computation(
    process.initialize.type_signature.result,
    tff.FederatedType(np.int64, tff.CLIENTS),
  )
  def next_round(state: Any, client_id: Any) -> Any:
    update, weight = tff.federated_map(work, client_id)
    output = process.next(state, update, weight)
    return output.state, output.result

  state = process.initialize()

  def run() -> Any:
    nonlocal state
    state, result = next_round(state, list(range(num_clients)))
    return result

  return run


def main() -> None:
  """Prints one table per number of clients."""
  for num_clients in map(int, _CLIENTS.value):
    seconds: dict[str, list[float]] = {}
    peaks = {}
    for way in _WAYS.value:
      # A new worker, whose peak is that of this way alone.
      tff_fair.runtime.use_local()
      seconds |= measure.time_in_turns(
        {way: _round(way, num_clients)}, repetitions=_REPETITIONS.value
      )
      (pid,) = tff_fair.runtime.worker_pids()
      peaks[way] = measure.peak_memory_mb(pid)
    print(f"{num_clients} clients, {_WEIGHTS.value:,} weights")
    print(measure.ratio_table(seconds, _WAYS.value[0]))
    update_mb = num_clients * _WEIGHTS.value * 4 / 2**20
    for way, peak in peaks.items():
      above = peak - peaks[_WAYS.value[0]]
      print(
        f"{way}: peak memory {peak:.0f} MiB, above that of "
        f"{_WAYS.value[0]} {above:.0f} MiB = {above / update_mb:.2f} x m d"
      )


if __name__ == "__main__":
  measure.run(main)
