"""How often a choice of a method is right where the truth is known.

  python -m benchmarks.choices --calibration=null --data_dir=data/federations

With null, rows go to clients by chance, so that no method serves the worst
clients better than FedAvg; recommending one is a mistake. With power, the
labels of --share of the clients are turned round besides. Each draw of each
federation is chosen for from the beginning, without the final run. A line for
each; then the share of recommendations with its 95 % interval (Clopper and
Pearson). Started again, it goes on with the draws that are left.
"""

import pathlib

from scipy import stats

from binaries import command_line
from tasks import federations
from tff_fair.experiments.sweeps import bench, choosing
from tff_fair.experiments.sweeps.bench import Bench
from tff_fair.experiments.sweeps.stages import ChoiceSettings

_FLAGS = command_line.Flags()
_CALIBRATION = _FLAGS.choice("calibration", "null", ["null", "power"], "Which.")
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
  of_draws = Bench(
    folder=folder,
    data_dir=pathlib.Path(_DATA_DIR.value),
    federations=tuple(_FEDERATIONS.value),
    calibration=_CALIBRATION.value,
    share=_SHARE.value,
  )
  recommended = []
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
  number, total = sum(recommended), len(recommended)
  ends = stats.binomtest(number, total).proportion_ci(method="exact")
  print(
    f"A fair method is recommended in {number} of {total}: "
    f"{number / total:.1%} [{ends.low:.1%}, {ends.high:.1%}]."
  )


PROGRAM = _FLAGS.program(main, __doc__, "Choices: for whom, and how many.")


if __name__ == "__main__":
  PROGRAM.run()
