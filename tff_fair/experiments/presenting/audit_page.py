"""Formats an audit as text for a terminal, and as an HTML page."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tff_fair import escaping
from tff_fair.experiments.analysis import audit_table
from tff_fair.experiments.presenting import rendering
from tff_fair.experiments.presenting.report import (
  client_sections,
  html_tables,
  scale,
)
from tff_fair.experiments.presenting.report.frame import (
  Figure,
  Frame,
  Path,
  line_path,
)
from tff_fair.experiments.presenting.report.html_tables import Cell, Head, Row
from tff_fair.experiments.presenting.report.task_runs import Method
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.spec.scores import ACCURACY, BY_NAME, Score
from tff_fair.experiments.texts import layout, sentences
from tff_fair.metrics.intervals import LEVEL
from tff_fair.metrics.statistics import tail_size

_WORST = 5  # The number of worst-off clients that are listed.
# Titles of statistics: `_ROWS` have the score's unit, `_UNIFORMITY` no unit.
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
  """Returns the fairness table, worst-off clients and verdict as text."""
  score = score_of(clients, summary)
  worst = _worst_first(clients, score).head(_WORST)
  heads = ["worst off", "examples", score.noun]
  heads += ["interval"] if score.is_accuracy else []
  return "\n\n".join(
    [
      f"{_caption(score, summary)}, with 95 % intervals",
      layout.table(_statistics(score, summary)),
      layout.table(
        [heads, *(_cells(row, score) for _, row in worst.iterrows())]
      ),
      *map(layout.wrap, _sentences(clients, summary)),
    ]
  )


def score_of(clients: pd.DataFrame, summary: Mapping[str, Any]) -> Score:
  """Returns the score by which an audit compares clients."""
  if summary["score"] == audit_table.LOSS.name:
    return audit_table.score_of(clients)
  return BY_NAME[summary["score"]]


def _caption(score: Score, summary: Mapping[str, Any]) -> str:
  number = summary["num_clients"]
  return (
    f"{score.title} over {number:,} clients, {score.in_unit}; 10 % = "
    f"{tail_size(10, number):,} of {number:,} clients"
  )


def _statistics(score: Score, summary: Mapping[str, Any]) -> list[list[str]]:
  """Returns a row per statistic: title, value, and interval ("" if unknown)."""
  found = summary[f"test_{score.name}"]
  ratio = dataclasses.replace(score, scale=1.0, digits=4)
  lines = []
  for name, title in {**_ROWS, **_UNIFORMITY}.items():
    if math.isnan(found[name]):  # The statistic is undefined.
      continue
    shown = score if name in _ROWS else ratio
    interval = summary["intervals"].get(name)
    ends = f"[{', '.join(map(shown.number, interval))}]" if interval else ""
    lines.append([title, shown.number(found[name]), ends])
  weighted = score.number(summary[f"test_{score.name}_weighted"])
  lines.insert(1, ["mean by examples", weighted, ""])
  return lines


def _worst_first(clients: pd.DataFrame, score: Score) -> pd.DataFrame:
  return clients.sort_values(
    score.name, ascending=score.higher_is_better, kind="stable"
  )


def _cells(row: pd.Series, score: Score) -> list[str]:
  cells = [
    escaping.line(str(row[audit_table.CLIENT])),
    f"{row[audit_table.COUNT]:,}",
    score.number(row[score.name]),
  ]
  if not score.is_accuracy:
    return cells
  low, high = (
    score.number(row[f"{score.name}_{end}"]) for end in ("low", "high")
  )
  return [*cells, f"[{low}, {high}]"]


_LEAST_P = 0.001
_TAIL = 0.025  # The probability above the upper end of a 95 % interval.


def _sentences(clients: pd.DataFrame, summary: Mapping[str, Any]) -> list[str]:
  """Returns sentences on the worst-off clients, noise, and newcomers."""
  score = score_of(clients, summary)
  known = clients.dropna(subset=[score.name])
  worst = known[score.name].agg("min" if score.higher_is_better else "max")
  of_worst = known[known[score.name] == worst]
  first = of_worst.iloc[0]
  data: dict[str, Any] = {}
  if score.is_accuracy:
    found, noise = summary["test_accuracy"], summary[summaries.NOISE]
    mean, p_value = found["mean"], summary["equality_p_value"]
    data = {
      "ends": [score.number(first[f"accuracy_{e}"]) for e in ("low", "high")],
      "noise": sentences.noise(found["std"], noise) if noise else "",
      "differ": p_value < LEVEL,
      "p_value": f"< {_LEAST_P}" if p_value < _LEAST_P else f"= {p_value:.3f}",
      "mean": score.number(mean),
      "num_below": int((known["accuracy_high"] < mean).sum()),
      "num_expected": f"{_TAIL * len(clients):,.1f}",
    }
  return rendering.sentences(
    "audit_verdict.txt",
    score=score,
    name=str(first[audit_table.CLIENT]),
    value=f"{score.number(worst)}{score.sign}",
    examples=f"{first[audit_table.COUNT]:,}",
    num_worst=len(of_worst),
    num_known=len(known),
    num_clients=len(clients),
    of_model=_model_sentences(clients, summary, score),
    is_accuracy=score.is_accuracy,
    newcomers=sentences.newcomer_bound(summary["newcomers"], score),
    **data,
  )


def _model_sentences(
  clients: pd.DataFrame, summary: Mapping[str, Any], score: Score
) -> list[str]:
  """Returns sentences on results that need a model, such as group gaps."""
  missing = clients[clients[score.name].isna()][audit_table.CLIENT]
  lines = sentences.left_out([*map(str, missing)], score)
  for name, other in BY_NAME.items():
    if name != score.name and (found := summary.get(f"test_{name}")):
      lines.append(sentences.extra_score(other, found) + ".")
  return [
    *lines,
    *sentences.majority(summary),
    *sentences.groups(summary),
    *sentences.threshold(summary),
  ]


# The most clients in the page's table and chart; clients.csv has all clients.
_MOST_ROWS = 500
_MOST_POINTS = 400
# The sources of uncertainty in intervals, for other scores and for accuracies.
_SAMPLES = ("clients", "clients and their test examples")


def build(
  clients: pd.DataFrame, summary: Mapping[str, Any], title: str, about: str
) -> str:
  """Returns an audit's page as HTML."""
  score = score_of(clients, summary)
  heads = ["Measure", score.title, "95\N{NO-BREAK SPACE}% interval"]
  return rendering.page(
    "audit.html",
    title,
    about=about,
    verdict=_sentences(clients, summary),
    measures=html_tables.of_text(
      _caption(score, summary), [heads, *_statistics(score, summary)]
    ),
    samples=_SAMPLES[score.is_accuracy],
    figures=[
      _client_figure(clients, score, summary),
      *([_histogram(clients, summary)] if score.is_accuracy else []),
    ],
    clients=_table(clients, score),
    left_out=max(0, len(clients) - _MOST_ROWS),
  )


