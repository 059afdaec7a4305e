"""Makes the folders of runs by hand: what programs that read them need."""

import json

import numpy as np
import pandas as pd

from tff_fair.experiments import scores
from tff_fair.experiments.scores import ACCURACY

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
      for beside in score.beside
      for name, value in scores.summarize_beside(_r2(values)).items()
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
  hparams=None,
  command="",
  score=ACCURACY,
  **flags,
):
  """Writes a run whose clients have the given scores after some rounds."""
  path.mkdir(parents=True)
  config = {
    "command": {"line": f"train.py {command}"},
    "data": {"description": "handmade"},
    "flags": {**FLAGS, **flags, "output_dir": str(path)},
    "hparams": hparams or {},
  }
  if score is not ACCURACY:
    config["data"]["score"] = score.name
  (path / "config.json").write_text(json.dumps(config))
  rows, clients = [], []
  for round_num, values in evaluations:
    losses = [
      1 - value if score is ACCURACY else value**2 / 100 for value in values
    ]
    rows.append({"round": round_num, **summarize(values, losses, score)})
    beside = [_r2(values)] if score.beside else []
    clients += [
      (round_num, client_id, 10, *results)
      for client_id, results in enumerate(
        zip(losses, values, *beside, strict=True)
      )
    ]
  columns = ["round", "client_id", "num_examples", "loss", score.name]
  columns += score.beside
  pd.DataFrame(rows).to_csv(path / "evaluations.csv", index=False)
  pd.DataFrame(clients, columns=columns).to_csv(
    path / "client_evaluations.csv", index=False
  )
  if is_finished:
    summary = {"rounds": evaluations[-1][0], "num_clients": len(values)}
    (path / "summary.json").write_text(json.dumps(summary))
  return path
