"""Computes an audit's scores from a model's outputs for each example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn import metrics as sklearn_metrics

import tasks
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import audit_table, group_fairness, majority
from tff_fair.experiments.analysis.model_evaluation import ClientOutputs
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import summarize_extra
from tff_fair.experiments.training import predictions, results, scoring
from tff_fair.metrics import gains

_RANKING_SCORES = {
  "auc": sklearn_metrics.roc_auc_score,
  "average_precision": sklearn_metrics.average_precision_score,
}
_DECISION_SCORES = ("balanced_accuracy", "precision", "recall", "f1")


def build_scoring(task: tasks.Task, **settings: Any) -> scoring.ScoringSettings:
  """Returns the scoring settings of an audit; checks that they fit the task."""
  spec = RunSpec(**settings)
  if spec.threshold_for is not None and task.num_classes != 2:
    raise FieldError(
      "threshold_for",
      f"chooses between two classes; {task.name} has others.",
      value=spec.threshold_for,
    )
  return scoring.resolve(task, spec)


def _score(name: str, client: ClientOutputs, positive: int | None) -> float:
  if name not in _RANKING_SCORES:
    decides = name in _DECISION_SCORES
    outputs = client.decision_outputs() if decides else client.outputs
    return gains.score(name, client.labels, outputs, positive)
  classes = [positive] if positive is not None else np.unique(client.labels)
  values = [
    _ranking_score(name, client.labels == c, client.ranking[:, c])
    for c in classes
  ]
  return float(np.mean(values))


def _ranking_score(name: str, own: np.ndarray, ranking: np.ndarray) -> float:
  """Returns a score of a ranking; NaN if all or none of `own` are true."""
  if own.all() or not own.any():
    return float("nan")
  return float(_RANKING_SCORES[name](own, ranking))


def measure(
  clients: pd.DataFrame,
  task: tasks.Task,
  requested: scoring.ScoringSettings,
  found: Sequence[ClientOutputs],
  trained: Sequence[ClientOutputs] | None,
  goal: str | None,
) -> tuple[pd.DataFrame, dict[str, Any]]:
  """Returns `clients` with the requested scores, and entries of the summary.

  The entries are extra scores, the best threshold for the score `goal`, gaps
  between groups, and a comparison with the most frequent class, if possible.
  """
  positive, score = requested.positive_class, requested.score
  if positive is None and task.num_classes == 2:
    positive = predictions.rarest_class(client.labels for client in found)
  more = [n for n in (score.name, *score.extra_scores) if n not in clients]
  clients = clients.assign(
    **{
      name: [_score(name, client, positive) for client in found]
      for name in more
    }
  )
  summary: dict[str, Any] = {
    f"test_{name}": summarize_extra(clients[name].to_numpy(np.float64))
    for name in score.extra_scores
  }
  predicted = [
    predictions.ClientPredictions(k, client.labels, client.decision_outputs())
    for k, client in enumerate(found)
  ]
  edge = 0.0
  if trained is not None and goal is not None and positive is not None:
    of_training = [
      predictions.ClientPredictions(k, client.labels, client.outputs)
      for k, client in enumerate(trained)
    ]
    threshold = predictions.choose_threshold(
      goal, task, of_training, predicted, positive
    )
    summary[summaries.THRESHOLD] = threshold
    edge = predictions.logit(threshold["probability"])
  groups = [c.groups for c in found if c.groups is not None]
  if len(groups) == len(found):
    table = predictions.count_groups(task, predicted, groups, positive, edge)
    summary[summaries.GROUPS] = group_fairness.summarize(
      table, table["client_id"]
    )
  if (counts := results.label_counts(task)) is not None and len(counts[0]) > 1:
    of_classes = counts.sum(0)
    names = task.class_titles
    most = of_classes.argmax()
    clients[majority.COLUMN] = [(c.labels == most).mean() for c in found]
    summary[summaries.MAJORITY] = majority.compare(
      clients, score, of_classes, names, audit_table.COUNT
    )
    if requested.positive_class is not None:
      summary[summaries.POSITIVE_CLASS] = names[requested.positive_class]
  return clients, summary
