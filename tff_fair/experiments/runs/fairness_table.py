"""The fairness table of a finished run, as papers print it."""

import itertools
import textwrap
from collections.abc import Mapping
from typing import Any

from tff_fair.experiments import spread_noise

# Each column of the table: titles, names of the summary.
_TABLE: tuple[Mapping[str, str], ...] = (
  {
    "mean": "mean",
    "median": "percentile_50",
    "std": "std",
    "variance": "variance",
    "min": "min",
    "max": "max",
  },
  {
    "worst  5 %": "worst_5",
    "worst 10 %": "worst_10",
    "worst 20 %": "worst_20",
    "worst 30 %": "worst_30",
    "percentile 10": "percentile_10",
    "percentile 90": "percentile_90",
  },
  {
    "best  5 %": "best_5",
    "best 10 %": "best_10",
    "best 20 %": "best_20",
    "best 30 %": "best_30",
  },
  {
    "relative std": "relative_std",
    "angle": "angle",
    "KL to uniform": "kl_uniform",
    "entropy": "entropy",
    "Jain's index": "jain",
  },
)
_WIDTH = 80  # Of a terminal.
_NOT_IN_PERCENT = frozenset(_TABLE[-1].values())


def describe(summary: Mapping[str, Any]) -> str:
  """Returns the results of a run as text.

  Args:
    summary: `Run.summary` of a finished run.

  Returns:
    A title, the fairness table, and the noise in the spread where it is known;
    where clients attack, the same of the honest ones alone.
  """
  text = (
    f"Test accuracy over {summary['num_clients']:,} clients after "
    f"{summary['rounds']:,} rounds, in percent\n\n"
    f"{fairness_table(summary['test_accuracy'])}{_noise(summary)}"
  )
  if honest := summary.get("honest"):
    text += (
      f"\n\nOver the {honest['num_clients']:,} honest clients alone\n\n"
      f"{fairness_table(honest['test_accuracy'])}{_noise(honest)}"
    )
  return text


def fairness_table(accuracy: Mapping[str, float]) -> str:
  """Formats a fairness summary in percent, as papers print it.

  Relative measures and the angle (in degrees) are left as they are.

  Args:
    accuracy: What `tff_fair.metrics.fairness_summary` returns.

  Returns:
    Lines of 80 characters or less, the last without an end of line.
  """
  columns = [
    _column({title: _format(name, accuracy[name]) for title, name in c.items()})
    for c in _TABLE
  ]
  widths = [len(column[0]) for column in columns]
  return "\n".join(
    "  ".join(
      cell.ljust(width) for cell, width in zip(row, widths, strict=True)
    ).rstrip()
    for row in itertools.zip_longest(*columns, fillvalue="")
  )


def _noise(summary: Mapping[str, Any]) -> str:
  # Runs of earlier versions do not have it.
  if not (noise := summary.get(spread_noise.KEY)):
    return ""
  told = spread_noise.sentence(summary["test_accuracy"]["std"], noise)
  return "\n\n" + textwrap.fill(told, _WIDTH, break_on_hyphens=False)


def _format(name: str, value: float) -> str:
  if name == "angle":
    return f"{value:.2f}°"
  if name in _NOT_IN_PERCENT:
    return f"{value:.4f}"
  scale = 100**2 if name == "variance" else 100
  return f"{scale * value:.2f}"


def _column(cells: Mapping[str, str]) -> list[str]:
  title_width = max(map(len, cells))
  value_width = max(map(len, cells.values()))
  return [
    f"{title:{title_width}} {value:>{value_width}}"
    for title, value in cells.items()
  ]
