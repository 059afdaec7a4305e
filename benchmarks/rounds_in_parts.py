"""Rounds in parts: what they take more, their bytes, and the worker's memory.

Times compare a cohort in parts with the same cohort as a whole, in turns, in
one worker. Bytes are those of a worker on another host: this one shares no
memory with the program. Each peak is that of a worker of its own.

  python -m benchmarks.rounds_in_parts [--show=time,bytes,memory,cohorts]
"""

import collections
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import tensorflow_federated as tff
from absl import flags

import tff_fair
from benchmarks import measure, workload
from tff_fair.runtime import in_parts_of, shared_memory

_SHOW = flags.DEFINE_list(
  "show", ["time", "bytes", "memory", "cohorts"], "What to measure."
)
_REPETITIONS = flags.DEFINE_integer("repetitions", 20, "Rounds timed.")
_WAYS = flags.DEFINE_list(
  "ways", ["fedavg", "fedmgda_plus"], "Methods whose time and memory to show."
)
_COHORTS = flags.DEFINE_list(
  "cohorts", ["10", "100", "1000", "3000"], "Sizes of cohorts."
)

_REQUESTS = (
  "create_value",
  "create_struct",
  "create_call",
  "create_selection",
  "compute",
)

_EXAMPLES = 100
_BATCH_SIZE = 20
_MIB = 2**20


def _build(name: str, model: Any) -> tff.learning.templates.LearningProcess:
  return tff_fair.algorithms.build(
    name,
    model,
    client_optimizer=tff.learning.optimizers.build_sgdm(0.05),
    batch_size=_BATCH_SIZE,
  )


def _in_parts(run: Callable[[], Any], size: int) -> Callable[[], Any]:
  def run_in_parts() -> Any:
    with in_parts_of(size):
      return run()

  return run_in_parts


def _show_time() -> None:
  model = workload.mlp()
  tff_fair.runtime.use_local()
  for way in _WAYS.value:
    process = _build(way, model)
    for num_clients, size in ((10, 32), (100, 32), (100, 10)):
      data = workload.client_data(model, num_clients, _EXAMPLES)
      run = workload.rounds(process, data)
      seconds = measure.time_in_turns(
        {"whole": _in_parts(run, 0), f"in {size}s": _in_parts(run, size)},
        repetitions=_REPETITIONS.value,
      )
      print(f"{way}, {num_clients} clients")
      print(measure.ratio_table(seconds, "whole"))


@contextlib.contextmanager
def _in_messages() -> Iterator[None]:
  """Has workers get all in messages, as workers on other hosts do."""
  with mock.patch.object(shared_memory, "is_available", return_value=False):
    yield


@contextlib.contextmanager
def _counted() -> Iterator[collections.Counter[str]]:
  """Counts the bytes of all messages, `up` to workers and `down` from them."""
  found: collections.Counter[str] = collections.Counter()

  def counting(send: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(stub: Any, request: Any) -> Any:
      response = send(stub, request)
      found["up"] += request.ByteSize()
      found["down"] += response.ByteSize()
      return response

    return wrapped

  with contextlib.ExitStack() as patches:
    for name in _REQUESTS:
      stub = tff.framework.RemoteExecutorGrpcStub
      patches.enter_context(
        mock.patch.object(stub, name, counting(getattr(stub, name)))
      )
    yield found


def _show_bytes() -> None:
  num_clients, width = 16, 500
  model = workload.linear(width)
  data = workload.client_data(model, num_clients, 1)
  stacked = num_clients * width * width * 4
  print(f"{num_clients} clients; m d is {stacked / _MIB:.1f} MiB")
  with _in_messages():
    tff_fair.runtime.use_local()
    for way in ("fedavg", "fedmgda_plus", "fedfv"):
      run = workload.rounds(_build(way, model), data)
      for num_parts in (1, 2, 4, 8):
        run_in_parts = _in_parts(run, num_clients // num_parts)
        run_in_parts()  # The worker keeps computations and data.
        run_in_parts()
        with _counted() as found:
          run_in_parts()
        print(
          f"{way}, {num_parts} parts: down {found['down'] / stacked:.2f} m d, "
          f"up {found['up'] / stacked:.2f} m d"
        )


def _show_memory() -> None:
  num_clients = 100
  model = workload.linear(1000)
  data = workload.client_data(model, num_clients, 1)
  for way in _WAYS.value:
    process = _build(way, model)
    for size in (0, 32, 10):
      tff_fair.runtime.use_local()
      run = _in_parts(workload.rounds(process, data), size)
      for _ in range(3):
        run()
      (pid,) = tff_fair.runtime.worker_pids()
      print(
        f"{way}, {num_clients} clients, d = 1 M, parts of {size or 'all'}: "
        f"worker's peak {measure.peak_memory_mb(pid):.0f} MiB"
      )


def _show_cohorts() -> None:
  model = workload.mlp()
  for way in _WAYS.value:
    process = _build(way, model)
    for num_clients in map(int, _COHORTS.value):
      data = workload.client_data(model, num_clients, 20)
      tff_fair.runtime.use_local()
      run = workload.rounds(process, data)
      run()
      start = time.perf_counter()
      run()
      seconds = time.perf_counter() - start
      (pid,) = tff_fair.runtime.worker_pids()
      print(
        f"{way}, {num_clients} clients: {seconds:.2f} s, "
        f"{1000 * seconds / num_clients:.1f} ms a client; worker's peak "
        f"{measure.peak_memory_mb(pid):.0f} MiB, program's "
        f"{measure.peak_memory_mb():.0f} MiB"
      )


_SHOWN = {
  "time": _show_time,
  "bytes": _show_bytes,
  "memory": _show_memory,
  "cohorts": _show_cohorts,
}


def main() -> None:
  """Prints what was asked for."""
  for name in _SHOW.value:
    _SHOWN[name]()


if __name__ == "__main__":
  measure.run(main)
