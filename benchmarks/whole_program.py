"""Times whole programs, from the command to the end or to the first round.

python -m benchmarks.whole_program [--data_dir=DIR] [--before=CHECKOUT]
python -m benchmarks.whole_program --show=start
python -m benchmarks.whole_program --show=sweep [--runs=12]

mnist  `python -m binaries.train` on label shards, with an MLP 784-200-200-10
       and ten clients per round, against `benchmarks.plain_program`, which does
       the same training and evaluation, but writes nothing. The latter always
       trains FedAvg, so the tables include the extra cost of other methods.
       With --before, another checkout of this project takes turns. The tables
       also have the median time of all rounds but the first. With 1,000
       clients, few clients of a round are loaded already.
start  The time until a run on the digits writes the first line of timing.csv
       in a new folder: without the cache of compiled computations, with an
       empty cache, and with a filled one. Imports are also timed separately.
sweep  Runs of 20 rounds as one sweep with two jobs, and as separate programs
       one after the other, first with an empty cache and then with a filled
       one.
"""

import contextlib
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import flags

from benchmarks import measure

_SHOW = flags.DEFINE_enum("show", "mnist", ["mnist", "start", "sweep"], "")
_DATA_DIR = flags.DEFINE_string(
  "data_dir", None, "Folder of MNIST's files; made data of its size without."
)
_BEFORE = flags.DEFINE_string(
  "before", None, "The checkout of another version, which has its .venv."
)
_ROUNDS = flags.DEFINE_integer(
  "rounds", 50, "Rounds of all rows of `mnist` but the first."
)
_METHODS = flags.DEFINE_list("methods", [], "Methods to time; none for all.")
_RUNS = flags.DEFINE_integer("runs", 12, "Runs of a sweep.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 3, "Turns.")

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_CLIENTS_PER_ROUND = 10
_PLAIN, _BEFORE_NAME, _NOW = "plain TensorFlow", "before", "tff_fair"
_POLL_SECONDS = 0.05


def _run_timed(
  arguments: Sequence[str],
  checkout: pathlib.Path = _ROOT,
  cache: str | None = None,
) -> tuple[float, str]:
  """Runs a Python program; returns its seconds and its output."""
  python = sys.executable
  if checkout != _ROOT:
    python = str(checkout / ".venv" / "bin" / "python")
  start = time.perf_counter()
  program = subprocess.run(
    [python, *arguments],
    cwd=checkout,
    env=_environment(cache),
    capture_output=True,
    text=True,
    check=False,
  )
  seconds = time.perf_counter() - start
  if program.returncode:
    raise RuntimeError(
      f"{' '.join(arguments)} ended with status {program.returncode}: "
      f"{program.stderr.strip()[-2000:]}"
    )
  return seconds, program.stdout


def _environment(cache: str | None) -> Mapping[str, str]:
  return os.environ if cache is None else os.environ | {"XDG_CACHE_HOME": cache}


# Runs on MNIST, against plain TensorFlow.


class Row(NamedTuple):
  """The settings of the training that a row of the table times."""

  algorithm: str
  num_clients: int
  rounds: int


class Timed(NamedTuple):
  """A program's time in total, and the median time of its rounds."""

  seconds: float
  round_seconds: float


def _rows() -> Mapping[str, Row]:
  rounds = _ROUNDS.value
  return {
    "fedavg, one round": Row("fedavg", 100, 1),
    "fedavg": Row("fedavg", 100, rounds),
    "fedavg, fresh cohorts": Row("fedavg", 1000, rounds),
    "fedfv": Row("fedfv", 100, rounds),
    "ditto": Row("ditto", 100, rounds),
    "fedfa": Row("fedfa", 100, rounds),
  }


def _make_data(folder: pathlib.Path) -> None:
  """Writes random images and labels as MNIST's four files."""
  random = np.random.default_rng(0)
  for half, number in (("train", 60_000), ("t10k", 10_000)):
    for kind, array in (
      ("images-idx3", random.integers(0, 256, (number, 28, 28), np.uint8)),
      ("labels-idx1", random.integers(0, 10, number, np.uint8)),
    ):
      head = bytes([0, 0, 8, array.ndim])
      sizes = np.array(array.shape, ">i4").tobytes()
      path = folder / f"{half}-{kind}-ubyte"
      path.write_bytes(head + sizes + array.tobytes())


def _plain(row: Row, data_dir: pathlib.Path) -> Timed:
  numbers = (row.num_clients, _CLIENTS_PER_ROUND, row.rounds)
  seconds, output = _run_timed(
    ["-m", "benchmarks.plain_program", str(data_dir), *map(str, numbers)]
  )
  return Timed(seconds, _median_round(json.loads(output)["round_seconds"]))


def _ours(row: Row, data_dir: pathlib.Path, checkout: pathlib.Path) -> Timed:
  with tempfile.TemporaryDirectory() as folder:
    output = pathlib.Path(folder) / "run"
    seconds, _ = _run_timed(
      [
        *("-m", "binaries.train", "--task=mnist", f"--data_dir={data_dir}"),
        f"--task_option=num_clients={row.num_clients}",
        "--task_option=model=mlp",
        f"--algorithm={row.algorithm}",
        f"--clients_per_round={_CLIENTS_PER_ROUND}",
        f"--total_rounds={row.rounds}",
        "--rounds_per_evaluation=10",
        f"--output_dir={output}",
      ],
      checkout,
    )
    with (output / "timing.csv").open(newline="") as timing:
      rounds = [float(r["round_seconds"]) for r in csv.DictReader(timing)]
  return Timed(seconds, _median_round(rounds))


def _median_round(seconds: Sequence[float]) -> float:
  return statistics.median(seconds[1:] or seconds)


def _measure(row: Row, data_dir: pathlib.Path) -> dict[str, list[Timed]]:
  """Runs the programs in turns; maps each program's name to its times."""
  checkouts = {_NOW: _ROOT}
  if _BEFORE.value is not None:
    before = pathlib.Path(_BEFORE.value).resolve()
    checkouts = {_BEFORE_NAME: before, _NOW: _ROOT}
  timed: dict[str, list[Timed]] = {name: [] for name in (_PLAIN, *checkouts)}
  for _ in range(_REPETITIONS.value):
    timed[_PLAIN].append(_plain(row, data_dir))
    for name, checkout in checkouts.items():
      timed[name].append(_ours(row, data_dir, checkout))
  return timed


def _print_tables(
  name: str, row: Row, timed: Mapping[str, Sequence[Timed]]
) -> None:
  for what in Timed._fields if row.rounds > 1 else ("seconds",):
    seconds = {who: [getattr(t, what) for t in timed[who]] for who in timed}
    for baseline in (_PLAIN, _BEFORE_NAME):
      if baseline in seconds:
        title = "whole program" if what == "seconds" else "a round"
        print(f"\n{name}, {row.rounds} rounds: {title}")
        print(measure.ratio_table(seconds, baseline), flush=True)


def _show_mnist() -> None:
  """Prints the times and ratios of each row of settings."""
  with tempfile.TemporaryDirectory() as made:
    data_dir = pathlib.Path(_DATA_DIR.value or made).expanduser().resolve()
    if _DATA_DIR.value is None:
      _make_data(data_dir)
    for name, row in _rows().items():
      if row.algorithm in (_METHODS.value or [row.algorithm]):
        _print_tables(name, row, _measure(row, data_dir))


# Starts and sweeps on the digits.


def _first_round_seconds(cache: str | None = None) -> float:
  """Returns the seconds until the first round of a new run ends.

  `cache` is the folder of compiled computations, or None for no cache.
  """
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
      env=_environment(cache),
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


def _show_start() -> None:
  """Prints the median seconds of imports and of the start of a run."""
  seconds: dict[str, list[float]] = {}
  for _ in range(_REPETITIONS.value):
    with tempfile.TemporaryDirectory() as cache:
      for name, taken in (
        ("import tensorflow", _run_timed(["-c", "import tensorflow"])[0]),
        ("import TFF", _run_timed(["-c", "import tensorflow_federated"])[0]),
        ("first round, no cache", _first_round_seconds()),
        ("first round, empty cache", _first_round_seconds(cache)),
        ("first round, cached", _first_round_seconds(cache)),
      ):
        seconds.setdefault(name, []).append(taken)
  print(measure.ratio_table(seconds, "import TFF"))


def _show_sweep() -> None:
  """Prints the times of runs as one sweep, and as separate programs."""
  num_runs = _RUNS.value
  same = ["--algorithm=fedavg", "--task=digits", "--total_rounds=20"]
  with contextlib.ExitStack() as stack:

    def new_folder() -> str:
      return stack.enter_context(tempfile.TemporaryDirectory())

    of_programs, of_sweep = new_folder(), new_folder()
    for state in ("empty cache", "cached"):
      folder = new_folder()
      programs = sum(
        _run_timed(
          [
            *("-m", "binaries.train", f"--output_dir={folder}/{seed}", *same),
            *("--baseline=none", f"--seed={seed}"),
          ],
          cache=of_programs,
        )[0]
        for seed in range(num_runs)
      )
      sweep, _ = _run_timed(
        [
          *("-m", "binaries.sweep", f"--output_dir={folder}/sweep"),
          *("--jobs=2", "--algorithms=fedavg", "--flag=task=digits"),
          "--flag=total_rounds=20",
          f"--grid=seed={','.join(map(str, range(num_runs)))}",
        ],
        cache=of_sweep,
      )
      print(
        f"{num_runs} runs, {state}: programs {programs:.1f} s, one sweep with "
        f"two jobs {sweep:.1f} s, {sweep / programs:.2f} x"
      )


def main() -> None:
  """Prints the requested times."""
  shown = {"mnist": _show_mnist, "start": _show_start, "sweep": _show_sweep}
  shown[_SHOW.value]()


if __name__ == "__main__":
  measure.run(main)
