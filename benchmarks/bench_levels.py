"""Measures how often fair-bench calls methods different, on many federations.

  python -m benchmarks.bench_levels --draws=20 --data_dir=data/federations

Follows the protocol of `sweeps.bench` on the tables of its calibrations, but
with the methods of `numpy_methods`, which take a hundredth of the time. Data,
splits, initial weights and settings are those of the bench; the order of
examples differs, and RMSE is in standard deviations of the label. With
--calibration=none, tables are unchanged, and --check=RESULTS.csv compares the
results with those of the bench. The folder --output_dir gets a file of results
for each federation and seed; existing files are reused.
"""

import dataclasses
import functools
import pathlib
import time
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks import numpy_methods
from benchmarks.numpy_methods import Federation
from binaries import bench as program, command_line
from binaries.command_line import UsageError
from tasks import DataError, federations
from tff_fair.experiments.analysis import federations as analysis
from tff_fair.experiments.analysis.paired import Difference
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.sweeps import bench
from tff_fair.files import atomic

_FLAGS = command_line.Flags()
_CALIBRATION = _FLAGS.choice(
  "calibration", "null", ["null", "power", "none"], "Which tables."
)
_FEDERATIONS = _FLAGS.names("federations", [*federations.SMALL], "Whose.")
_ALGORITHMS = _FLAGS.names("algorithms", [*bench.METHODS], "Of the methods.")
_DATA_DIR = _FLAGS.text("data_dir", "data/federations", "Of prepared tables.")
_OUTPUT_DIR = _FLAGS.text("output_dir", "outputs/levels", "Of results.")
_DRAWS = _FLAGS.integer("draws", 1, "Of each federation.", lower_bound=1)
_SEEDS = _FLAGS.integer("seeds", 5, "Data seeds.", lower_bound=1)
_MODEL_SEEDS = _FLAGS.integer(
  "model_seeds", 1, "Runs at a selected setting.", lower_bound=1
)
_BASELINES = _FLAGS.switch(
  "baselines",
  False,
  "Also fine-tuned, local and pooled models, each with eight settings.",
)
_ROUNDS = _FLAGS.integer("rounds", 30, "Of each run.")
_SHARE = _FLAGS.number("share", 0.2, "Of the clients, with power.")
_CHECK = _FLAGS.text("check", None, "Results of the bench to compare with.")
_RESULTS = _FLAGS.text(
  "results",
  None,
  "The CSV file to write, of all results in --output_dir; tff-fair-bench reads "
  "it with --read.",
)
_DETECTABLE = _FLAGS.text(
  "detectable", None, "Results of the bench to plan from; nothing is computed."
)
_LEVEL, _POWER = 0.05, 0.8


def settings_by_method(
  table: bench.Table, *, baselines: bool = False
) -> dict[str, list[RunSpec]]:
  """Returns the settings of each method, and of each baseline if asked."""
  spec, tries = table.spec(), table.bench.tries
  found = {m.name: bench.settings(m, spec, tries) for m in table.methods}
  if baselines:
    fedavg, rates = (
      spec.with_algorithm(analysis.FEDAVG),
      bench.RATES[table.kind],
    )
    name = "client_learning_rate"
    found["FedAvg, fine-tuned"] = fedavg.vary(
      **{name: [*rates[1::2]]}, finetune_epochs=[1, 5]
    )
    alone = fedavg.vary(**{name: [*rates]})
    found["Alone"] = [s.replace(local_baseline=True) for s in alone]
    found["Pooled"] = [s.replace(pooled_baseline=True) for s in alone]
  return found


def evaluate_seed(
  table: bench.Table,
  settings: Mapping[str, Sequence[RunSpec]],
  seed: int,
  known: dict[object, np.ndarray],
) -> list[pd.DataFrame]:
  """Returns the results for `seed`; `known` caches initial weights."""
  shared = table.spec().replace(seed=seed)
  task, score = task_loading.load(shared), table.score
  is_number = shared.task_options["kind"] == "number"
  data = Federation.from_task(task, score.name, is_number=is_number)

  def train(
    tried: Sequence[RunSpec], numbers: Sequence[int], model_seed: int
  ) -> pd.DataFrame:
    spec = bench.seeded(shared, model_seed)
    key = *data.shape, spec.seed
    if key not in known:
      other = task_loading.load(spec) if model_seed else task
      known[key] = numpy_methods.first_weights(other)
    rows = data.evaluate([tried[k] for k in numbers], known[key], spec.seed)
    return rows.assign(setting=np.asarray(numbers)[rows["setting"]])

  found = []
  for name, tried in settings.items():
    rows = bench.evaluate_settings(table, functools.partial(train, tried))
    chosen = analysis.chosen_rows(rows, score)
    about = {"federation": table.name, "score": score.name, "seed": seed}
    found.append(chosen.assign(method=name, **about))
  return found


