"""Time from the command to the first finished round, against TFF's import.

Runs `python -m binaries.train` on the digits in a new process and a new folder,
and waits for the first line of timing.csv: without the cache of compiled
computations, with an empty one, and with one that a run has filled. What the
program imported by then beyond TFF itself is measured by the import alone, in a
process of its own. With `--runs`, so many runs of 20 rounds, as one sweep with
two jobs, and as programs one after another, each from an empty cache and again.

  python -m benchmarks.start [--repetitions=3] [--runs=12]
"""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from absl import flags

from benchmarks import measure

_REPETITIONS = flags.DEFINE_integer("repetitions", 3, "Times each is timed.")
_RUNS = flags.DEFINE_integer("runs", 0, "Runs of a sweep; 0 for none.")
_ROOT = pathlib.Path(__file__).parent.parent
_POLL_SECONDS = 0.05


def _import_seconds(statement: str) -> float:
  start = time.perf_counter()
  subprocess.run(
    [sys.executable, "-c", statement],
    check=True,
    cwd=_ROOT,
    capture_output=True,
  )
  return time.perf_counter() - start


def _first_round_seconds(cache: str | None = None) -> float:
  """Returns the seconds to the first round, with a folder of caches or none."""
  with tempfile.TemporaryDirectory() as folder:
    output = pathlib.Path(folder) / "run"
    command = [
      *(sys.executable, "-m", "binaries.train", f"--output_dir={output}"),
      *("--task=digits", "--algorithm=fedavg"),
      f"--compilation_cache={cache is not None}",
    ]
    start = time.perf_counter()
    with subprocess.Popen(
      command,
      cwd=_ROOT,
      env={**os.environ, "XDG_CACHE_HOME": cache or ""},
      stdout=subprocess.DEVNULL,
      stderr=subprocess.DEVNULL,
    ) as program:
      try:
        while not (output / "timing.csv").exists():
          if program.poll() is not None:
            raise RuntimeError(
              f"The training program ended with status {program.returncode} "
              f"before its first round; see what it says: {' '.join(command)}"
            )
          time.sleep(_POLL_SECONDS)
        return time.perf_counter() - start
      finally:
        program.terminate()


def _seconds(cache: str, program: str, *arguments: str) -> float:
  """Returns the seconds of a program of ours, with a folder of caches."""
  start = time.perf_counter()
  subprocess.run(
    [sys.executable, "-m", f"binaries.{program}", *arguments],
    check=True,
    cwd=_ROOT,
    env={**os.environ, "XDG_CACHE_HOME": cache},
    capture_output=True,
  )
  return time.perf_counter() - start


def _sweep_seconds(cache: str, folder: str, num_runs: int) -> float:
  return _seconds(
    cache,
    "sweep",
    *(f"--output_dir={folder}/sweep", "--algorithms=fedavg", "--jobs=2"),
    *("--flag=task=digits", "--flag=total_rounds=20"),
    f"--grid=seed={','.join(map(str, range(num_runs)))}",
  )


def _programs_seconds(cache: str, folder: str, num_runs: int) -> float:
  return sum(
    _seconds(
      cache,
      "train",
      *(f"--output_dir={folder}/{seed}", "--algorithm=fedavg"),
      *("--task=digits", "--total_rounds=20", "--baseline=none"),
      f"--seed={seed}",
    )
    for seed in range(num_runs)
  )


def _compare_runs(num_runs: int) -> None:
  """Prints what runs take as one sweep, and as one program each."""
  with contextlib.ExitStack() as stack:

    def new_folder() -> str:
      return stack.enter_context(tempfile.TemporaryDirectory())

    of_programs, of_sweep = new_folder(), new_folder()
    for state in ("empty cache", "cached"):
      programs = _programs_seconds(of_programs, new_folder(), num_runs)
      sweep = _sweep_seconds(of_sweep, new_folder(), num_runs)
      print(
        f"{num_runs} runs, {state}: programs {programs:.1f} s, one sweep with "
        f"two jobs {sweep:.1f} s, {sweep / programs:.2f} x"
      )


def main() -> None:
  """Prints the medians."""
  if _RUNS.value:
    _compare_runs(_RUNS.value)
    return
  rows: dict[str, list[float]] = {}
  for _ in range(_REPETITIONS.value):
    with tempfile.TemporaryDirectory() as cache:
      for name, seconds in (
        ("import tensorflow", _import_seconds("import tensorflow")),
        ("import TFF", _import_seconds("import tensorflow_federated")),
        ("first round, no cache", _first_round_seconds()),
        ("first round, empty cache", _first_round_seconds(cache)),
        ("first round, cached", _first_round_seconds(cache)),
      ):
        rows.setdefault(name, []).append(seconds)
  base = statistics.median(rows["import TFF"])
  for name, values in rows.items():
    median = statistics.median(values)
    print(f"{name:24}  {median:5.1f} s  {median / base:.2f} x import TFF")


if __name__ == "__main__":
  measure.run(main)
