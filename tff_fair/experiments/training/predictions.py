"""Computes the results of a run that need predictions for each example."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tasks
from tff_fair.experiments.analysis import group_fairness, joining_gains, paired
from tff_fair.experiments.runs import tables, trained_model
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import (
  baselines,
  build,
  correction,
  fine_tuning,
  sampling,
)
from tff_fair.metrics import class_scores, gains, group_gaps, thresholds

# The least and the largest number of random permutations per test.
_PERMUTATION_DRAWS = (2000, 20_000)


class Results(NamedTuple):
  """A run's results from predictions; None for results that are not needed."""

  groups: pd.DataFrame | None = None  # See `group_fairness`.
  threshold: Mapping[str, Any] | None = None
  other_models: pd.DataFrame | None = None  # By client_id: local_SCORE, ...
  fine_tuning: pd.DataFrame | None = None  # By client_id and epochs.
  # The maximum number of rounds, and the learning rates, of local models.
  local_training: Mapping[str, Any] | None = None


class ClientPredictions(NamedTuple):
  """A client's n labels, and a model's outputs for them, float32[n, width]."""

  client_id: int
  labels: np.ndarray
  outputs: np.ndarray


def results(
  folder: RunFolder,
  spec: RunSpec,
  parts: build.RunParts,
  found: Mapping[str, baselines.Baseline],
) -> Results:
  """Returns a run's `Results`; `found` maps kinds to baselines."""
  task, ids = parts.task, parts.evaluated_ids.tolist()
  has_groups = task.test.groups is not None
  if not (has_groups or spec.threshold_for or found or spec.finetune_epochs):
    return Results()
  weights = trained_model.load_weights(folder, best=False)
  tested = _predict(weights, task, task.test, ids)
  positive = parts.scores.positive_class
  if positive is None and task.num_classes == 2:
    positive = rarest_class(client.labels for client in tested)
  found_threshold = None
  if spec.threshold_for is not None and positive is not None:
    # The threshold depends only on training examples of clients that train.
    seen = sampling.participates(parts.first_rounds[ids])
    training = parts.evaluated_ids[seen].tolist()
    corrected = correction.with_corrected_labels(folder, task)
    trained = _predict(weights, task, corrected.train, training)
    known = list(itertools.compress(tested, seen))
    found_threshold = choose_threshold(
      spec.threshold_for, task, trained, known, positive
    )
  edge = 0.0
  if found_threshold is not None:
    edge = logit(found_threshold["probability"])
  groups = None
  if (of_client := task.test.groups) is not None:
    of_examples = list(map(of_client, ids))
    groups = count_groups(task, tested, of_examples, positive, edge)
  fine_tuned = fine_tuning.fine_tune(spec, parts, weights)
  compared = _ModelComparison(spec, parts, tested, positive)
  return Results(
    groups=groups,
    threshold=found_threshold,
    other_models=compared.table(found, fine_tuned),
    fine_tuning=fine_tuned and compared.epochs_table(fine_tuned),
    local_training={
      "alone_rounds": baselines.max_rounds(spec, parts),
      "alone_rates": [
        f * spec.client_learning_rate for f in baselines.RATE_FACTORS
      ],
    }
    if joining_gains.LOCAL in found
    else None,
  )


def _predict(
  weights: trained_model.Weights,
  task: tasks.Task,
  half: tasks.Split,
  ids: Sequence[int],
) -> list[ClientPredictions]:
  """Predicts the clients' examples, with personal models if there are any."""
  model, predicted = task.keras_model_fn(), []
  for client_id in ids:
    trained_model.assign(model, weights.as_list(client_id))
    x, y = half.load(client_id)
    predicted.append(
      ClientPredictions(client_id, y, trained_model.outputs(model, x))
    )
  return predicted


def rarest_class(labels_of_clients: Iterable[np.ndarray]) -> int:
  """Returns the rarer of two classes; of equally frequent ones, the second."""
  labels = np.concatenate([*labels_of_clients])
  return class_scores.rarest_class(np.bincount(labels, minlength=2))


def _log_odds(client: ClientPredictions, positive: int) -> np.ndarray:
  return client.outputs[:, positive] - client.outputs[:, 1 - positive]


def logit(probability: float) -> float:
  """Returns the log odds of a probability in (0, 1)."""
  return float(np.log(probability / (1 - probability)))


def count_groups(
  task: tasks.Task,
  tested: Sequence[ClientPredictions],
  groups: Sequence[np.ndarray],
  positive: int | None,
  edge: float,
) -> pd.DataFrame:
  """Returns counts of test examples and predictions, by client and group.

  `edge` is the threshold in log odds; 0 predicts the most probable class.
  """
  assert task.group_names is not None
  rows = []
  for client, of_examples in zip(tested, groups, strict=True):
    predicted = client.outputs.argmax(-1)
    if edge and positive is not None:
      is_positive = _log_odds(client, positive) >= edge
      predicted = np.where(is_positive, positive, 1 - positive)
    counts = group_gaps.count(
      client.labels,
      predicted,
      of_examples,
      len(task.group_names),
      positive,
    )
    column = {group_fairness.GROUP: task.group_names, **counts._asdict()}
    rows.append(pd.DataFrame({tables.CLIENT: client.client_id, **column}))
  table = pd.concat(rows, ignore_index=True)
  if positive is None:
    table = table.drop(columns=list(group_fairness.POSITIVE_CLASS_COUNTS))
  else:
    table.insert(2, group_fairness.POSITIVE, task.class_titles[positive])
  return table[table["examples"] > 0]


