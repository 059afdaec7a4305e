r"""Measures how often the chosen method is the best, and the cost if it is not.

  python -m benchmarks.choice_accuracy --calibration=null \
    --data_dir=data/federations

Runs `experiments.choose` with five methods in NumPy (`numpy_methods`), and
without replay. With --calibration=null, rows go to clients at random: a method
is then better for the worst clients by luck, or because it converges faster.
With --calibration=power, the labels of --share of the clients are also
inverted. With --calibration=none, federations are unchanged, and a draw is a
data seed.

The program computes true values from the whole grid of fair-bench, eight
settings per method, on --seeds further seeds. A method's true value is the mean
test score of the worst 10 % of the clients, with the setting for which this
mean is best on validation rows. The regret of a choice is the best true value
minus the value of the recommended setting, on the same rows and seeds.
Draws in --output_dir are reused. The program prints a line for each draw, then
shares with 95 % intervals by Clopper and Pearson.
"""

import pathlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import tqdm
from scipy import stats

from benchmarks import numpy_methods
from benchmarks.numpy_methods import Federation
from binaries import command_line
from tasks import federations
from tff_fair.experiments.analysis import measures
from tff_fair.experiments.analysis.federations import FEDAVG
from tff_fair.experiments.runs import tables
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import RMSE
from tff_fair.experiments.sweeps import bench, choice_runs, stages, sweep_file
from tff_fair.experiments.sweeps.stages import ChoiceFindings, ChoiceSettings
from tff_fair.files import atomic

_FLAGS = command_line.Flags()
_CALIBRATION = _FLAGS.choice(
  "calibration", "null", ["none", "null", "power"], "Which tables."
)
_FEDERATIONS = _FLAGS.names("federations", [*federations.SMALL], "Which.")
_DATA_DIR = _FLAGS.text("data_dir", "data/federations", "Of prepared tables.")
_OUTPUT_DIR = _FLAGS.text("output_dir", "outputs/choices", "Of results.")
_DRAWS = _FLAGS.integer("draws", 1, "Draws of each federation.")
_SHARE = _FLAGS.number("share", 0.2, "Of the clients, with power.")
_SEEDS = _FLAGS.integer("seeds", 10, "Seeds of the truth.")
_BUDGET = _FLAGS.integer("budget", 90, "Runs of a choice.")

METHODS = ("fedfv", "adafedadam", "qfedavg", "term", "fedmdfg")
_FIRST_SEED = 10_000  # The first seed for true values; choices use lower ones.
_LARGE_GAIN = 5.0  # A gain that counts as large, in percentage points.


class NumPyRunner(choice_runs.ChoiceRunner):
  """Trains runs in NumPy, and keeps them only in memory."""

  def __init__(self, table: bench.Table, base: RunSpec) -> None:
    """Reads the data of the task in `base`; `table` names the score."""
    super().__init__(pathlib.Path(), progress=False)
    self._base = base
    self._first: dict[int, np.ndarray] = {}  # Initial weights by seed.
    self.score = table.score
    self._data = Federation.from_task(
      task_loading.load(base),
      self.score.name,
      is_number=base.task_options["kind"] == "number",
    )

  def evaluate(
    self, stage: str, specs: Sequence[RunSpec]
  ) -> list[pd.DataFrame]:
    """Evaluates runs as in the base class, without showing the stage."""
    del stage
    self.num_runs += len(specs)
    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, spec in enumerate(specs):
      key = spec.algorithm, spec.client_weighting, spec.seed
      alike.setdefault(key, []).append(place)
    found: dict[int, pd.DataFrame] = {}
    for (*_, seed), places in alike.items():
      rows = self._data.evaluate(
        [specs[k] for k in places], self._first_weights(seed), seed
      )
      rows = rows.assign(
        loss=np.nan,
        validation_loss=np.nan,
        **{choice_runs.SCORE: self.score.name},
        **dict.fromkeys(self.score.extra_scores, np.nan),
        **{f"{tables.VALIDATION}{n}": np.nan for n in self.score.extra_scores},
      )
      found |= {
        places[int(setting)]: of_setting.reset_index(drop=True)
        for setting, of_setting in rows.groupby("setting")
      }
    return [found[k] for k in range(len(specs))]

  def has_groups(self, spec: RunSpec) -> bool:
    """Returns False, since the federations do not define groups of people."""
    del spec
    return False

  def training_error(self, spec: RunSpec) -> None:
    """Returns None, since all runs can be trained."""

  def train_with_tape(self, spec: RunSpec) -> None:
    """Returns None, since these runs write no tape."""

  def _first_weights(self, seed: int) -> np.ndarray:
    if seed not in self._first:
      task = task_loading.load(self._base.replace(seed=seed))
      self._first[seed] = numpy_methods.first_weights(task)
    return self._first[seed]


def worst_10(runner: NumPyRunner, specs: Sequence[RunSpec]) -> np.ndarray:
  """Returns the scores of `specs` in the worst 10 % of clients, [2, specs].

  The first row is on validation rows, the second on test rows. Values are means
  over the seeds for true values, in the unit of tables, with the sign changed
  if lower is better.
  """
  seeds = range(_FIRST_SEED, _FIRST_SEED + _SEEDS.value)
  measure = measures.by_name(runner.score)["worst_10"]
  sign = 1 if measure.higher_is_better else -1
  found = np.zeros([2, len(specs)])
  for seed in seeds:
    results = runner.evaluate("", [spec.replace(seed=seed) for spec in specs])
    for k, rows in enumerate(results):
      for part, shown in enumerate((tables.validation_rows(rows), rows)):
        clients = measures.clients_of(shown, runner.score)
        found[part, k] += measures.of_equal(measure, clients)
  return sign * measure.scale * found / len(seeds)


