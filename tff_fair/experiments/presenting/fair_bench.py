"""The output of tff-fair-bench: tables in Markdown, and an SVG picture."""

import math
from collections.abc import Mapping, Sequence

from tff_fair import escaping, methods
from tff_fair.experiments import number_text
from tff_fair.experiments.analysis.federations import (
  EQUAL_WEIGHTS,
  FEDAVG,
  MethodSummary,
  Result,
)
from tff_fair.experiments.presenting import rendering

_SHOWN = {"mean": "mean", "worst_10": "worst 10 %", "std": "std"}
# In pixels: a cell's width and height, the left margin, the top margin.
_WIDTH, _HEIGHT, _LEFT, _TOP = 74, 30, 164, 56
# Colours that colour-blind readers can distinguish (Okabe and Ito, 2008).
_FILLS = {"gain": "#9fd0ee", "loss": "#f3b58a", "neither": "#f2f2f2"}
_FILLS["diverged"] = _FILLS["loss"]
_DIGITS = 3


def _signed_text(result: Result, value: float) -> str:
  digits = 1 if result.score == "accuracy" else _DIGITS
  return number_text.short(value, digits, "+")


def method_title(name: str) -> str:
  """Returns the name of a method as papers write it."""
  return (
    methods.title(name, "num_examples") if methods.is_method(name) else name
  )


def difference_cell(result: Result) -> str:
  """Returns a difference and its interval, in bold if it is significant."""
  if result.verdict == "diverged":
    return "diverged"
  found = result.difference
  text = _signed_text(result, found.estimate)
  if not math.isnan(found.low):
    low, high = (_signed_text(result, v) for v in (found.low, found.high))
    text += f" [{low}, {high}]"
  return f"**{text}**" if result.verdict != "neither" else text


def federation_table(
  results: Sequence[Result], titles: Mapping[str, str]
) -> str:
  """Returns a Markdown table: differences by federation and method."""
  differences = (f"{words}, difference" for words in _SHOWN.values())
  rows = [["federation", "method", *differences]]
  cells = {(r.federation, r.method, r.column): r for r in results}
  last = ""
  for federation, method in dict.fromkeys(
    (result.federation, result.method) for result in results
  ):
    found = [cells.get((federation, method, column)) for column in _SHOWN]
    score = next(r.score for r in found if r is not None)
    shown = f"{titles.get(federation, federation)} ({score})"
    rows.append(
      [
        "" if federation == last else escaping.markdown(shown),
        escaping.markdown(method_title(method)),
        *("" if r is None else difference_cell(r) for r in found),
      ]
    )
    last = federation
  return _markdown(rows)


def method_table(summaries: Sequence[MethodSummary]) -> str:
  """Returns a Markdown table: each method's summary over all federations."""
  heads = ["method", "federations", "clear gain", "clear loss", "neither"]
  shows_diverged = any(summary.diverged for summary in summaries)
  if shows_diverged:
    heads.append("diverged")
  rows = [[*heads, "median gain, in std", "p", "p, Holm"]]
  for summary in summaries:
    decided = summary.gains + summary.losses + summary.diverged
    neither = summary.num_federations - decided
    counts = [summary.num_federations, summary.gains, summary.losses, neither]
    if shows_diverged:
      counts.append(summary.diverged)
    rows.append(
      [
        escaping.markdown(method_title(summary.method)),
        *map(str, counts),
        number_text.short(summary.median, _DIGITS, "+"),
        number_text.short(summary.p_value, _DIGITS),
        number_text.short(summary.p_holm, _DIGITS),
      ]
    )
  return _markdown(rows)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
  """Returns rows of cells, the column titles first, as a Markdown table."""
  head, *body = rows
  lines = [head, ["---"] * len(head), *body]
  return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def picture(
  results: Sequence[Result], titles: Mapping[str, str], column: str = "worst_10"
) -> str:
  """Returns an SVG grid of methods by federations, coloured by verdict."""
  chosen = [result for result in results if result.column == column]
  federations = list(dict.fromkeys(r.federation for r in chosen))
  names = sorted(
    dict.fromkeys(result.method for result in chosen),
    key=lambda name: name not in (FEDAVG, EQUAL_WEIGHTS),
  )
  width = _LEFT + _WIDTH * len(names) + 8
  height = _TOP + _HEIGHT * len(federations) + 30
  about = (
    f"Differences to the baseline in the {_SHOWN[column]} of the clients, "
    f"{len(names)} methods on {len(federations)} federations"
  )
  return rendering.html(
    "fair_bench.svg",
    about=about,
    width=width,
    height=height,
    names=[
      (_LEFT + _WIDTH * (k + 0.5), _in_lines(method_title(name)))
      for k, name in enumerate(names)
    ],
    left=_LEFT,
    federations=[
      (_TOP + _HEIGHT * j, titles.get(federation, federation))
      for j, federation in enumerate(federations)
    ],
    cells=[
      (
        _LEFT + _WIDTH * names.index(result.method),
        _TOP + _HEIGHT * federations.index(result.federation),
        _FILLS[result.verdict],
        "#ffffff" if result.verdict == "neither" else "#000000",
        "diverged"
        if result.verdict == "diverged"
        else _signed_text(result, result.difference.estimate),
      )
      for result in chosen
    ],
    cell_width=_WIDTH,
    cell_height=_HEIGHT,
  )


def _in_lines(name: str) -> list[str]:
  """Splits the name of a method into lines that fit a column."""
  head, comma, tail = name.partition(", ")
  return [f"{head}{comma}".strip(), *tail.split()]
