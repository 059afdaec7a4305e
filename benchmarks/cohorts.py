"""Measures the time and memory of rounds with large cohorts.

  python -m benchmarks.cohorts --show=parts,growth

  parts      Rounds that compute a cohort in parts or as a whole, in turns.
  growth     The second round of cohorts of several sizes, by default from 10 to
             3,000 clients.

A memory peak is that of the whole program so far. So, to compare peaks, start
the program once for each entry of `--show` and of `--methods`.
"""

import time

from absl import flags

import tff_fair
from benchmarks import measure, workload
from tff_fair.runtime import in_parts_of

_SHOW = flags.DEFINE_list("show", ["parts"], "What to measure.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 20, "Rounds timed.")
_METHODS = flags.DEFINE_list("methods", ["fedavg", "fedmgda_plus"], "Methods.")
_CLIENTS = flags.DEFINE_list(
  "clients", ["10", "100", "1000", "3000"], "Sizes of cohorts, of `growth`."
)


def _show_parts() -> None:
  model = workload.mlp()
  tff_fair.runtime.use_local()
  for method in _METHODS.value:
    process = workload.process(method, model)
    for num_clients, size in ((10, 32), (100, 32), (100, 10)):
      run = workload.rounds(process, workload.client_data(model, num_clients))
      seconds = measure.time_in_turns(
        {"whole": in_parts_of(0)(run), f"in {size}s": in_parts_of(size)(run)},
        repetitions=_REPETITIONS.value,
      )
      print(f"{method}, {num_clients} clients")
      print(measure.ratio_table(seconds, "whole"))


def _show_growth() -> None:
  model = workload.mlp()
  for method in _METHODS.value:
    process = workload.process(method, model)
    for num_clients in map(int, _CLIENTS.value):
      data = workload.client_data(model, num_clients, 20)
      tff_fair.runtime.use_local()
      run = workload.rounds(process, data)
      run()
      start = time.perf_counter()
      run()
      seconds = time.perf_counter() - start
      print(
        f"{method}, {num_clients} clients: {seconds:.2f} s, "
        f"{1000 * seconds / num_clients:.1f} ms a client; peak "
        f"{measure.peak_memory_mb():.0f} MiB"
      )


_SHOWN = {"parts": _show_parts, "growth": _show_growth}


def main() -> None:
  """Prints the requested measurements."""
  for name in _SHOW.value:
    _SHOWN[name]()


if __name__ == "__main__":
  measure.run(main)
