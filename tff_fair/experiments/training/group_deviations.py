"""FairFed's deviations: each client's gap between groups, before each round.

The program runs the model that clients receive over the training examples of
the round's cohort, and counts them by group.
"""

from collections.abc import Callable, Sequence

from tff_fair.experiments.runs import trained_model
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import build, plan, rounds
from tff_fair.methods import fairfed
from tff_fair.metrics import group_gaps


def build_prepare(
  spec: RunSpec, parts: build.RunParts
) -> Callable[[rounds.State, Sequence[int]], rounds.State] | None:
  """Returns what a state gets before a round; None for other methods."""
  if spec.algorithm != plan.BY_GROUPS:
    return None
  task, gap = parts.task, str(spec.all_hparams["gap"])
  groups, names = task.train.groups, task.group_names
  assert groups is not None  # `plan.check` has looked.
  assert names is not None
  positive = _positive_class(parts)
  model = task.keras_model_fn()

  def counts(client_id: int) -> group_gaps.GroupCounts:
    x, y = task.train.load(client_id)
    predicted = trained_model.outputs(model, x).argmax(-1)
    return group_gaps.count(
      y,
      predicted,
      groups(client_id),
      len(names),
      -1 if positive is None else positive,
    )

  def prepare(state: rounds.State, client_ids: Sequence[int]) -> rounds.State:
    weights = state.global_model_weights
    trained_model.assign(model, [*weights.trainable, *weights.non_trainable])
    found = group_gaps.deviations(gap, [*map(counts, client_ids)])
    return fairfed.with_deviations(state, client_ids, found)

  return prepare


def _positive_class(parts: build.RunParts) -> int | None:
  """Returns the class that gaps are of: the rarer of two, unless named."""
  if parts.scores.positive is not None or parts.task.num_classes != 2:
    return parts.scores.positive
  first, second = parts.task.label_counts.sum(0)
  return int(second <= first)
