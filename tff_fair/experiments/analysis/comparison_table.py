"""Defines the tables that compare methods; marks their best values."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair.experiments import number_text
from tff_fair.experiments.analysis import (
  client_results,
  measures,
  paired,
  questions,
)
from tff_fair.experiments.analysis.client_results import ResultsBySeed
from tff_fair.experiments.analysis.measures import Measure, Value, value_text
from tff_fair.experiments.analysis.paired import Difference
from tff_fair.experiments.spec.scores import ACCURACY, Score
from tff_fair.metrics.intervals import LEVEL
from tff_fair.metrics.vectors import Vector


class Wins(NamedTuple):
  """How many clients score better, the same or worse than with a baseline."""

  wins: int
  ties: int
  losses: int


def count_wins(
  method: ResultsBySeed, baseline: ResultsBySeed, score: Score = ACCURACY
) -> Wins:
  """Counts clients that win, tie or lose by their mean change over seeds."""
  changes, ties = client_changes(method, baseline, score)
  rises, falls = int((changes > ties).sum()), int((changes < -ties).sum())
  wins, losses = (rises, falls) if score.higher_is_better else (falls, rises)
  return Wins(wins, changes.size - wins - losses, losses)


def client_changes(
  method: ResultsBySeed, baseline: ResultsBySeed, score: Score
) -> tuple[Vector, Vector]:
  """Returns clients' changes, and the limits up to which changes are ties.

  Both are means over seeds, float64[clients].
  """
  found: dict[int, list[tuple[float, float]]] = {}
  with np.errstate(invalid="ignore"):
    for pair in client_results.pairs(method, baseline):
      before, after = (
        np.mean([e.score for e in evaluations], 0)
        for evaluations in (pair.baseline, pair.method)
      )
      of_pair = zip(after - before, score.tie(before, after), strict=True)
      for client, change in zip(pair.ids.tolist(), of_pair, strict=True):
        found.setdefault(client, []).append(change)
    means = np.array([np.mean(changes, 0) for changes in found.values()])
  changes, ties = means.reshape(-1, 2).T
  return changes, ties


# The column of wins, ties and losses; data frames have one column for each.
RECORD = "record"


class Contrast(NamedTuple):
  """A difference from a baseline, with Holm's correction for all methods."""

  difference: Difference
  p_holm: float
  baseline: str = ""


def contrasts(
  measure: Measure,
  methods: Sequence[ResultsBySeed],
  baseline: ResultsBySeed,
  label: str,
  question: questions.Name,
) -> list[Contrast]:
  """Returns methods' scaled, Holm-corrected differences from a baseline.

  `label` is the baseline's name in the results.
  """
  assert measure.statistic is not None
  known = paired.memoize(measure.statistic)
  differences = [
    paired.difference(known, method, baseline, measure.span, question).scaled(
      measure.scale
    )
    for method in methods
  ]
  factors = paired.holm_factors([found.p_value for found in differences])
  return [
    Contrast(found.corrected(factor), min(factor * found.p_value, 1.0), label)
    for found, factor in zip(differences, factors, strict=True)
  ]


Cell = Value | Contrast | Wins


class Row(NamedTuple):
  """A method's row in a table: its cells, and their marks, such as `BEST`."""

  label: str
  num_seeds: int
  cells: tuple[Cell, ...]
  marks: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True)
class Table:
  """A table with a row for each method."""

  task: str  # The name, with the options and the number of clients.
  caption: str
  measures: Mapping[str, Measure]  # By the names of data frame columns.
  rows: tuple[Row, ...]  # At least one.
  notes: tuple[str, ...]  # Sentences that are shown below the table.


def cell_text(measure: Measure, cell: Cell) -> str:
  """Returns a cell as tables show it.

  For example "12.30 ± 0.45", "+1.20 [-0.30, +2.70] p=0.105" or "12/3/15".
  """
  if isinstance(cell, Wins):
    return "/".join(map(str, cell))
  if isinstance(cell, Contrast):
    p_value = number_text.p_value(cell.p_holm)
    found = cell.difference
    shown = measures.difference_text(
      measure, found.estimate, found.low, found.high
    )
    return f"{shown} p{p_value}" if p_value else shown
  return value_text(measure, cell)


