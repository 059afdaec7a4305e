"""Chooses a hyperparameter on some seeds, then compares on others.

A setting that is chosen on the runs that it is judged by looks better than it
is. So gamma of AdaFed is chosen on one seed, and compared with FedAvg on new
ones: another cut of the data, other cohorts, another initial model.

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
  """Chooses, then compares."""
  flags = parser.parse_args()
  folder = pathlib.Path(flags.output_dir)
  spec = experiments.RunSpec(task="digits", total_rounds=flags.total_rounds)

  candidates = spec.vary(algorithm="adafed", gamma=[0.5, 1.0])
  runs = experiments.sweep(candidates, folder / "choice", jobs=2)
  for run in runs:
    print(f"gamma {run.spec.hparams['gamma']}: {worst(run):.1f}")
  gamma = max(runs, key=worst).spec.hparams["gamma"]

  seeds = range(1, 1 + flags.seeds)
  judged = spec.vary(algorithm=["fedavg", "adafed"], gamma=gamma, seed=seeds)
  runs = experiments.sweep(judged, folder / "comparison", jobs=2)
  # Paired by seed and client: both methods have the same cut of the data.
  table = experiments.compare(runs, baseline="fedavg", columns=["worst_10"])
  print(table.T)
  row = table.set_index("method").loc["AdaFed"]
  mean, low, high = (
    row[f"worst_10_difference{end}"] for end in ("", "_low", "_high")
  )
  print(f"AdaFed - FedAvg, worst tenth: {mean:+.1f} [{low:+.1f}, {high:+.1f}]")


# A sweep starts processes, which import this file.
if __name__ == "__main__":
  main()
