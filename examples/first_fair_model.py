"""A first fair model: two FedAvgs and a fair method on handwritten digits.

Trains all three, prints a table, writes a report and saves the fair model:

    python examples/first_fair_model.py --output_dir=outputs/first_fair_model

Started again, it keeps the runs that are finished.
"""

import argparse
import pathlib

from tff_fair import experiments

parser = argparse.ArgumentParser()
parser.add_argument("--output_dir", default="outputs/first_fair_model")
parser.add_argument("--fair_method", default="fedmgda_plus")
parser.add_argument("--total_rounds", type=int, default=60)


def main() -> None:
  """Trains, compares and reports."""
  flags = parser.parse_args()
  folder = pathlib.Path(flags.output_dir)

  # A run is a value: everything that decides its results. 30 clients have the
  # digits, two or three classes each, and 10 of them take part in a round.
  spec = experiments.RunSpec(
    task="digits",
    algorithm=flags.fair_method,
    total_rounds=flags.total_rounds,
  )
  # The baselines are FedAvg by numbers of examples, and with equal weights.
  runs = experiments.sweep([*spec.baselines(), spec], folder, jobs=2)

  # Accuracies of the clients' test data in percent, a column for each method.
  print(experiments.compare(runs).T)
  for run in runs:
    last = run.evaluations.iloc[-1]  # A row for each evaluation.
    print(
      f"{run.title}: mean {last['accuracy/mean']:.1%}, "
      f"the worst three clients {last['accuracy/worst_10']:.1%}"
    )

  report = folder / "report.html"
  experiments.report(runs, report, overwrite=True)
  runs[-1].model().save(folder / "fair.keras")
  print(f"The report is {report}, the model {folder / 'fair.keras'}.")


# A sweep starts processes, which import this file.
if __name__ == "__main__":
  main()
