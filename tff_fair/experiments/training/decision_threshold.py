"""Chooses the decision threshold of a run's model on training data."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tff_fair.experiments import decisions
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import (
  assembly,
  baselines,
  gain_columns,
  participation,
)
from tff_fair.metrics import thresholds


def of_run(
  folder: RunFolder, spec: RunSpec, parts: assembly.RunParts
) -> dict[str, Any] | None:
  """Returns the threshold, as `decisions` has it; None if nothing asks for it.

  Args:
    folder: The folder of the run, which has trained.
    spec: The run.
    parts: Its parts. The clients that train, of those that the run evaluates,
      choose by their training examples.
  """
  goal, task = spec.threshold_for, parts.task
  if goal is None:
    return None
  seen = parts.first_rounds[parts.evaluated] < participation.NEVER
  ids = parts.evaluated[seen].tolist()
  positive = parts.scores.positive
  if positive is None:
    positive = gain_columns.rarer_class([task.test.load(k)[1] for k in ids])
  of_half = {}
  for name, half in (("train", task.train), ("test", task.test)):
    outputs = baselines.outputs_of_run(folder, task, ids, half)
    of_half[name] = [
      (half.load(k)[1] == positive, _log_odds(o, positive))
      for k, o in zip(ids, outputs, strict=True)
    ]
  counts = sum(thresholds.histogram(*of) for of in of_half["train"])
  threshold = thresholds.best(goal, counts)
  edge = float(np.log(threshold / (1 - threshold)))
  names = list(task.class_names or range(2))
  return {
    "goal": goal,
    "class": str(names[positive]),
    "class_number": positive,
    "probability": threshold,
    "test": decisions.mean(_scores(goal, of_half["test"], edge)),
    "test_at_half": decisions.mean(_scores(goal, of_half["test"], 0.0)),
  }


def _log_odds(logits: np.ndarray, positive: int) -> np.ndarray:
  return logits[:, positive] - logits[:, 1 - positive]


def _scores(
  goal: str, of_clients: Sequence[tuple[np.ndarray, np.ndarray]], edge: float
) -> list[float]:
  """Returns the score of each client's decisions."""
  found = []
  for is_positive, log_odds in of_clients:
    decided = log_odds >= edge
    found.append(
      float(
        thresholds.value(
          goal,
          is_positive.sum(),
          (~is_positive).sum(),
          (decided & is_positive).sum(),
          (decided & ~is_positive).sum(),
        )
      )
    )
  return found
