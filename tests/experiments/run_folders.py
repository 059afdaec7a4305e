"""Makes run folders by hand, with the files that programs read."""

import json

import numpy as np
import pandas as pd

from tff_fair.experiments import RunSpec
from tff_fair.experiments.runs import configuration, discovery
from tff_fair.experiments.spec import scores
from tff_fair.experiments.spec.scores import ACCURACY


def summarize(values, losses, score=ACCURACY):
  loss = {"mean": np.mean(losses), "max": np.max(losses), "std": np.std(losses)}
  loss["weighted"] = loss["mean"]
  return {
    **{
      f"{score.name}/{name}": value
      for name, value in score.summarize(values).items()
    },
    f"{score.name}_weighted": float(np.mean(values)),
    **{
      f"{beside}/{name}": value
      for beside in score.extra_scores
      for name, value in scores.summarize_extra(_r2(values)).items()
    },
    **{f"loss/{name}": float(value) for name, value in loss.items()},
  }


def _r2(errors):
  """Returns R² of clients whose labels have the variance 100."""
  return 1 - np.square(errors) / 100


def make(
  path,
  evaluations=((1, (0.2, 0.4)), (2, (0.5, 0.9))),
  *,
  is_finished=True,
  command="",
  score=ACCURACY,
  method=None,
  **settings,
):
  """Writes a run with `evaluations`, pairs of a round and clients' scores."""
  path.mkdir(parents=True)
  spec = RunSpec(**{"algorithm": "fedavg", "total_rounds": 2, **settings})
  config = configuration.describe_run(
    spec,
    clients_per_round=spec.clients_per_round or 10,
    aggregation=spec.aggregation or "streaming",
    description="handmade",
    score=score,
    output_dir=str(path),
    command=f"train.py {command}",
  )
  (path / "config.json").write_text(json.dumps(config))
  if method is not None:
    names = {**discovery.read_names(path.parent), path.name: method}
    (path.parent / discovery.NAMES_FILE).write_text(
      json.dumps({"names": names})
    )
  rows, clients = [], []
  for round_num, values in evaluations:
    losses = [
      1 - value if score is ACCURACY else value**2 / 100 for value in values
    ]
    rows.append({"round": round_num, **summarize(values, losses, score)})
    beside = [_r2(values)] if score.extra_scores else []
    clients += [
      (round_num, client_id, 10, *results)
      for client_id, results in enumerate(
        zip(losses, values, *beside, strict=True)
      )
    ]
  columns = ["round", "client_id", "num_examples", "loss", score.name]
  columns += score.extra_scores
  pd.DataFrame(rows).to_csv(path / "evaluations.csv", index=False)
  pd.DataFrame(clients, columns=columns).to_csv(
    path / "client_evaluations.csv", index=False
  )
  if is_finished:
    summary = {"rounds": evaluations[-1][0], "num_clients": len(values)}
    (path / "summary.json").write_text(json.dumps(summary))
  return path


def make_methods(folder, methods, *, first=(), last=1, **settings):
  """Writes runs of several methods and seeds to FOLDER/METHOD-SEED."""
  for algorithm, of_seeds in methods.items():
    for seed, scores_at_end in enumerate(of_seeds):
      make(
        folder / f"{algorithm}-{seed}",
        [*first, (last, tuple(scores_at_end))],
        algorithm=algorithm,
        seed=seed,
        **settings,
      )
  return folder


# With both seeds, the clients of term exceed those of fedavg by 30, 10 and -10
# points.
THREE_METHODS = {
  "fedavg": [(0.2, 0.4, 0.9), (0.3, 0.5, 1.0)],
  "term": [(0.5, 0.5, 0.8), (0.6, 0.6, 0.9)],
  "afl": [(0.1, 0.1, 0.1)],
}


def make_three_methods(folder):
  """Writes runs of three methods; fedavg and term have two seeds."""
  first = [(1, (0.1, 0.2, 0.3))]
  return make_methods(folder, THREE_METHODS, first=first, last=2)


def make_both_baselines(folder):
  """Writes runs of FedAvg with both kinds of weights, FedFV and TERM.

  Each has two seeds. With equal weights, FedAvg has the better mean and the
  better worst client; with weights by examples, it has the smaller spread.
  """
  by_method = {
    "fedavg": (0.3, 0.4, 0.5),
    "fedavg-equal": (0.4, 0.7, 1.0),
    "fedfv": (0.5, 0.7, 0.9),
    "term": (0.3, 0.5, 0.7),
  }
  for name, accuracies in by_method.items():
    algorithm, _, equal = name.partition("-")
    for seed in (0, 1):
      make(
        folder / f"{name}-{seed}",
        [(2, tuple(value - 0.02 * seed for value in accuracies))],
        algorithm=algorithm,
        client_weighting="uniform" if equal else "num_examples",
        seed=seed,
      )
  return folder
