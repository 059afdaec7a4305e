"""Whole programs, from the command to their end, against plain TensorFlow's.

`python -m binaries.train` on MNIST over label shards, with an MLP of
784-200-200-10 and ten clients a round, beside `benchmarks.plain_program`, which
does the same training and evaluation and writes nothing. It trains FedAvg in
every row: what a method costs beyond that shows, too. With --before, another
checkout of this project takes its turn. Beside whole programs, the tables have
their median rounds, without the first. Out of 1,000 clients, nearly every one
that a round draws is new to the worker.

  python -m benchmarks.whole_program [--data_dir=DIR] [--before=CHECKOUT]
"""

import csv
import json
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

_DATA_DIR = flags.DEFINE_string(
  "data_dir", None, "Folder of MNIST's files; made data of its size without."
)
_BEFORE = flags.DEFINE_string(
  "before", None, "The checkout of another version, which has its .venv."
)
_ROUNDS = flags.DEFINE_integer(
  "rounds", 50, "Rounds of all rows but the first."
)
_METHODS = flags.DEFINE_list("methods", [], "Methods to time; none for all.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 3, "Turns.")

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_CLIENTS_PER_ROUND = 10
_PLAIN, _BEFORE_NAME, _NOW = "plain TensorFlow", "before", "tff_fair"


class Row(NamedTuple):
  """What is trained.

  Attributes:
    algorithm: The method.
    num_clients: The number of clients.
    rounds: The number of rounds.
  """

  algorithm: str
  num_clients: int
  rounds: int


class Timed(NamedTuple):
  """What a program took.

  Attributes:
    seconds: All of it.
    round_seconds: Its median round, without the first.
  """

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


def _run_timed(
  command: Sequence[str], checkout: pathlib.Path
) -> tuple[float, str]:
  """Returns the seconds of a program, and its output."""
  start = time.perf_counter()
  program = subprocess.run(
    command, cwd=checkout, capture_output=True, text=True, check=False
  )
  seconds = time.perf_counter() - start
  if program.returncode:
    raise RuntimeError(
      f"{' '.join(command)} ended with status {program.returncode}: "
      f"{program.stderr.strip()[-2000:]}"
    )
  return seconds, program.stdout


def _plain(row: Row, data_dir: pathlib.Path) -> Timed:
  numbers = (row.num_clients, _CLIENTS_PER_ROUND, row.rounds)
  seconds, output = _run_timed(
    [
      *(sys.executable, "-m", "benchmarks.plain_program"),
      *(str(data_dir), *map(str, numbers)),
    ],
    _ROOT,
  )
  return Timed(seconds, _median_round(json.loads(output)["round_seconds"]))


def _ours(row: Row, data_dir: pathlib.Path, checkout: pathlib.Path) -> Timed:
  python = checkout / ".venv" / "bin" / "python"
  with tempfile.TemporaryDirectory() as folder:
    output = pathlib.Path(folder) / "run"
    seconds, _ = _run_timed(
      [
        str(python) if checkout != _ROOT else sys.executable,
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
  """Returns what each program took in each turn, by name."""
  timed: dict[str, list[Timed]] = {}
  for _ in range(_REPETITIONS.value):
    timed.setdefault(_PLAIN, []).append(_plain(row, data_dir))
    if _BEFORE.value is not None:
      before = _ours(row, data_dir, pathlib.Path(_BEFORE.value).resolve())
      timed.setdefault(_BEFORE_NAME, []).append(before)
    timed.setdefault(_NOW, []).append(_ours(row, data_dir, _ROOT))
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


def main() -> None:
  """Prints the tables, row by row."""
  with tempfile.TemporaryDirectory() as made:
    data_dir = pathlib.Path(_DATA_DIR.value or made).expanduser().resolve()
    if _DATA_DIR.value is None:
      _make_data(data_dir)
    for name, row in _rows().items():
      if row.algorithm in (_METHODS.value or [row.algorithm]):
        _print_tables(name, row, _measure(row, data_dir))


if __name__ == "__main__":
  measure.run(main)