def choose_threshold(
  goal: str,
  task: tasks.Task,
  trained: Iterable[ClientPredictions],
  tested: Iterable[ClientPredictions],
  positive: int,
) -> dict[str, Any]:
  """Chooses the threshold with the best score `goal` on training examples.

  Returns an entry of the summary: the threshold and its score on test examples.
  """

  def of_class(client: ClientPredictions) -> tuple[np.ndarray, np.ndarray]:
    return client.labels == positive, _log_odds(client, positive)

  counts = sum(thresholds.histogram(*of_class(client)) for client in trained)
  probability = thresholds.choose(goal, counts)
  examples = list(map(of_class, tested))

  def mean_score(edge: float) -> float:
    """Returns the mean over clients that have the score; NaN if none has."""
    rows = [
      (own.sum(), (~own).sum(), (own & decided).sum(), (~own & decided).sum())
      for own, decided in ((own, odds >= edge) for own, odds in examples)
    ]
    values = thresholds.score_of_counts(goal, *np.array(rows).T)
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else math.nan

  return {
    "goal": goal,
    "class": task.class_titles[positive],
    "class_number": positive,
    "probability": probability,
    "test": mean_score(logit(probability)),
    "test_at_half": mean_score(0.0),
  }


@dataclasses.dataclass(frozen=True)
class _ModelComparison:
  """Compares a run's model with its baselines and its fine-tuned models."""

  spec: RunSpec
  parts: build.RunParts
  tested: Sequence[ClientPredictions]
  positive: int | None

  def table(
    self,
    found: Mapping[str, baselines.Baseline],
    fine_tuned: fine_tuning.FineTuningResult | None,
  ) -> pd.DataFrame | None:
    """Returns the table `Results.other_models`; None without other models."""
    if not found and fine_tuned is None:
      return None
    ids = [client.client_id for client in self.tested]
    table = pd.DataFrame({tables.CLIENT: ids})
    outputs: dict[str, Sequence[np.ndarray]] = {}
    for kind, baseline in found.items():
      of_ids = dict(
        zip(baseline.client_ids.tolist(), baseline.outputs, strict=True)
      )
      outputs[kind] = [of_ids[client_id] for client_id in ids]
    if fine_tuned is not None:
      outputs[joining_gains.FINETUNED] = fine_tuned.best_outputs
      table[joining_gains.EPOCHS] = fine_tuned.epochs
    for kind, of_clients in outputs.items():
      found_scores = [*map(self._score, self.tested, of_clients)]
      table[f"{kind}_{self.parts.scores.score.name}"] = found_scores
    if joining_gains.LOCAL in outputs:
      federated = [client.outputs for client in self.tested]
      joined = {"": federated}
      if fine_tuned is not None:
        joined[f"{joining_gains.FINETUNED}_"] = fine_tuned.best_outputs
      for prefix, after in joined.items():
        names = [f"{prefix}{name}" for name in joining_gains.COLUMNS]
        table[names] = self._gains(outputs[joining_gains.LOCAL], after)
    return table

  def epochs_table(
    self, fine_tuned: fine_tuning.FineTuningResult
  ) -> pd.DataFrame:
    rows = [
      {
        tables.CLIENT: client.client_id,
        "epochs": epochs,
        "loss_aside": losses[epochs],
        self.parts.scores.score.name: self._score(client, outputs),
      }
      for client, losses, of_epochs in zip(
        self.tested, fine_tuned.losses, fine_tuned.outputs, strict=True
      )
      for epochs, outputs in enumerate(of_epochs)
    ]
    return pd.DataFrame(rows)

  def _score(self, client: ClientPredictions, outputs: np.ndarray) -> float:
    return gains.score(
      self.parts.scores.score.name,
      self._in_units(client.labels),
      self._in_units(outputs),
      self.positive,
    )

  def _in_units(self, values: np.ndarray) -> np.ndarray:
    """Returns labels or outputs; those of a regression in the label's unit."""
    task = self.parts.task
    return values if task.num_classes is not None else values * task.label_scale

  def _gains(
    self, before: Sequence[np.ndarray], after: Sequence[np.ndarray]
  ) -> np.ndarray:
    """Returns clients' `joining_gains.COLUMNS`, from `after` and `before`."""
    least, most = _PERMUTATION_DRAWS
    of_clients = [
      gains.client_gain(
        self.parts.scores.score.name,
        gains.Outputs(
          *map(self._in_units, (client.labels, of_local, of_other))
        ),
        positive=self.positive,
        draws=min(max(least, 40 * len(self.tested)), most),
        seed=(self.spec.seed, client.client_id),
      )
      for client, of_local, of_other in zip(
        self.tested, before, after, strict=True
      )
    ]
    found = np.array(of_clients)
    p_values = found[:, joining_gains.COLUMNS.index(joining_gains.P_VALUE)]
    known = ~np.isnan(p_values)
    factors = np.array(paired.holm_factors(p_values[known].tolist()))
    # As `p_values` is a view, this also changes `found`.
    p_values[known] = np.minimum(1, factors * p_values[known])
    return found
