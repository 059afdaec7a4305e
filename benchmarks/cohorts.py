"""Rounds of large cohorts: their time, and the program's memory.

  python -m benchmarks.cohorts --show=parts,growth

  parts      A cohort in parts, beside the same cohort as a whole, in turns.
  memory     The peak in rounds of parts of several sizes.
  growth     The second round of cohorts that grow, by default up to 3,000.
  stacked    Updates that the server collects, with their Gram matrix, beside
             TFF's mean of them. Clients make their updates from a seed and
             train nothing, so all that is timed is overhead.

A peak is that of the program so far: ask for one `--show` and way at a time.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from absl import flags

import tff_fair
from benchmarks import measure, workload
from tff_fair.runtime import in_parts_of

_SHOW = flags.DEFINE_list("show", ["parts"], "What to measure.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 20, "Rounds timed.")
_WAYS = flags.DEFINE_list(
  "ways", ["fedavg", "fedmgda_plus"], "Methods; stacked: `mean` in place of it."
)
_CLIENTS = flags.DEFINE_list(
  "clients", None, "Sizes of cohorts, of `growth` and `stacked`."
)

_STACKED_WEIGHTS = 1_200_000
_MIB = 2**20


def _sizes(*default: int) -> list[int]:
  return [*map(int, _CLIENTS.value or default)]


def _in_parts(run: Callable[[], Any], size: int) -> Callable[[], Any]:
  def run_in_parts() -> Any:
    with in_parts_of(size):
      return run()

  return run_in_parts


def _show_parts() -> None:
  model = workload.mlp()
  tff_fair.runtime.use_local()
  for way in _WAYS.value:
    process = workload.process(way, model)
    for num_clients, size in ((10, 32), (100, 32), (100, 10)):
      run = workload.rounds(process, workload.client_data(model, num_clients))
      seconds = measure.time_in_turns(
        {"whole": _in_parts(run, 0), f"in {size}s": _in_parts(run, size)},
        repetitions=_REPETITIONS.value,
      )
      print(f"{way}, {num_clients} clients")
      print(measure.ratio_table(seconds, "whole"))


def _show_memory() -> None:
  num_clients = 100
  model = workload.linear(1000)
  data = workload.client_data(model, num_clients, 1)
  for way in _WAYS.value:
    process = workload.process(way, model)
    for size in (0, 32, 10):
      tff_fair.runtime.use_local()
      run = _in_parts(workload.rounds(process, data), size)
      for _ in range(3):
        run()
      print(
        f"{way}, {num_clients} clients, d = 1 M, parts of {size or 'all'}: "
        f"peak {measure.peak_memory_mb():.0f} MiB"
      )


def _show_growth() -> None:
  model = workload.mlp()
  for way in _WAYS.value:
    process = workload.process(way, model)
    for num_clients in _sizes(10, 100, 1000, 3000):
      data = workload.client_data(model, num_clients, 20)
      tff_fair.runtime.use_local()
      run = workload.rounds(process, data)
      run()
      start = time.perf_counter()
      run()
      seconds = time.perf_counter() - start
      print(
        f"{way}, {num_clients} clients: {seconds:.2f} s, "
        f"{1000 * seconds / num_clients:.1f} ms a client; peak "
        f"{measure.peak_memory_mb():.0f} MiB"
      )


def _show_stacked() -> None:
  for num_clients in _sizes(50):
    seconds: dict[str, list[float]] = {}
    peaks = {}
    ways = ("mean", *(way for way in _WAYS.value if way != "fedavg"))
    for way in ways:
      tff_fair.runtime.use_local()
      seconds |= measure.time_in_turns(
        {way: _summing(way, num_clients)}, repetitions=_REPETITIONS.value
      )
      peaks[way] = measure.peak_memory_mb()
    print(f"{num_clients} clients, {_STACKED_WEIGHTS:,} weights")
    print(measure.ratio_table(seconds, "mean"))
    update_mb = num_clients * _STACKED_WEIGHTS * 4 / _MIB
    for way, peak in peaks.items():
      above = peak - peaks["mean"]
      print(
        f"{way}: peak memory {peak:.0f} MiB, above that of the mean "
        f"{above:.0f} MiB = {above / update_mb:.2f} x m d"
      )


def _summing(way: str, num_clients: int) -> Callable[[], Any]:
  """Returns a function that sums the updates of so many clients."""
  # Layers as a network's: one large, two small.
  shapes = [(_STACKED_WEIGHTS - 12_010,), (12_000,), (10,)]
  update_type = tff.types.tensorflow_to_type(
    tuple(tf.TensorSpec(shape, tf.float32) for shape in shapes)
  )
  number = tf.TensorSpec([], tf.float32)
  if way == "mean":
    factory = tff.aggregators.MeanFactory()
    weight_spec = number
  else:
    rule = tff_fair.algorithms.get(way).build.rule()
    factory = tff_fair.aggregators.RuleFactory(rule)
    weight_spec = tff_fair.ClientSignals(
      tf.TensorSpec([], tf.int64), *[number] * 7
    )
  process = factory.create(
    update_type, tff.types.tensorflow_to_type(weight_spec)
  )

  @tff.tensorflow.computation(np.int64)
  def work(client_id: Any) -> Any:
    # Cheap, and different for every client.
    start = tf.random.stateless_uniform([1024], [client_id, 1])
    update = tuple(
      tf.tile(start, [-(-size // 1024)])[:size] for (size,) in shapes
    )
    if way == "mean":
      return update, start[0]
    return update, tff_fair.ClientSignals(client_id, *[start[0]] * 7)

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


_SHOWN = {
  "parts": _show_parts,
  "memory": _show_memory,
  "growth": _show_growth,
  "stacked": _show_stacked,
}


def main() -> None:
  """Prints what was asked for."""
  for name in _SHOW.value:
    _SHOWN[name]()


if __name__ == "__main__":
  measure.run(main)