def cell_numbers(
  name: str, measure: Measure, cell: Cell, *, is_rounded: bool
) -> dict[str, float | str]:
  """Returns a cell's numbers by the names of their data frame columns."""

  def number(value: float | None, digits: int) -> float:
    if value is None:
      return math.nan
    return round(value, digits) if is_rounded else value

  digits = measure.digits
  if isinstance(cell, Wins):
    return {
      name.replace(RECORD, kind): count
      for kind, count in cell._asdict().items()
    }
  if isinstance(cell, Contrast):
    found = cell.difference
    return {
      name: number(found.estimate, digits),
      f"{name}_low": number(found.low, digits),
      f"{name}_high": number(found.high, digits),
      f"{name}_p": found.p_value,  # Not rounded: small ones would be 0.
      f"{name}_p_holm": cell.p_holm,
      f"{name}_baseline": cell.baseline,
    }
  return {
    name: number(cell.mean, digits),
    f"{name}_std_over_seeds": number(cell.std, digits),
  }


BEST, SECOND = 1, 2
NEEDED_SEEDS = 2


def marks_of_column(
  measure: Measure,
  methods: Sequence[ResultsBySeed],
  means: Sequence[float],
  question: questions.Name = questions.OTHER_CLIENTS,
) -> list[int | None]:
  """Returns each method's mark in a column: `BEST`, `SECOND` or None."""
  # Best: the method with the best mean, and all methods not separable from it
  # (p-value of 0.05 or more after Holm's correction). Second: the next method,
  # if separable from the best and not the last. Equal rounded means have equal
  # marks.
  shown = [measures.sort_key(measure, round(m, measure.digits)) for m in means]
  rivals = [
    place
    for place, method in enumerate(methods)
    if len(method) >= NEEDED_SEEDS and shown[place] < math.inf
  ]
  marks: list[int | None] = [None] * len(methods)
  if not rivals:
    return marks
  best = min(rivals, key=lambda place: shown[place])
  compared = [
    place
    for place in rivals
    if place != best
    and len(client_results.pairs(methods[place], methods[best])) >= NEEDED_SEEDS
  ]
  levels = sorted({shown[place] for place in (best, *compared)})
  if len(levels) < 2:
    return marks
  found = contrasts(
    measure, [methods[k] for k in compared], methods[best], "", question
  )
  separable = {
    place
    for place, contrast in zip(compared, found, strict=True)
    # If nothing varies, there is no p-value, and methods are not separable.
    if contrast.p_holm < LEVEL and shown[place] > shown[best]
  }
  for place in {best, *compared} - separable:
    marks[place] = BEST
  seconds = [place for place in compared if shown[place] == levels[1]]
  if len(levels) > 2 and separable.issuperset(seconds):
    for place in seconds:
      marks[place] = SECOND
  return marks


def marks_note(num_seeds: Mapping[str, int]) -> str:
  """Returns a sentence on methods with too few seeds for marks, or ""."""
  single_seed_labels = [
    label for label, n in num_seeds.items() if n < NEEDED_SEEDS
  ]
  if not single_seed_labels:
    return ""
  if len(single_seed_labels) == len(num_seeds):
    return "1 seed: no uncertainty, so no value is marked as the best."
  return f"1 seed: no uncertainty, so no mark: {', '.join(single_seed_labels)}."


def frame(tables: Sequence[Table], *, is_rounded: bool = False) -> pd.DataFrame:
  """Returns all tables as a data frame: a row for each method of each task."""
  rows: dict[tuple[str, str], dict[str, object]] = {}
  for table in tables:
    for row in table.rows:
      cells = rows.setdefault(
        (table.task, row.label),
        {"task": table.task, "method": row.label, "seeds": row.num_seeds},
      )
      for (name, measure), cell in zip(
        table.measures.items(), row.cells, strict=True
      ):
        cells |= cell_numbers(name, measure, cell, is_rounded=is_rounded)
  return pd.DataFrame(list(rows.values())).convert_dtypes(
    convert_string=False, convert_integer=False, convert_floating=False
  )
