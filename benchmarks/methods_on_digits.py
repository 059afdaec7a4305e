"""How fair every method is on the digits, over several seeds.

Every method trains with the same local settings and its own default
hyperparameters (the two Adams with a server rate that suits so few rounds): a
table of what to expect, not of what tuning would give. Each run is a line of a
CSV file; runs that are there are not repeated.

  python -m benchmarks.methods_on_digits --output=digits.csv
"""

import csv
import os
import pathlib
from collections.abc import Iterator

import pandas as pd
import tensorflow_federated as tff
from absl import flags

import tasks
import tff_fair
from benchmarks import measure
from tff_fair.experiments.training import (
  client_data,
  client_evaluation,
  sampling,
)

_OUTPUT = flags.DEFINE_string("output", None, "CSV file.", required=True)
_METHODS = flags.DEFINE_list("methods", [], "Methods to run; none for all.")
_SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds.")
_ROUNDS = flags.DEFINE_integer("rounds", 100, "Rounds of a run.")

_CLIENTS_PER_ROUND = 10
_BATCH_SIZE = 16
_LEARNING_RATE = 0.1
_HPARAMS = {
  "fedadam": {"learning_rate": 0.01},
  "adafedadam": {"learning_rate": 0.01},
}
_STATISTICS = ("mean", "std", "worst_10")


def _run(method: str, seed: int) -> dict[str, float]:
  """Trains, and returns the statistics of the clients' test accuracy."""
  task = tasks.load("digits", seed=seed)
  process = tff_fair.algorithms.build(
    method,
    task.model,
    client_optimizer=tff.learning.optimizers.build_sgdm(_LEARNING_RATE),
    hparams=_HPARAMS.get(method),
    batch_size=_BATCH_SIZE,
    num_clients=task.num_clients,
    shuffle_seed=seed,
  )
  sample = sampling.Sampler(
    sampling.Sampling(
      seed=seed, clients_per_round=(_CLIENTS_PER_ROUND, _CLIENTS_PER_ROUND)
    ),
    task.train.num_examples,
  )
  train_data = client_data.ClientLoader(task.train, task.element_spec)
  state = process.initialize()
  for round_num in range(1, _ROUNDS.value + 1):
    cohort = sample(round_num)
    state, _ = process.next(state, train_data(cohort.reporting))
  found = client_evaluation.build_evaluation(task, process)(state).statistics
  return {name: found[name] for name in _STATISTICS}


def _missing(done: set[tuple[str, int]]) -> Iterator[tuple[str, int]]:
  for method in _METHODS.value or tff_fair.algorithms.names():
    for seed in map(int, _SEEDS.value):
      if (method, seed) not in done:
        yield method, seed


def _table(path: pathlib.Path) -> str:
  """Returns means over seeds, in percent, in the order of the registry."""
  runs = pd.read_csv(path)
  percent = runs.groupby("method")[list(_STATISTICS)].mean() * 100
  order = [m for m in tff_fair.algorithms.names() if m in percent.index]
  spread = runs.groupby("method")["mean"].std() * 100
  return (
    percent.loc[order].assign(seed_std=spread).to_string(float_format="%.2f")
  )


def main() -> None:
  """Runs what is missing, and prints the table."""
  path = pathlib.Path(_OUTPUT.value)
  done = set()
  if path.exists():
    done = set(pd.read_csv(path)[["method", "seed"]].itertuples(index=False))
    done = {(method, int(seed)) for method, seed in done}
  for method, seed in _missing(done):
    # A worker of its own: what one has loaded, it keeps.
    tff_fair.runtime.use_local()
    row = {"method": method, "seed": seed, **_run(method, seed)}
    is_new = not path.exists()
    with path.open("a", newline="") as file:
      writer = csv.DictWriter(file, row)
      if is_new:
        writer.writeheader()
      writer.writerow(row)
      os.fsync(file.fileno())
    print(row, flush=True)
  print(_table(path))


if __name__ == "__main__":
  measure.run(main)
