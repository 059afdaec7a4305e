"""An audit as text for a terminal."""

import dataclasses
import textwrap
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tff_fair.experiments import aligned_columns
from tff_fair.experiments.auditing import scores, verdict
from tff_fair.experiments.scores import Score
from tff_fair.metrics.statistics import tail_size

_WIDTH = 80
_WORST = 5  # Clients that are listed.
# Titles by statistic; those in the second group have no unit.
_ROWS = {
  "mean": "mean",
  "std": "std",
  "min": "min",
  "worst_10": "worst 10 %",
  "percentile_50": "median",
  "best_10": "best 10 %",
  "max": "max",
}
_UNIFORMITY = {"relative_std": "relative std", "jain": "Jain's index"}


def describe(clients: pd.DataFrame, summary: Mapping[str, Any]) -> str:
  """Returns the fairness table with intervals, the worst off, and the verdict.

  Args:
    clients: One row per client, with intervals of accuracies.
    summary: As `summary.summarize` returns it.
  """
  score = scores.of_table(clients)
  worst = rows(clients, score, worst_first(clients, score).index[:_WORST])
  told = [
    textwrap.fill(
      sentence, _WIDTH, break_on_hyphens=False, break_long_words=False
    )
    for sentence in verdict.sentences(clients, summary)
  ]
  return "\n\n".join(
    [
      f"{caption(score, summary)}, with 95 % intervals",
      _aligned(statistics(score, summary)),
      _aligned([["worst off", *_heads(score)], *worst]),
      *told,
    ]
  )


def caption(score: Score, summary: Mapping[str, Any]) -> str:
  """Returns a heading of the statistics."""
  number = summary["num_clients"]
  return (
    f"{score.title} over {number:,} clients, {score.in_unit}; 10 % = "
    f"{tail_size(10, number):,} of {number:,} clients"
  )


def statistics(score: Score, summary: Mapping[str, Any]) -> list[list[str]]:
  """Returns the statistics: title, value, interval, which may be empty."""
  found = summary[f"test_{score.name}"]
  lines = []
  for name, title in {**_ROWS, **_UNIFORMITY}.items():
    shown = (
      score
      if name in _ROWS
      else dataclasses.replace(score, scale=1.0, digits=4)
    )
    interval = summary["intervals"].get(name)
    ends = f"[{', '.join(map(shown.number, interval))}]" if interval else ""
    lines.append([title, shown.number(found[name]), ends])
  weighted = score.number(summary[f"test_{score.name}_weighted"])
  lines.insert(1, ["mean by examples", weighted, ""])
  return lines


def worst_first(clients: pd.DataFrame, score: Score) -> pd.DataFrame:
  """Returns the clients, the worst off first."""
  return clients.sort_values(
    score.name, ascending=score.higher_is_better, kind="stable"
  )


def rows(
  clients: pd.DataFrame, score: Score, chosen: pd.Index
) -> list[list[str]]:
  """Returns rows of some clients: name, examples, score, interval."""
  return [
    [
      scores.shown_name(row[scores.CLIENT]),
      f"{row[scores.COUNT]:,}",
      score.number(row[score.name]),
      *_interval(row, score),
    ]
    for _, row in clients.loc[chosen].iterrows()
  ]


def _heads(score: Score) -> list[str]:
  heads = ["examples", score.noun]
  return [*heads, "interval"] if score is scores.ACCURACY else heads


def _interval(row: pd.Series, score: Score) -> list[str]:
  if score is not scores.ACCURACY:
    return []
  low, high = (
    score.number(row[f"{score.name}_{end}"]) for end in ("low", "high")
  )
  return [f"[{low}, {high}]"]


def _aligned(lines: list[list[str]]) -> str:
  padded = aligned_columns.pad(lines, gap=2)
  return "\n".join("".join(line).rstrip() for line in padded)
