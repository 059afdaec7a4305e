"""A first fair model: two FedAvgs and a fair method on handwritten digits.

Trains all three, prints a table, writes a report and saves the fair model:

    python examples/first_fair_model.py --output_dir=outputs/first_fair_model

If it is started again, it keeps the runs that are finished.
"""

import argparse
import pathlib

from tff_fair import experiments

parser = argparse.ArgumentParser()
parser.add_argument("--output_dir", default="outputs/first_fair_model")
parser.add_argument("--fair_method", default="fedmgda_plus")
parser.add_argument("--total_rounds", type=int, default=60)


def main() -> None:
  """Trains the three methods, compares them and writes a report."""
  flags = parser.parse_args()
  folder = pathlib.Path(flags.output_dir)

  # A spec is a value with all settings that determine a run's results. The task
  # has 30 clients with two or three digits each; 10 take part in a round.
  spec = experiments.RunSpec(
    task="digits",
    algorithm=flags.fair_method,
    total_rounds=flags.total_rounds,
  )
  # The baselines are FedAvg by numbers of examples, and with equal weights.
  runs = experiments.sweep([*spec.baselines(), spec], folder, jobs=2)

  # Print accuracies on the clients' test data in percent, a column per method.
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


# The processes that a sweep starts import this file, so protect `main`.
if __name__ == "__main__":
  main()