def summary(found: pd.DataFrame) -> str:
  """Returns tables of significant differences from FedAvg, and of coverage.

  Methods differ even if all clients are alike, since some converge more slowly.
  So intervals are judged by coverage: how often they contain the mean
  difference over the draws of the federation.
  """
  found = found.assign(group=found["federation"].str.split("-").str[0])
  compared = pd.DataFrame(
    {
      "federation": str(group),
      "method": result.method,
      "measure": result.column,
      "difference": result.difference,
      "improvement": result.gain,
      "gain": result.verdict == "gain",
      "loss": result.verdict == "loss",
      "uncorrected": result.difference.p_value < _LEVEL,
    }
    for group, rows in found.groupby("group", sort=False)
    for result in analysis.compare(rows, analysis.FEDAVG)
  )
  compared["missed"] = compared.groupby(["federation", "method", "measure"])[
    "difference"
  ].transform(lambda differences: _misses_mean(differences).astype(float))
  shown = ["uncorrected", "gain", "loss", "missed"]
  lines = []
  for keys in (["measure"], ["measure", "federation"], ["measure", "method"]):
    table = compared.groupby(keys, sort=False)[shown].mean().mul(100).round(1)
    table.insert(0, "pairs", compared.groupby(keys, sort=False).size())
    lines.append(table.to_string())
  for column in ("improvement", "gain"):
    table = compared[compared["measure"] == "worst_10"].pivot_table(
      index="federation", columns="method", values=column, sort=False
    )
    lines.append(f"Worst 10 %, mean {column}:\n{table.round(2).to_string()}")
  return "\n\n".join(lines)


def _misses_mean(differences: pd.Series) -> np.ndarray:
  """Returns whether each difference's interval misses the mean estimate."""
  estimates = np.array([d.estimate for d in differences])
  if len(estimates) < 2:
    return np.full(len(estimates), np.nan)
  # Scaled, since a residual has (n - 1) / n of the variance of an estimate.
  n = len(estimates)
  residuals = (estimates - estimates.mean()) * np.sqrt(n / (n - 1))
  return np.array(
    [
      dataclasses.replace(d, estimate=residual).p_value < _LEVEL
      for d, residual in zip(differences, residuals, strict=True)
    ]
  )


def detectable_difference(
  difference: Difference, num_seeds: int, num_methods: int, draws: int = 20_000
) -> float:
  """Returns the true difference that would be significant in 80 % of draws.

  Estimates are drawn from a normal distribution around this difference, with
  the variance of `difference` for `num_seeds` seeds; an estimate of each part
  of the variance is drawn, too, with the part's degrees of freedom. Since only
  one method differs, Holm's correction divides its level by `num_methods`.
  """
  rng, level = np.random.default_rng(0), _LEVEL / num_methods
  variance, squared = 0.0, np.zeros(draws)
  for part in difference.parts:
    of_seeds = part.degrees_of_freedom == difference.num_seeds - 1
    freedom = num_seeds - 1 if of_seeds else part.degrees_of_freedom
    share = difference.num_seeds / num_seeds if of_seeds else 1.0
    variance += share * part.variance
    estimate = rng.chisquare(freedom, draws) / freedom * share * part.variance
    squared += stats.t.ppf(1 - level / 2, freedom) ** 2 * estimate
  noise = rng.normal(0, np.sqrt(variance), draws)
  return float(np.quantile(np.sqrt(squared) - noise, _POWER))


def detectable_table(found: pd.DataFrame) -> str:
  """Returns a table of detectable differences in the worst 10 % of clients."""
  rows = []
  num_others = found["method"].nunique() - 1
  for result in analysis.compare(
    found, analysis.BETTER_FEDAVG, columns=["worst_10"]
  ):
    if result.difference.parts:
      rows.append(
        {
          "federation": result.federation,
          "score": result.score,
          "seen": abs(result.gain),
          **{
            f"{seeds} seeds": detectable_difference(
              result.difference, seeds, num_others
            )
            for seeds in (3, 5, 10, 30)
          },
        }
      )
  by_federation = pd.DataFrame(rows).groupby(
    ["federation", "score"], sort=False
  )
  return by_federation.median().round(3).to_string()


