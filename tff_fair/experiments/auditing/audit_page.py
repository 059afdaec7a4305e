"""An audit as a page, in the style of reports of runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tff_fair.experiments.auditing import client_table, text
from tff_fair.experiments.reporting import (
  client_sections,
  document,
  html_tables,
  scale,
  section,
)
from tff_fair.experiments.reporting.frame import Frame, line_path
from tff_fair.experiments.reporting.markup import Child, Markup, element
from tff_fair.experiments.reporting.task_runs import MethodRuns
from tff_fair.experiments.scores import ACCURACY, RMSE, Score

# A reader can take in no more rows; clients.csv has all.
_MOST_ROWS = 500
_MOST_POINTS = 400
# What intervals are over, without and with the noise of examples.
_SAMPLES = ("clients", "clients and their test examples")


def build(
  clients: pd.DataFrame, summary: Mapping[str, Any], title: str, about: str
) -> str:
  """Returns the page as HTML.

  Args:
    clients: One row per client, with intervals of accuracies.
    summary: As `Audit.summary`.
    title: Its title.
    about: A line on the model and its data.
  """
  score = client_table.score_of(clients)
  return document.build(
    title,
    [
      element("header", element("h1", title), element("p", about)),
      element(
        "main",
        element(
          "div",
          [
            _section("Verdict", _verdict(clients, summary)),
            _section("Measures", _measures(score, summary)),
            _section("Clients", _charts(clients, score, summary)),
            _section("Each client", _table(clients, score)),
          ],
          class_="task",
        ),
      ),
    ],
  )


def _section(title: str, *body: Child) -> Markup:
  return element("section", element("h3", title), body)


def _verdict(clients: pd.DataFrame, summary: Mapping[str, Any]) -> Markup:
  return element(
    "ul", [element("li", s) for s in text.sentences(clients, summary)]
  )


def _measures(score: Score, summary: Mapping[str, Any]) -> list[Child]:
  heads = ["Measure", score.title, "95\N{NO-BREAK SPACE}% interval"]
  return [
    html_tables.of_text(
      text.caption(score, summary), [heads, *text.statistics(score, summary)]
    ),
    section.note(
      "Each client counts once, but in the mean by examples. The intervals "
      f"are over {_SAMPLES[score is ACCURACY]}. With few clients "
      "they are rough."
    ),
  ]


def _charts(
  clients: pd.DataFrame, score: Score, summary: Mapping[str, Any]
) -> Markup:
  figures = [_ordered(clients, score, summary)]
  if score is ACCURACY:
    figures.append(_histogram(clients, summary))
  return section.charts(figures)


def _ordered(
  clients: pd.DataFrame, score: Score, summary: Mapping[str, Any]
) -> Markup:
  """Returns the clients in order, with the interval of each."""
  ordered = text.worst_first(clients, score)
  places = np.unique(
    np.linspace(0, len(ordered) - 1, _MOST_POINTS).round().astype(int)
  )
  shown = ordered.iloc[places]
  x = 100 * (places + 0.5) / len(ordered)
  y = _scaled(shown, score.name, score)
  is_accuracy = score is ACCURACY
  low = _scaled(shown, f"{score.name}_low", score) if is_accuracy else y
  high = _scaled(shown, f"{score.name}_high", score) if is_accuracy else y
  frame = Frame(
    scale.linear(0, 100, is_tight=True),
    scale.linear(
      float(np.min(low)),
      float(np.max(high)),
      bounds=(0, 100) if is_accuracy else (-np.inf, np.inf),
    ),
    x_label="clients, from the worst off to the best (%)",
  )
  across, mean = frame.x_pixels(x), summary[f"test_{score.name}"]["mean"]
  level = frame.y_pixels([score.scale * mean])[0]
  drawing = frame.drawing(
    "ordered",
    f"{score.title} of clients in order",
    f"Clients from the worst off to the best; mean {score.number(mean)}"
    f"{score.sign}.",
    frame.axes(),
    [
      element("path", d=_whiskers(frame, x, low, high), class_="band c0"),
      element("path", d=line_path(across, frame.y_pixels(y)), class_="line c0"),
      element(
        "path",
        element("title", f"mean {score.number(mean)}{score.sign}"),
        d=f"M{frame.left} {level:.1f}H{frame.width - frame.right}",
        class_="mean-line",
      ),
    ],
  )
  notes = "Solid line across: mean."
  if is_accuracy:
    notes = "Upright lines: 95 % interval of each client. " + notes
  return section.figure(
    drawing,
    f"Clients in order: {score.noun} ({score.sign.strip() or '1'})",
    notes,
  )


def _whiskers(
  frame: Frame, x: np.ndarray, low: np.ndarray, high: np.ndarray
) -> str:
  """Returns a path of upright lines."""
  tops, floors = frame.y_pixels(high), frame.y_pixels(low)
  return "".join(
    f"M{place:.1f} {top:.1f}V{floor:.1f}"
    for place, top, floor in zip(frame.x_pixels(x), tops, floors, strict=True)
  )


def _histogram(clients: pd.DataFrame, summary: Mapping[str, Any]) -> Markup:
  accuracies = clients[ACCURACY.name].to_numpy(np.float64)
  bins = client_sections.histogram_shares([accuracies])
  found = summary["test_accuracy"]
  mean, worst = 100 * found["mean"], 100 * found["worst_10"]
  drawing = client_sections.draw_histogram(
    MethodRuns("the model", 0, ()),
    bins,
    mean,
    worst,
    Frame(
      scale.linear(0, 100, is_tight=True),
      scale.linear(0, 100 * float(bins.max()), bounds=(0, 100)),
      x_label="accuracy (%)",
    ),
    identifier="histogram",
  )
  return section.figure(
    drawing,
    "Share of clients (%) in steps of 5 points of accuracy",
    f"Solid line: mean {mean:.1f}. Dashed line: mean of the worst 10 % "
    f"{worst:.1f}.",
  )


def _table(clients: pd.DataFrame, score: Score) -> list[Child]:
  ordered = text.worst_first(clients, score).iloc[:_MOST_ROWS]
  columns = [c for c in clients.columns if c != client_table.CLIENT]
  left_out = len(clients) - len(ordered)
  return [
    html_tables.sortable(
      f"Clients, the worst off first ({score.in_unit})",
      "Client",
      [(_head(name), "ascending") for name in columns],
      [
        [
          html_tables.name_cell(row[client_table.CLIENT]),
          *(
            html_tables.cell(row[name], _shown(name, row[name]))
            for name in columns
          ),
        ]
        for row in ordered.to_dict("records")
      ],
    ),
    section.note(f"Without the {left_out:,} best off: clients.csv has all.")
    if left_out
    else None,
  ]


def _scaled(table: pd.DataFrame, column: str, score: Score) -> np.ndarray:
  return score.scale * table[column].to_numpy(np.float64)


def _head(column: str) -> str:
  return {
    client_table.COUNT: "Examples",
    "accuracy_low": "95 % from",
    "accuracy_high": "to",
    client_table.R2: "R²",
    RMSE.name: "RMSE",
  }.get(column, column.capitalize())


def _shown(column: str, value: float) -> str:
  if column in (client_table.COUNT, client_table.CORRECT):
    return f"{value:,}"
  if column.startswith(ACCURACY.name):
    return ACCURACY.number(value)
  return "−" if np.isnan(value) else f"{value:.4f}"
