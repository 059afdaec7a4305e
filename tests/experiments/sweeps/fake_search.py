"""Replaces training in the processes that a search starts."""

import pathlib

import numpy as np
import pandas as pd

from tests.experiments import run_folders
from tff_fair.experiments.spec.scores import ACCURACY

ROUNDS = (1, 2, 3)
SCORE = ACCURACY  # Some tests replace it by a score of errors.


def accuracy(rate, number):
  """Returns a run's accuracy after round `number`, best at a rate of 0.1."""
  return 0.9 / (1 + abs(np.log10(rate) + 1)) * number / ROUNDS[-1]


def train(spec, path, callbacks=()):
  """Writes a run; fails if its client learning rate is above 5."""
  path = pathlib.Path(path)
  with path.with_name("trained.txt").open("a") as file:
    file.write(f"{path.name}\n")
  rate = spec.client_learning_rate
  if rate > 5:
    raise ValueError("too fast")
  evaluations, is_pruned = [], False
  for number in ROUNDS:
    values = accuracy(rate, number) * np.linspace(0.8, 1.0, 10)
    scores = values if SCORE is ACCURACY else 50 * (1 - values)
    evaluations.append((number, scores.tolist()))
    if callbacks:
      clients = {
        "client_id": np.arange(10),
        "num_examples": np.full(10, 10),
        "loss": 1 - values,
        SCORE.name: scores,
        **dict.fromkeys(SCORE.extra_scores, values),
      }
      is_pruned = callbacks[0].should_prune(
        number, pd.DataFrame(clients), SCORE
      )
      if is_pruned:
        break
  run_folders.make(
    path,
    evaluations,
    is_finished=not is_pruned,
    algorithm=spec.algorithm,
    seed=spec.seed,
    data_seed=spec.data_seed,
    model_seed=spec.model_seed,
    hparams=dict(spec.hparams),
    client_learning_rate=rate,
    batch_size=spec.batch_size,
    total_rounds=spec.total_rounds,
    score=SCORE,
  )
  (path / "metrics.csv").write_text("round,loss\n1,0.5\n2,0.4\n3,0.3\n")
  if is_pruned:
    (path / "pruned.json").write_text('{"rounds": 1}\n')
