"""Finds faults at the end of a run, by its evaluations.

`texts.run_warnings` describes them as text. With fair methods and small
cohorts, single evaluations fluctuate. So a fault counts only if all evaluations
at the end exceed a limit: the last three if there are nine or more after round
0, the last two if there are six or more, else the last one. A limit is a bar
(L₀, L* or the best score) plus a margin; the last evaluation alone suffices if
it exceeds the bar by ten times the margin. Let L₀ be the mean loss before
training, L* the least loss, L the least loss at the end, and P = L₀ - L* the
progress. The run

- is not finite: its last loss or its last mean score is infinite or NaN;
- rose above the initial loss: L > L₀ + max(|L₀|, P, f), where f is 1/2 if
  labels are classes, and 0 if they are numbers. So L is further above L₀ than
  L* is below it and, unless L₀ is negative, L > 2 L₀;
- rose above its best: L > L* + P / 2 and, unless L* is negative, L > 3 L*;
- lost its score, if higher scores are better and have a lower bound: the mean
  score fell from its best value by more than 0.1, and by more than half of the
  rise from round 0 to that value;
- is worse than a constant: if labels are numbers, R² over all examples is
  below -1, so the model's RMSE is more than 1.4 times that of predicting the
  labels' mean; if labels are classes, L > 2 ln C, twice the cross entropy of a
  model that gives C classes the same probability. A run with fewer than five
  evaluations after round 0, whose last loss is near the least (within a tenth
  of the range of losses), has just begun, and this is not a fault;
- predicts a constant: one class, one set of labels or one number for all test
  examples, though their labels differ; for scores of probabilities, such as
  AUC, a constant class is not a fault;
- changed nothing: the mean, std, least and largest score are the same in all
  evaluations, and the mean is not the best possible. There are five or more
  evaluations, or three or four whose losses differ by at most a thousandth.

If the model explains more than half of the labels' variance over all examples,
a risen loss is not a fault.
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

# Names in the table of evaluations: the prefix of columns that show a constant
# prediction, and the column of R² over all examples.
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
_TAIL = 3  # The most evaluations that are used as the end of a run.
_MANY = 5  # With this many evaluations, a run is past its beginning.
_FEW, _SAME = 3, 1e-3
_RATIO = 3.0
_BY_FAR = 10.0
_FLOOR = 0.5  # Nats.
_LEAST_FALL = 0.1
_LEAST_R2, _GOOD_R2 = -1.0, 0.5
_LOSS = "loss/mean"


@dataclasses.dataclass(frozen=True)
class Diagnosis:
  """A fault at the end of a run."""

  kind: Kind
  measure: str  # "loss", "r2_pooled", the score's name, or a kind of outputs.
  round_num: int  # The round of the last evaluation.
  value: float
  reference: float = math.nan  # The number to compare with, if any.
  reference_round: int | None = None  # The round of `reference`, if any.


def diagnose(
  evaluations: pd.DataFrame, score: Score, num_classes: int | None = None
) -> list[Diagnosis]:
  """Returns the faults at the end of a run, at most one about divergence."""
  if evaluations.empty or evaluations["round"].iloc[-1] == 0:
    return []
  table = evaluations.set_index("round")
  found = list(_diagnose_divergence(table, score, num_classes))[:1]
  return [*found, *_diagnose_predictions(table, score)]


def _diagnose_divergence(
  table: pd.DataFrame, score: Score, num_classes: int | None
) -> Iterator[Diagnosis]:
  """Yields signs of divergence, the clearest sign first."""
  last = int(table.index[-1])
  mean = f"{score.name}/mean"
  for measure, column in (("loss", _LOSS), (score.name, mean)):
    if column in table and not math.isfinite(value := table[column].iloc[-1]):
      yield Diagnosis("not_finite", measure, last, float(value))
  r2 = _end(table, POOLED, largest=True)
  if _LOSS in table and not r2 > _GOOD_R2:
    yield from _diagnose_losses(
      table[_LOSS], last, of_classes=score.is_for_classes
    )
  if score.higher_is_better and math.isfinite(score.lowest) and mean in table:
    yield from _diagnose_scores(table[mean], last, score)
  if _has_just_begun(table):
    return
  if r2 < _LEAST_R2:
    yield Diagnosis("worse_than_constant", POOLED, last, r2, 0.0)
  if num_classes is not None and num_classes > 1 and _LOSS in table:
    bar, value = math.log(num_classes), _end(table, _LOSS)
    if value > 2 * bar:
      yield Diagnosis("worse_than_constant", "loss", last, value, bar)


def _has_just_begun(table: pd.DataFrame) -> bool:
  """Returns whether evaluations are few and the last loss is near the best."""
  if _LOSS not in table or (table.index > 0).sum() >= _MANY:
    return False
  losses = table[_LOSS]
  least, largest, last = map(
    float, (losses.min(), losses.max(), losses.iloc[-1])
  )
  return last <= least + (largest - least) / 10


def _end(table: pd.DataFrame, column: str, *, largest: bool = False) -> float:
  """Returns the least value at a column's end; with `largest`, the largest.

  Returns NaN if the table does not have the column.
  """
  if column not in table:
    return math.nan
  values = _tail(table[column])
  return float(values.max() if largest else values.min())


def _tail(column: pd.Series) -> pd.Series:
  """Returns the last third of the values after round 0: one to three values."""
  trained = column[column.index > 0]
  return trained.iloc[-min(_TAIL, max(1, len(trained) // _TAIL)) :]


def _diagnose_losses(
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
  """Returns whether all values at the end exceed `bar` by `margin`.

  The last value alone suffices if it exceeds `bar` by ten times `margin`.
  """
  end, last = float(_tail(values).min()), float(values.iloc[-1])
  return end > bar + margin or last > bar + _BY_FAR * margin


def _diagnose_scores(
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


def _diagnose_predictions(
  table: pd.DataFrame, score: Score
) -> Iterator[Diagnosis]:
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
