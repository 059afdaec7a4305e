"""Chooses settings on some seeds, then compares methods on others.

If the same runs are used to choose a setting and to judge it, the setting looks
better than it is. So each method's setting is chosen out of two on one seed,
and compared on new seeds, which have another split of the data, other cohorts
and another initial model. The baseline is the better of FedAvg by numbers of
examples and FedAvg with equal weights, tuned in the same way.

    python examples/choose_and_compare.py --output_dir=outputs/choice --seeds=5
"""

import argparse
import pathlib

from tff_fair import experiments

parser = argparse.ArgumentParser()
parser.add_argument("--output_dir", default="outputs/choose_and_compare")
parser.add_argument("--seeds", type=int, default=5, help="2 or more")
parser.add_argument("--total_rounds", type=int, default=60)


def worst(run: experiments.Run) -> float:
  """Returns the mean accuracy of the worst tenth of the clients, in percent."""
  return 100 * run.evaluations["accuracy/worst_10"].iloc[-1]


def main() -> None:
  """Chooses the settings, then compares the methods."""
  flags = parser.parse_args()
  folder = pathlib.Path(flags.output_dir)
  spec = experiments.RunSpec(task="digits", total_rounds=flags.total_rounds)

  candidates = {
    one.title: one.vary(client_learning_rate=[0.1, 0.2])
    for one in spec.baselines()
  }
  candidates["AdaFed"] = spec.vary(algorithm="adafed", gamma=[0.5, 1.0])
  judged = []
  for title, specs in candidates.items():
    runs = experiments.sweep(specs, folder / "choice" / title, jobs=2)
    best = max(runs, key=worst)
    print(f"{best.path.name}: {worst(best):.1f}")
    judged += best.spec.vary(seed=range(1, 1 + flags.seeds))
  runs = experiments.sweep(judged, folder / "comparison", jobs=2)
  # Differences are paired by seed and client: methods share the data splits.
  table = experiments.compare(runs, baseline="fedavg", columns=["worst_10"])
  print(table.T.to_string())
  row = table.set_index("method").loc["AdaFed"]
  mean, low, high = (
    row[f"worst_10_difference{end}"] for end in ("", "_low", "_high")
  )
  baseline = row["worst_10_difference_baseline"]
  interval = f"[{low:+.1f}, {high:+.1f}]"
  print(f"AdaFed - ({baseline}), worst tenth: {mean:+.1f} {interval}")


# The processes that a sweep starts import this file, so protect `main`.
if __name__ == "__main__":
  main()
