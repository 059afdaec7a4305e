"""Measures clients' deviations in group fairness before each FairFed round."""

from collections.abc import Callable, Iterable, Sequence

import tensorflow_federated as tff

import tasks
from tff_fair.experiments.runs import trained_model
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import build, plan, rounds
from tff_fair.methods import fairfed
from tff_fair.metrics import class_scores, group_gaps


def build_prepare(
  spec: RunSpec, parts: build.RunParts
) -> Callable[[rounds.State, Sequence[int]], rounds.State] | None:
  """Returns a function that puts the cohort's deviations into a state.

  For methods other than FairFed, returns None.
  """
  if spec.algorithm != plan.FAIRFED:
    return None
  gap = str(spec.all_hparams["gap"])
  counter = GroupCounter(parts, parts.task.train)

  def prepare(state: rounds.State, client_ids: Sequence[int]) -> rounds.State:
    counts = counter.count(state.global_model_weights, client_ids)
    found = group_gaps.deviations(gap, counts)
    return fairfed.with_deviations(state, client_ids, found)

  return prepare


class GroupCounter:
  """Counts the examples of clients by group and by a model's predictions."""

  def __init__(self, parts: build.RunParts, split: tasks.Split) -> None:
    assert split.groups is not None
    assert parts.task.group_names is not None
    self._load, self._groups = split.load, split.groups
    self._num_groups = len(parts.task.group_names)
    self._positive = _positive_class(parts)
    self._model = parts.task.keras_model_fn()

  def count(
    self, weights: tff.learning.models.ModelWeights, client_ids: Iterable[int]
  ) -> list[group_gaps.GroupCounts]:
    """Returns each client's counts, for the model with `weights`."""
    weights.assign_weights_to(self._model)
    return [*map(self._count_client, client_ids)]

  def _count_client(self, client_id: int) -> group_gaps.GroupCounts:
    x, y = self._load(client_id)
    return group_gaps.count(
      y,
      trained_model.outputs(self._model, x).argmax(-1),
      self._groups(client_id),
      self._num_groups,
      self._positive,
    )


def _positive_class(parts: build.RunParts) -> int | None:
  """Returns the requested class, or the rarer of two in the training data."""
  if parts.scores.positive_class is None and parts.task.num_classes == 2:
    return class_scores.rarest_class(parts.task.label_counts)
  return parts.scores.positive_class
