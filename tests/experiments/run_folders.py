"""Makes the folders of runs by hand: what programs that read them need."""

import json

import numpy as np
import pandas as pd

from tff_fair import metrics

FLAGS = {
  "task": "digits",
  "data_dir": None,
  "task_option": [],
  "algorithm": "fedavg",
  "hparam": [],
  "client_learning_rate": 0.1,
  "server_learning_rate": None,
  "total_rounds": 2,
  "rounds_per_checkpoint": 10,
  "seed": 0,
  "output_dir": None,
  "workers": [],
}


def summarize(accuracies, losses):
  loss = {"mean": np.mean(losses), "max": np.max(losses), "std": np.std(losses)}
  loss["weighted"] = loss["mean"]
  return {
    **{
      f"accuracy/{name}": value
      for name, value in metrics.fairness_summary(accuracies).items()
    },
    "accuracy_weighted": float(np.mean(accuracies)),
    **{f"loss/{name}": float(value) for name, value in loss.items()},
  }


def make(
  path,
  evaluations=((1, (0.2, 0.4)), (2, (0.5, 0.9))),
  *,
  is_finished=True,
  hparams=None,
  command="",
  **flags,
):
  """Writes a run whose clients have the given accuracies after some rounds."""
  path.mkdir(parents=True)
  config = {
    "command": {"line": f"train.py {command}"},
    "data": {"description": "handmade"},
    "flags": {**FLAGS, **flags, "output_dir": str(path)},
    "hparams": hparams or {},
  }
  (path / "config.json").write_text(json.dumps(config))
  rows, clients = [], []
  for round_num, accuracies in evaluations:
    losses = [1 - accuracy for accuracy in accuracies]
    rows.append({"round": round_num, **summarize(accuracies, losses)})
    clients += [
      (round_num, client_id, 10, loss, accuracy)
      for client_id, (loss, accuracy) in enumerate(
        zip(losses, accuracies, strict=True)
      )
    ]
  columns = ["round", "client_id", "num_examples", "loss", "accuracy"]
  pd.DataFrame(rows).to_csv(path / "evaluations.csv", index=False)
  pd.DataFrame(clients, columns=columns).to_csv(
    path / "client_evaluations.csv", index=False
  )
  if is_finished:
    summary = {"rounds": evaluations[-1][0], "num_clients": len(accuracies)}
    (path / "summary.json").write_text(json.dumps(summary))
  return path
