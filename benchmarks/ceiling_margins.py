"""Checks that no run of any method lies below the ceiling of its data.

  python -m benchmarks.ceiling_margins --data_dir=data/federations

Trains short runs of linear models for each federation, method, learning rate
and seed, and evaluates them on their training rows. A run's margin is its mean
loss, its CVaR over the worst 10 % of the clients, or its largest loss, minus
the lower bound of the ceiling: a negative margin would refute the proof. For
each method, the program shows how far above the least possible losses the best
learning rate ends. It writes a CSV file of all runs for each federation and
method; when restarted, it continues with the missing files. Personal models,
such as Ditto's, have no such ceiling.
"""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from binaries import command_line
from tff_fair import experiments
from tff_fair.experiments.analysis.ceiling import LARGEST, MEAN, RISKS, TAIL
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.sweeps import bench, choosing
from tff_fair.experiments.sweeps.bench import Bench
from tff_fair.experiments.sweeps.sweep_file import SweptMethod
from tff_fair.experiments.training.round_state import RoundEvaluation
from tff_fair.files import atomic
from tff_fair.metrics import ceiling as risk_ceiling

_FLAGS = command_line.Flags()
_FEDERATIONS = _FLAGS.names(
  "federations",
  ["heart_disease", "vehicle", "landmine", "contraception"],
  "Whose training rows.",
)
_DATA_DIR = _FLAGS.text("data_dir", "data/federations", "Of prepared tables.")
_OUTPUT_DIR = _FLAGS.text("output_dir", "outputs/margins", "Of results.")
_ALGORITHMS = _FLAGS.names(
  "algorithms",
  ["fedavg", "fedavg:uniform", *choosing.METHODS],
  "The methods, as a sweep takes them.",
)
_SEEDS = _FLAGS.integer("seeds", 6, "Seeds of each setting.", lower_bound=1)
_ROUNDS = _FLAGS.integer("rounds", 30, "Of each run.", lower_bound=1)
_NAMES = {MEAN: "mean", TAIL: "worst 10 %", LARGEST: "largest"}


def _specs(
  shared: experiments.RunSpec, method: SweptMethod
) -> list[experiments.RunSpec]:
  """Returns the specs of a method's runs: all seeds, and every second rate."""
  rates = bench.RATES[str(shared.task_options["kind"])][1::2]
  return shared.vary(
    algorithm=method.algorithm,
    **{name: setting.values for name, setting in method.grid.items()},
    client_learning_rate=list(rates),
    seed=list(range(_SEEDS.value)),
  )


def _runs(table: bench.Table, folder: pathlib.Path) -> Iterator[pd.DataFrame]:
  """Trains a federation's runs; yields a table of margins for each method."""
  from tff_fair.experiments.training import in_memory  # noqa: PLC0415

  shared = table.spec().replace(validation_fraction=None, data_seed=0)
  file = folder / table.name / "ceiling.csv"
  if not file.exists():
    found = experiments.ceiling(
      task=shared.task, task_options=shared.task_options
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(file, found.least.to_csv(index=False))
  least_losses = pd.read_csv(file).set_index("risk")
  cache, task = in_memory.ProgramCache(), None
  for method in table.bench.swept_methods:
    file = bench.Item(table, 0, method).path
    if not file.exists():
      if task is None:
        task = task_loading.load(shared)
        task = dataclasses.replace(task, test=task.train)
      rows = [
        _row(
          spec, in_memory.train_and_evaluate(spec, task, cache), least_losses
        )
        for spec in _specs(shared, method)
      ]
      file.parent.mkdir(parents=True, exist_ok=True)
      atomic.write(file, pd.DataFrame(rows).to_csv(index=False))
    yield pd.read_csv(file)


def _row(
  spec: experiments.RunSpec,
  evaluation: RoundEvaluation,
  least_losses: pd.DataFrame,
) -> dict[str, Any]:
  """Returns a run's margins, and how far it ends above the least losses."""
  losses = np.asarray(evaluation.clients["loss"], np.float64)
  weights = np.full(losses.size, 1 / losses.size)
  setting = {"rate": spec.client_learning_rate, "seed": spec.seed}
  found: dict[str, Any] = {"method": spec.title, **setting}
  for name, risk in {
    MEAN: risk_ceiling.Risk(weights),
    TAIL: risk_ceiling.Risk(weights, tail=1.0, share=0.1),
    LARGEST: risk_ceiling.largest_loss(weights),
  }.items():
    found[f"margin_{name}"] = (
      risk.evaluate(losses) - least_losses.loc[name, "bound"]
    )
    found[f"above_{name}"] = (
      risk.evaluate(losses) - least_losses.loc[name, "value"]
    )
  return found


def main() -> None:
  """Trains missing runs; prints margins, and excesses over the least losses."""
  of_tables = Bench(
    folder=pathlib.Path(_OUTPUT_DIR.value),
    data_dir=pathlib.Path(_DATA_DIR.value),
    federations=tuple(_FEDERATIONS.value),
    algorithms=tuple(_ALGORITHMS.value),
    rounds=_ROUNDS.value,
  )
  parts = []
  for table in of_tables.tables():
    print(f"{table.name}: the best rate's distances, means over seeds")
    for rows in _runs(table, of_tables.folder):
      parts.append(rows)
      by_rate = rows.groupby("rate")[[f"above_{name}" for name in RISKS]].mean()
      shown = [f"{_NAMES[n]} {by_rate[f'above_{n}'].min():7.4f}" for n in RISKS]
      print(f"  {rows['method'].iloc[0]:24} {'  '.join(shown)}", flush=True)
  margins = pd.concat(parts)[[f"margin_{name}" for name in RISKS]]
  finite = margins[np.isfinite(margins).all(axis=1)]
  print(
    f"{len(margins)} runs, {len(margins) - len(finite)} diverged; "
    f"{int((finite < 0).any(axis=1).sum())} below the ceiling. Smallest "
    f"margins: {', '.join(f'{m:.5f}' for m in finite.min())} of "
    f"{', '.join(_NAMES.values())}."
  )


PROGRAM = _FLAGS.program(main, __doc__, "Margins: of which runs.")


if __name__ == "__main__":
  PROGRAM.run()
