"""Faults at the end of a run, as numbers from its evaluations.

`texts.run_warnings` has the words. An evaluation counts as the end of a run
with those right before it: of nine or more after training began, all of the
last three have to be as bad, of six or more the last two, since fair methods
and small cohorts make single evaluations jump. The last one is enough where it
exceeds a limit ten times as far. Let L₀ be the loss before training, L* the
least one, L the least one of the end, P = L₀ - L* the progress of training. The
run

- is not finite: the last loss, or the mean of the score, is not;
- rose above the initial loss: L > L₀ + max(|L₀|, P, f), where f is 1/2 for
  classes and 0 for numbers. That is twice L₀, or as far above L₀ as L* is below
  it;
- rose above its best: L > L* + P / 2 and, unless L* is negative, L > 3 L*;
- lost its score, if that is at most 1 and best so: its mean fell from its best
  by more than .1, and by more than half of what training had gained;
- is worse than a constant: of numbers, R² over all examples is below -1, so
  the error is more than 1.4 times that of their mean; of classes, L > 2 ln C,
  twice the cross entropy of a model that gives C classes the same probability.
  Of fewer than five evaluations after training began, it counts only where the
  run has lost a tenth of its progress: others have just begun;
- predicts a constant: one class, one set of labels or one number for all test
  examples, though their labels differ; of scores of probabilities, as AUC,
  classes do not count;
- changed nothing: the mean, std, least and largest score are the same in each
  of five or more evaluations, or of three whose losses are the same up to a
  thousandth, and not the best possible.

A model that explains half of the variance of the labels, over all examples, did
not rise, whatever its loss was before.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Iterator
from typing import Literal

import numpy as np

from tff_fair.experiments.spec.scores import Score

if typing.TYPE_CHECKING:
  import pandas as pd

# Columns of the table of evaluations. The first begins several: one for each
# kind of outputs.
CONSTANT, POOLED = "constant_prediction", "r2_pooled"

Kind = Literal[
  "not_finite",
  "above_initial",
  "above_best",
  "score_lost",
  "worse_than_constant",
  "constant_prediction",
  "unchanged",
]
_TAIL = 3  # Evaluations of the end.
_MANY = 5  # From so many evaluations on, a run is not at its beginning.
_FEW, _SAME = 3, 1e-3
_RATIO = 3.0
_BY_FAR = 10.0
_FLOOR = 0.5  # Nats.
_LEAST_FALL = 0.1
_LEAST_R2, _GOOD_R2 = -1.0, 0.5
_LOSS = "loss/mean"


@dataclasses.dataclass(frozen=True)
class Diagnosis:
  """Something that is wrong with how a run ended."""

  kind: Kind
  measure: str  # "loss", "r2_pooled", the score's name, or a kind of outputs.
  round_num: int  # Of the last evaluation.
  value: float
  reference: float = math.nan  # Compared with; NaN if there is none.
  reference_round: int | None = None  # None if it is of no round.


def diagnose(
  evaluations: pd.DataFrame, score: Score, num_classes: int | None = None
) -> list[Diagnosis]:
  """Returns the problems at the end of a run; of divergence, one kind."""
  if evaluations.empty or evaluations["round"].iloc[-1] == 0:
    return []
  table = evaluations.set_index("round")
  found = list(_of_divergence(table, score, num_classes))[:1]
  return [*found, *_of_predictions(table, score)]


def _of_divergence(
  table: pd.DataFrame, score: Score, num_classes: int | None
) -> Iterator[Diagnosis]:
  """Yields the signs of divergence, the plainest first."""
  last = int(table.index[-1])
  mean = f"{score.name}/mean"
  for measure, column in (("loss", _LOSS), (score.name, mean)):
    if column in table and not math.isfinite(value := table[column].iloc[-1]):
      yield Diagnosis("not_finite", measure, last, float(value))
  r2 = _end(table, POOLED, largest=True)
  if _LOSS in table and not r2 > _GOOD_R2:
    yield from _of_losses(table[_LOSS], last, of_classes=score.of_classes)
  if score.higher_is_better and math.isfinite(score.lowest) and mean in table:
    yield from _of_scores(table[mean], last, score)
  if _has_just_begun(table):
    return
  if r2 < _LEAST_R2:
    yield Diagnosis("worse_than_constant", POOLED, last, r2, 0.0)
  if num_classes is not None and num_classes > 1 and _LOSS in table:
    bar, value = math.log(num_classes), _end(table, _LOSS)
    if value > 2 * bar:
      yield Diagnosis("worse_than_constant", "loss", last, value, bar)


def _has_just_begun(table: pd.DataFrame) -> bool:
  """Returns whether evaluations are few, and the last is near the best."""
  if _LOSS not in table or (table.index > 0).sum() >= _MANY:
    return False
  losses = table[_LOSS]
  least, largest, last = map(
    float, (losses.min(), losses.max(), losses.iloc[-1])
  )
  return last <= least + (largest - least) / 10


def _end(table: pd.DataFrame, column: str, *, largest: bool = False) -> float:
  """Returns the best value at the end of a column; NaN without one."""
  if column not in table:
    return math.nan
  values = _tail(table[column])
  return float(values.max() if largest else values.min())


def _tail(column: pd.Series) -> pd.Series:
  """Returns the evaluations of the end: the last of few, three of many."""
  trained = column[column.index > 0]
  return trained.iloc[-min(_TAIL, max(1, len(trained) // _TAIL)) :]


def _of_losses(
  losses: pd.Series, last: int, *, of_classes: bool
) -> Iterator[Diagnosis]:
  known = losses[np.isfinite(losses)]
  if known.empty or known.index[-1] != last:
    return
  best, at_best = float(known.min()), int(known.idxmin())
  initial = float(known.iloc[0]) if known.index[0] == 0 else math.nan
  progress = initial - best
  value = float(known.iloc[-1])
  margin = max(abs(initial), progress, _FLOOR if of_classes else 0.0)
  if _ends_above(known, initial, margin):
    yield Diagnosis("above_initial", "loss", last, value, initial, 0)
  margin = max(progress / 2, (_RATIO - 1) * best)
  if at_best > 0 and _ends_above(known, best, margin):
    yield Diagnosis("above_best", "loss", last, value, best, at_best)


def _ends_above(values: pd.Series, bar: float, margin: float) -> bool:
  """Returns whether all last values exceed a bar, or the last one by far."""
  end, last = float(_tail(values).min()), float(values.iloc[-1])
  return end > bar + margin or last > bar + _BY_FAR * margin


def _of_scores(
  means: pd.Series, last: int, score: Score
) -> Iterator[Diagnosis]:
  known = means[np.isfinite(means)]
  if known.empty:
    return
  best, at_best = float(known.max()), int(known.idxmax())
  gained = best - float(known.iloc[0]) if known.index[0] == 0 else 0.0
  if _ends_above(-known, -best, max(_LEAST_FALL, gained / 2)):
    value = float(known.iloc[-1])
    yield Diagnosis("score_lost", score.name, last, value, best, at_best)


def _of_predictions(table: pd.DataFrame, score: Score) -> Iterator[Diagnosis]:
  last = int(table.index[-1])
  for column in table:
    kind = str(column).removeprefix(f"{CONSTANT}/")
    if kind != column and math.isfinite(value := table[column].iloc[-1]):
      yield Diagnosis("constant_prediction", kind, last, float(value))
      return
  names = [f"{score.name}/{name}" for name in ("mean", "std", "min", "max")]
  if len(table) < _FEW or not {*names, _LOSS} <= set(table):
    return
  losses = table[_LOSS]
  low, high = float(losses.min()), float(losses.max())
  if len(table) < _MANY and not high - low <= _SAME * abs(low):
    return
  mean = float(table[names[0]].iloc[-1])
  best = score.highest if score.higher_is_better else 0.0
  if mean != best and (table[names].nunique(dropna=False) == 1).all():
    yield Diagnosis("unchanged", score.name, last, mean)
