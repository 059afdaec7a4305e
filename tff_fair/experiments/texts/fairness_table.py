"""Formats the fairness table of a finished run, as papers print it."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tff_fair.experiments import number_text
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.spec import scores
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.texts import layout, sentences

# The columns of the table: each maps titles to names of statistics.
_OF_ALL = {
  "mean": "mean",
  "median": "percentile_50",
  "std": "std",
  "variance": "variance",
  "min": "min",
  "max": "max",
}
_EXTREMES = {
  **{f"worst {q:2} %": f"worst_{q}" for q in (5, 10, 20, 30)},
  "percentile 10": "percentile_10",
  "percentile 90": "percentile_90",
}
_BEST = {f"best {q:2} %": f"best_{q}" for q in (5, 10, 20, 30)}
_RATIOS = {
  "relative std": "relative_std",
  "angle": "angle",
  "KL to uniform": "kl_uniform",
  "entropy": "entropy",
  "Jain's index": "jain",
  "Gini": "gini",
}
_COLUMNS: tuple[Mapping[str, str], ...] = (_OF_ALL, _EXTREMES, _BEST, _RATIOS)


def describe(summary: Mapping[str, Any], wrong: Sequence[str] = ()) -> str:
  """Returns the results of a run as text: the fairness table, then sentences.

  The sentences include `wrong`, which describes the faults of the run.
  """
  score = _score(summary)
  text = (
    f"Test {score.noun} over {summary['num_clients']:,} clients after "
    f"{summary['rounds']:,} rounds, {score.in_unit}\n"
    f"{_explanation_line(score)}\n"
    f"{_results(summary, score)}{_noise(summary)}"
  )
  if honest := summary.get("honest"):
    text += (
      f"\n\nOver the {honest['num_clients']:,} honest clients only\n\n"
      f"{_results(honest, score)}{_noise(honest)}"
    )
  for sentence in (
    *sentences.majority(summary),
    sentences.joining(summary, score),
    sentences.fine_tuned(summary, score),
    *sentences.newcomers(summary, score),
    *sentences.groups(summary),
    *sentences.threshold(summary),
    sentences.coefficient_change(summary),
    *wrong,
    None if wrong else sentences.stationarity(summary),
  ):
    if sentence:
      text += f"\n\n{layout.wrap(sentence)}"
  return text


def compare_worst_clients(
  summary: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]]
) -> str:
  """Returns a sentence on the worst clients of a run and of its baselines."""
  score = _score(summary)
  key = f"test_{score.name}"
  mine = summary[key]["worst_10"]
  theirs = {name: found[key]["worst_10"] for name, found in baselines.items()}
  # Whole percents are precise enough.
  text = number_text.whole_percent if score.is_accuracy else score.number
  get = "get" if score.higher_is_better else f"have {score.noun}"
  best, *others = sorted(
    theirs, key=lambda n: theirs[n], reverse=score.higher_is_better
  )
  parts = [f"The worst 10 % of the clients {get} {text(mine)}"]
  if others:
    number = "better" if len(theirs) == 2 else "best"
    parts += [
      f"with the {number} of the baselines, “{best}”, {text(theirs[best])}",
      *(f"with “{name}” {text(theirs[name])}" for name in others),
    ]
  else:
    parts += [f"with {best} {text(theirs[best])}"]
  return f"{'; '.join(parts)}."


def _explanation_line(score: Score) -> str:
  """Returns a line that explains the score; empty for accuracy."""
  told = sentences.explanation(score)
  return f"{layout.wrap(f'{score.title} is {told}.')}\n" if told else ""


def _score(summary: Mapping[str, Any]) -> Score:
  """Returns a summary's score, with enough decimals to show its values."""
  found = scores.BY_NAME[summary.get("score", scores.ACCURACY.name)]
  return found.with_fitting_digits(summary[f"test_{found.name}"]["mean"])


def _results(summary: Mapping[str, Any], score: Score) -> str:
  lines = [fairness_table(summary[f"test_{score.name}"], score)]
  for sentence in sentences.left_out(
    summary.get(summaries.LEFT_OUT, ()), score
  ):
    lines += ["", layout.wrap(sentence)]
  for name, other in scores.BY_NAME.items():
    if name != score.name and (found := summary.get(f"test_{name}")):
      lines += ["", sentences.extra_score(other, found)]
  return "\n".join(lines)


def fairness_table(
  found: Mapping[str, float], score: Score = scores.ACCURACY
) -> str:
  """Formats the statistics of a score as a table, for example in percent.

  Relative measures, and the angle in degrees, are not scaled.
  """
  columns = [
    [*map("".join, layout.align(cells, gap=1))]
    for cells in (
      [(title, _format(name, found[name], score)) for title, name in c.items()]
      for c in _COLUMNS
    )
  ]
  widths = [len(column[0]) for column in columns]
  return "\n".join(
    "  ".join(
      cell.ljust(width) for cell, width in zip(row, widths, strict=True)
    ).rstrip()
    for row in itertools.zip_longest(*columns, fillvalue="")
  )


def _noise(summary: Mapping[str, Any]) -> str:
  # The summary has no such entry if accuracy is not the score.
  if not (noise := summary.get(summaries.NOISE)):
    return ""
  explanation = sentences.noise(summary["test_accuracy"]["std"], noise)
  return f"\n\n{layout.wrap(explanation)}"


def _format(name: str, value: float, score: Score) -> str:
  if math.isnan(value):  # The std of infinite errors, for example, is NaN.
    return "-"
  if name == "angle":
    return f"{value:.2f}°"
  if name in _RATIOS.values():  # Ratios have no unit.
    return f"{value:.4f}"
  scale = score.scale**2 if name == "variance" else score.scale
  return number_text.fixed(scale * value, score.digits)