def evaluate_draw(table: bench.Table, seed: int) -> dict[str, Any]:
  """Chooses a method; compares the choice with the truth, except with null."""
  spec = table.spec().with_algorithm(FEDAVG).replace(data_seed=seed)
  runner = NumPyRunner(table, spec)
  found = stages.Stages(
    spec, ChoiceSettings(budget=_BUDGET.value), pathlib.Path(), runner
  ).run(METHODS)
  first = found.confirmation.iloc[0]
  row = {
    "federation": table.short_name,
    "draw": table.draw or seed,
    "score": runner.score.name,
    "runs": found.num_runs,
    "method": found.method,
    "is_fair": found.is_fair_method,
    "finalist": first["method"],
    "difference": first["worst_10_difference"],
    "low": first["worst_10_difference_low"],
    "high": first["worst_10_difference_high"],
  }
  if table.bench.calibration == "null":
    return row
  return row | compare_with_hindsight(runner, spec, found)


def compare_with_hindsight(
  runner: NumPyRunner, spec: RunSpec, found: ChoiceFindings
) -> dict[str, Any]:
  """Returns the gain and regret of the choice, and the best method's gain."""
  names = (FEDAVG, f"{FEDAVG}:uniform", *METHODS)
  best: dict[str, float] = {}
  for method in sweep_file.from_methods(names, "algorithms").methods:
    validation, test = worst_10(runner, bench.settings(method, spec))
    finite = np.where(np.isfinite(validation), validation, -np.inf)
    value = float(test[finite.argmax()])
    best[method.algorithm] = max(best.get(method.algorithm, -np.inf), value)
  chosen = spec.with_algorithm(found.spec.algorithm).replace(
    hparams=found.spec.hparams,
    **{name: getattr(found.spec, name) for name in stages.TUNED_SETTINGS},
  )
  value = float(worst_10(runner, [chosen])[1, 0])
  fedavg = best.pop(FEDAVG)
  hindsight = max(best, key=best.__getitem__)
  return {
    "hindsight": hindsight,
    "hindsight_gain": best[hindsight] - fedavg,
    "gain": value - fedavg,
    "regret": max(fedavg, best[hindsight]) - value,
  }


def share(name: str, hits: Sequence[bool]) -> str:
  """Returns a line with the share of hits and its interval."""
  number, total = sum(hits), len(hits)
  if not total:
    return f"{name}: there is no such draw."
  ends = stats.binomtest(number, total).proportion_ci(method="exact")
  return (
    f"{name}: {number} of {total}, {number / total:.1%} "
    f"[{ends.low:.1%}, {ends.high:.1%}]"
  )


def summary(found: pd.DataFrame) -> str:
  """Returns lines with the shares and the mean regret over all draws."""
  of_all = share("A fair method is recommended", [*found["is_fair"]])
  if "regret" not in found:
    return of_all
  of_share = found["score"] != RMSE.name  # RMSE is not in percentage points.
  much = found[of_share & (found["hindsight_gain"] >= _LARGE_GAIN)]
  regret = found[of_share].groupby("federation", sort=False)["regret"].mean()
  helpful = much["is_fair"] & (much["gain"] >= _LARGE_GAIN)
  return "\n".join(
    [
      of_all,
      share(f"... where one gains {_LARGE_GAIN:g} points", [*much["is_fair"]]),
      share(f"... and it gains {_LARGE_GAIN:g} points, too", [*helpful]),
      f"Mean regret by federation, in points:\n{regret.round(2).to_string()}",
      f"Over these: {regret.mean():.2f}",
    ]
  )


def main() -> None:
  """Chooses a method for each draw, and prints a summary."""
  folder = pathlib.Path(_OUTPUT_DIR.value)
  is_true = _CALIBRATION.value == "none"
  planned = bench.Bench(
    folder=folder,
    data_dir=pathlib.Path(_DATA_DIR.value),
    federations=tuple(_FEDERATIONS.value),
    calibration=None if is_true else _CALIBRATION.value,
    share=_SHARE.value,
  )
  planned.record()
  found = []
  draws = [(d, n) for d in range(_DRAWS.value) for n in planned.federations]
  for draw, name in tqdm.tqdm(draws, unit="draw"):
    table = bench.Table(planned, name, 0 if is_true else draw)
    path = folder / f"{table.short_name}-{draw}.csv"
    if not path.exists():
      with np.errstate(all="ignore"), warnings.catch_warnings():
        # Settings that diverge and clients with few rows cause warnings.
        warnings.simplefilter("ignore")
        row = evaluate_draw(table, draw if is_true else 0)
      text = pd.DataFrame([row]).to_csv(index=False, lineterminator="\n")
      atomic.write(path, text)
    found.append(pd.read_csv(path))
  rows = pd.concat(found, ignore_index=True)
  print(rows.round(2).to_string())
  print(summary(rows))


PROGRAM = _FLAGS.program(main, __doc__, "Choices: for whom, and how many.")


if __name__ == "__main__":
  PROGRAM.run()