def _client_figure(
  clients: pd.DataFrame, score: Score, summary: Mapping[str, Any]
) -> Figure:
  """Returns a chart of the clients' scores in order, with their intervals."""
  ordered = _worst_first(clients.dropna(subset=[score.name]), score)
  places = np.unique(
    np.linspace(0, len(ordered) - 1, _MOST_POINTS).round().astype(int)
  )
  shown = ordered.iloc[places]
  x = 100 * (places + 0.5) / len(ordered)
  y = _scaled(shown, score.name, score)
  low = _scaled(shown, f"{score.name}_low", score) if score.is_accuracy else y
  high = _scaled(shown, f"{score.name}_high", score) if score.is_accuracy else y
  frame = Frame(
    scale.linear(0, 100, is_tight=True),
    scale.linear(
      float(np.min(low)),
      float(np.max(high)),
      bounds=(0, 100) if score.is_accuracy else (-np.inf, np.inf),
    ),
    x_label="clients, from the worst off to the best (%)",
  )
  across, mean = frame.x_pixels(x), summary[f"test_{score.name}"]["mean"]
  whiskers = "".join(
    f"M{place:.1f} {top:.1f}V{floor:.1f}"
    for place, top, floor in zip(
      across, frame.y_pixels(high), frame.y_pixels(low), strict=True
    )
  )
  level = frame.y_pixels([score.scale * mean])[0]
  drawing = frame.drawing(
    "ordered",
    f"{score.title} of clients in order",
    f"Clients from the worst off to the best; mean {score.number(mean)}"
    f"{score.sign}.",
    [
      *frame.axes(),
      Path(whiskers, "band c0"),
      Path(line_path(across, frame.y_pixels(y)), "line c0"),
      Path(
        f"M{frame.left} {level:.1f}H{frame.width - frame.right}",
        "mean-line",
        f"mean {score.number(mean)}{score.sign}",
      ),
    ],
  )
  intervals = "Upright lines: 95 % interval of each client. "
  return Figure(
    drawing,
    f"Clients in order: {score.noun} ({score.sign.strip() or '1'})",
    f"{intervals if score.is_accuracy else ''}Solid line across: mean.",
  )


def _histogram(clients: pd.DataFrame, summary: Mapping[str, Any]) -> Figure:
  accuracies = clients[ACCURACY.name].to_numpy(np.float64)
  bins = client_sections.histogram_shares([accuracies])
  x = scale.linear(0, 100, is_tight=True)
  y = scale.linear(0, 100 * float(bins.max()), bounds=(0, 100))
  found = summary["test_accuracy"]
  mean, worst = 100 * found["mean"], 100 * found["worst_10"]
  drawing = client_sections.draw_histogram(
    Method("the model", 0, ()),
    bins,
    mean,
    worst,
    Frame(x, y, x_label="accuracy (%)"),
    identifier="histogram",
  )
  return Figure(
    drawing,
    "Share of clients (%) in steps of 5 points of accuracy",
    f"Solid line: mean {mean:.1f}. Dashed line: mean of the worst 10 % "
    f"{worst:.1f}.",
  )


def _table(clients: pd.DataFrame, score: Score) -> html_tables.Table:
  ordered = _worst_first(clients, score).iloc[:_MOST_ROWS]
  columns = [c for c in clients.columns if c != audit_table.CLIENT]
  return html_tables.Table(
    f"Clients, the worst off first ({score.in_unit})",
    "Client",
    [Head(_column_title(name), "ascending") for name in columns],
    [
      Row(
        row[audit_table.CLIENT],
        [Cell(row[name], _cell_text(name, row[name])) for name in columns],
      )
      for row in ordered.to_dict("records")
    ],
  )


def _scaled(table: pd.DataFrame, column: str, score: Score) -> np.ndarray:
  return score.scale * table[column].to_numpy(np.float64)


def _column_title(column: str) -> str:
  return {
    audit_table.COUNT: "Examples",
    "accuracy_low": "95 % from",
    "accuracy_high": "to",
    audit_table.R2: "R²",
    "majority_accuracy": "Most frequent class",
  }.get(column) or (
    BY_NAME[column].title if column in BY_NAME else column.capitalize()
  )


def _cell_text(column: str, value: float) -> str:
  if column in (audit_table.COUNT, audit_table.CORRECT):
    return f"{value:,}"
  if column in BY_NAME and not np.isnan(value):
    return BY_NAME[column].number(value)
  if column.startswith(ACCURACY.name):
    return ACCURACY.number(value)
  return "−" if np.isnan(value) else f"{value:.4f}"
