"""How often a choice of a method is right where the truth is known.

  python -m benchmarks.choices --calibration=null --data_dir=data/federations

With null, rows go to clients by chance, so that no method serves the worst
clients better than FedAvg; recommending one is a mistake. With power, the
labels of --share of the clients are turned round besides. Each draw of each
federation is chosen for from the beginning, without the final run. A line for
each; then the share of recommendations with its 95 % interval (Clopper and
Pearson). With none, the federations are as they are, and the truth is the best
method in hindsight: that with the largest gain over the better FedAvg on the
test rows of the same cut in the results of fair-bench (--results), where each
method has eight settings. The regret is this gain less that of the choice on
fresh seeds, which is 0 for FedAvg. Started again, it goes on with what is left.
"""

import pathlib

import numpy as np
import pandas as pd
from scipy import stats

from binaries import command_line
from tasks import federations
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis.federations import EQUAL_WEIGHTS, FEDAVG
from tff_fair.experiments.spec import scores
from tff_fair.experiments.sweeps import bench, choosing, stages
from tff_fair.experiments.sweeps.bench import Bench
from tff_fair.experiments.sweeps.stages import ChoiceSettings

_FLAGS = command_line.Flags()
_CALIBRATION = _FLAGS.choice(
  "calibration", "null", ["none", "null", "power"], "Which."
)
_RESULTS = _FLAGS.text(
  "results", "docs/fair_bench.csv.gz", "Of fair-bench, for the regret."
)
_FEDERATIONS = _FLAGS.names(
  "federations", [*federations.SMALL], "Whose rows are drawn."
)
_DATA_DIR = _FLAGS.text("data_dir", "data/federations", "Of prepared tables.")
_OUTPUT_DIR = _FLAGS.text("output_dir", "outputs/choices", "Of results.")
_COPIES = _FLAGS.integer("copies", 1, "Draws of each federation.")
_FIRST = _FLAGS.integer("first", 0, "The number of the first draw.")
_SHARE = _FLAGS.number("share", 0.2, "Of the clients that are turned round.")
_BUDGET = _FLAGS.integer("budget", 40, "Runs of a choice.")
_ALGORITHMS = _FLAGS.names(
  "algorithms", [*choosing.METHODS], "The methods to choose among."
)


def main() -> None:
  """Chooses for each draw."""
  folder = pathlib.Path(_OUTPUT_DIR.value)
  is_true = _CALIBRATION.value == "none"
  of_draws = Bench(
    folder=folder,
    data_dir=pathlib.Path(_DATA_DIR.value),
    federations=tuple(_FEDERATIONS.value),
    calibration=None if is_true else _CALIBRATION.value,
    share=_SHARE.value,
  )
  recommended, regrets = [], []
  for draw in range(_FIRST.value, _FIRST.value + _COPIES.value):
    for name in of_draws.federations:
      table = bench.Table(of_draws, name, draw)
      found = choosing.find(
        table.spec(),
        folder / table.name,
        _ALGORITHMS.value,
        ChoiceSettings(budget=_BUDGET.value),
        progress=False,
      )
      recommended.append(found.is_fair_method)
      first = found.confirmation.iloc[0]
      print(
        f"{table.name:24} {found.method:24} "
        f"{first['worst_10_difference']:+8.2f} "
        f"[{first['worst_10_difference_low']:+.2f}, "
        f"{first['worst_10_difference_high']:+.2f}] {first['method']}",
        flush=True,
      )
      if is_true:
        regrets.append(_regret(table.short_name, found))
  number, total = sum(recommended), len(recommended)
  ends = stats.binomtest(number, total).proportion_ci(method="exact")
  print(
    f"A fair method is recommended in {number} of {total}: "
    f"{number / total:.1%} [{ends.low:.1%}, {ends.high:.1%}]."
  )
  if regrets:
    print(f"Mean regret: {np.mean(regrets):.2f}, at {_BUDGET.value} runs each.")


def _regret(federation: str, found: stages.Found) -> float:
  """Returns what the best method in hindsight gains more than a choice."""
  rows = pd.read_csv(_RESULTS.value)
  rows = rows[(rows["federation"] == federation) & (rows["seed"] == 0)]
  if rows.empty:
    raise FieldError("results", f"has no rows of {federation} with seed 0.")
  score = scores.BY_NAME[rows["score"].iloc[0]]
  sign = 1 if score.higher_is_better else -1
  worst = {
    str(method): sign
    * score.scale
    * score.summarize(of_method["score_worst_10"].to_numpy())["worst_10"]
    for method, of_method in rows.groupby("method")
  }
  fedavg = max(worst.pop(n) for n in (FEDAVG, EQUAL_WEIGHTS))
  best = max(
    (n for n in worst if n in _ALGORITHMS.value), key=worst.__getitem__
  )
  gain = 0.0
  if found.is_fair_method:
    of_method = found.confirmation.set_index("method").loc[found.method]
    gain = sign * of_method["worst_10_difference"]
  regret = max(0.0, worst[best] - fedavg) - gain
  print(
    f"  in hindsight {best} {worst[best] - fedavg:+.2f}, the choice "
    f"{gain:+.2f}: regret {regret:+.2f}",
    flush=True,
  )
  return float(regret)


PROGRAM = _FLAGS.program(main, __doc__, "Choices: for whom, and how many.")


if __name__ == "__main__":
  PROGRAM.run()