def agreement(found: pd.DataFrame, results: pathlib.Path) -> str:
  """Returns a text table of the shares of rows that agree with `results`."""
  keys = ["federation", "method", "seed", "client"]
  both = found.merge(_read(results), on=keys, suffixes=("", "_bench"))
  gap = (both["score_worst_10"] - both["score_worst_10_bench"]).abs()
  both["equal"] = gap < 1e-4
  both["setting"] = both["setting_worst_10"] == both["setting_worst_10_bench"]
  by = both.groupby(["federation", "method"], sort=False)[["equal", "setting"]]
  return by.mean().assign(rows=by.size()).to_string()


def _read(path: pathlib.Path) -> pd.DataFrame:
  """Returns the results in a file; raises `UsageError` if it has none."""
  with command_line.prefixing_errors("", DataError):
    return analysis.read(path)


def all_results(folder: pathlib.Path) -> pd.DataFrame:
  """Returns the results in a folder, sorted by federation and seed."""
  order = {name: place for place, name in enumerate(federations.NAMES)}
  found = pd.concat(map(_read, sorted(folder.glob("*-seed-*.csv"))))
  found = found.sort_values(
    ["federation", "seed"],
    key=lambda column: (
      column.map(order) if column.name == "federation" else column
    ),
    kind="stable",
  )
  first = ["federation", "score", "method", "seed", "client"]
  return found[[*first, *found.columns.difference(first, sort=False)]]


def _read_item(
  path: pathlib.Path, table: bench.Table, names: Collection[str], seed: int
) -> pd.DataFrame:
  """Returns the results of a federation's methods with a seed."""
  rows = _read(path)
  if {*rows["method"]} != {*names} or {*rows["seed"]} != {seed}:
    raise UsageError(
      f"{path}: has results of other methods or another seed; choose another "
      "--output_dir."
    )
  if {*rows["federation"]} != {table.name}:
    raise UsageError(f"{path}: has results of another federation; remove it.")
  return rows


def _planned(folder: pathlib.Path) -> bench.Bench:
  """Returns the bench that the flags describe."""
  kind = None if _CALIBRATION.value == "none" else _CALIBRATION.value
  return bench.Bench(
    folder=folder,
    data_dir=pathlib.Path(_DATA_DIR.value),
    federations=tuple(_FEDERATIONS.value),
    algorithms=bench.with_both_fedavgs(_ALGORITHMS.value),
    seeds=tuple(range(_SEEDS.value)),
    rounds=_ROUNDS.value,
    model_seeds=_MODEL_SEEDS.value,
    calibration=kind,
    copies=_DRAWS.value,
    share=_SHARE.value,
  )


def main() -> None:
  """Computes missing results, and prints how often methods differ."""
  if _DETECTABLE.value is not None:
    print(detectable_table(_read(pathlib.Path(_DETECTABLE.value))))
    return
  folder = pathlib.Path(_OUTPUT_DIR.value)
  planned = _planned(folder)
  if _RESULTS.value is not None:  # Checked before training.
    with command_line.prefixing_errors("--results=", OSError):
      atomic.check_regular(pathlib.Path(_RESULTS.value))
  planned.record()
  # Sorted by draw, so that even an interrupted run covers all federations.
  tables = sorted(planned.tables(), key=lambda table: table.draw)
  settings = {
    table: settings_by_method(table, baselines=_BASELINES.value)
    for table in tables
  }
  paths = {
    (table, seed): folder / f"{table.name}-seed-{seed}.csv"
    for table in tables
    for seed in planned.seeds
  }
  found = {
    (table, seed): _read_item(path, table, settings[table], seed)
    for (table, seed), path in paths.items()
    if path.exists()
  }
  known: dict[object, np.ndarray] = {}
  for (table, seed), path in paths.items():
    if (table, seed) not in found:
      with np.errstate(all="ignore"):  # Some settings diverge.
        rows = pd.concat(evaluate_seed(table, settings[table], seed, known))
      atomic.write(path, rows.to_csv(index=False, lineterminator="\n"))
      print(table.name, seed, f"{time.process_time():.0f} s", flush=True)
      found[table, seed] = _read_item(path, table, settings[table], seed)
  results = pd.concat([found[key] for key in paths], ignore_index=True)
  if _RESULTS.value is not None:
    program.write_results(pathlib.Path(_RESULTS.value), all_results(folder))
  elif _CHECK.value is None:
    print(summary(results))
  else:
    print(agreement(results, pathlib.Path(_CHECK.value)))


PROGRAM = _FLAGS.program(main, __doc__, "Levels: for whom, and how many.")


if __name__ == "__main__":
  PROGRAM.run()
