"""An audit as text for a terminal."""

import dataclasses
import textwrap
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tff_fair.experiments import joining, spread_noise, table_cells
from tff_fair.experiments.auditing import client_table
from tff_fair.experiments.scores import ACCURACY, Score
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
    summary: As `Audit.summary`.
  """
  score = client_table.score_of(clients)
  worst = rows(clients, score, worst_first(clients, score).index[:_WORST])
  told = [
    textwrap.fill(
      sentence, _WIDTH, break_on_hyphens=False, break_long_words=False
    )
    for sentence in sentences(clients, summary)
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
      client_table.shown_name(row[client_table.CLIENT]),
      f"{row[client_table.COUNT]:,}",
      score.number(row[score.name]),
      *_interval(row, score),
    ]
    for _, row in clients.loc[chosen].iterrows()
  ]


def _heads(score: Score) -> list[str]:
  heads = ["examples", score.noun]
  return [*heads, "interval"] if score is ACCURACY else heads


def _interval(row: pd.Series, score: Score) -> list[str]:
  if score is not ACCURACY:
    return []
  low, high = (
    score.number(row[f"{score.name}_{end}"]) for end in ("low", "high")
  )
  return [f"[{low}, {high}]"]


def _aligned(lines: list[list[str]]) -> str:
  padded = table_cells.aligned(lines, gap=2)
  return "\n".join("".join(line).rstrip() for line in padded)


# What an audit found, in sentences.


_LEVEL = 0.05
_LEAST_P = 0.001
_TAIL = 0.025  # Above the upper end of a 95 % interval.


def sentences(clients: pd.DataFrame, summary: Mapping[str, Any]) -> list[str]:
  """Returns who is worst off, what is noise, and what newcomers may expect.

  Args:
    clients: One row per client, with intervals of accuracies.
    summary: As `Audit.summary`.
  """
  score = client_table.score_of(clients)
  told = [_worst(clients, score)]
  if score is not ACCURACY:
    told.append(
      f"Each client's {score.noun} alone does not tell how much of the spread "
      "is the noise of small test sets."
    )
    return [*told, _newcomers(summary, score)]
  if noise := summary[spread_noise.KEY]:
    std = summary["test_accuracy"]["std"]
    told.append(spread_noise.sentence(std, noise))
  told.append(_equality(summary))
  told.append(_below(clients, summary["test_accuracy"]["mean"]))
  return [*told, _newcomers(summary, score)]


def _worst(clients: pd.DataFrame, score: Score) -> str:
  values = clients[score.name]
  worst = values.min() if score.higher_is_better else values.max()
  of_worst = clients[values == worst]
  first = of_worst.iloc[0]
  name = client_table.shown_name(first[client_table.CLIENT])
  value = f"{score.number(worst)}{score.sign}"
  if len(of_worst) == len(clients):
    return f"All clients have the same {score.noun}: {value}."
  if len(of_worst) > 1:
    return (
      f"Worst off are {len(of_worst):,} clients, one of them "
      f"{name}: their {score.noun} is {value}."
    )
  count = f"{first[client_table.COUNT]:,} test examples"
  if score is not ACCURACY:
    return f"Worst off is {name}: its {score.noun} is {value}, over {count}."
  low, high = (first[f"{score.name}_{end}"] for end in ("low", "high"))
  return (
    f"Worst off is {name}: its {score.noun} is {value} of {count}, with the "
    f"95 % interval {score.number(low)} to {score.number(high)}{score.sign}."
  )


def _newcomers(summary: Mapping[str, Any], score: Score) -> str:
  return (
    "If the model was trained on none of these clients: "
    f"{joining.bound_sentence(summary[joining.NEWCOMERS], score)}"
  )


def _equality(summary: Mapping[str, Any]) -> str:
  p_value = summary["equality_p_value"]
  shown = f"< {_LEAST_P}" if p_value < _LEAST_P else f"= {p_value:.3f}"
  if p_value < _LEVEL:
    return (
      "The clients differ by more than noise: that is unlikely if all are "
      f"served equally well (p {shown})."
    )
  return (
    "The clients may differ by noise alone: that is no surprise if all are "
    f"served equally well (p {shown})."
  )


def _below(clients: pd.DataFrame, mean: float) -> str:
  below = int((clients["accuracy_high"] < mean).sum())
  expected = _TAIL * len(clients)
  verb, whose = ("is", "its") if below == 1 else ("are", "their")
  return (
    f"{below:,} of {len(clients):,} clients {verb} clearly below the mean of "
    f"{ACCURACY.number(mean)} %: all of {whose} interval is. By "
    f"chance alone, about {expected:,.1f} would be."
  )
