"""Describes problems that `Run.diagnose` finds, with likely remedies."""

import collections
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tff_fair import spelling
from tff_fair.experiments.runs.diagnosis import POOLED, Diagnosis, Kind
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.scores import BY_NAME

_SMALLER = "a smaller client_learning_rate ({rate:g} here)"
_ALIKE = {"labels": "the same labels", "number": "the same number"}
_SUMMARIES: Mapping[Kind, str] = {
  "not_finite": "training diverged",
  "above_initial": "training diverged",
  "above_best": "training fell back",
  "score_lost": "training fell back",
  "worse_than_constant": "worse than a constant prediction",
  "constant_prediction": "one prediction for all test examples",
  "unchanged": "training changed nothing",
}


def of_run(run: Run, last: int | None = None) -> list[str]:
  """Returns a sentence for each problem of a run, up to round `last`."""
  return [_sentence(run, found) for found in run.diagnose(last)]


def summarize(groups: Iterable[tuple[str, Sequence[Run]]]) -> Iterator[str]:
  """Yields a sentence for each problem; it names the affected methods."""
  found: dict[str, list[str]] = {}
  for label, runs in groups:
    counts = collections.Counter(
      problem
      for run in runs
      for problem in {_SUMMARIES[found.kind] for found in run.diagnosis}
    )
    for problem, number in counts.items():
      method = f"“{label}”{_of_seeds(number, runs)}"
      found.setdefault(problem, []).append(method)
  for problem, names in found.items():
    yield f"{problem[0].upper()}{problem[1:]}: {spelling.join_names(names)}."


def of_groups(
  groups: Sequence[tuple[str, Sequence[Run]]],
  rounds: dict[Run, int] | None = None,
) -> Iterator[str]:
  """Yields a sentence for each method and each problem of its runs.

  With `rounds`, evaluations of a run after round `rounds[run]` are ignored.
  """
  for label, runs in groups:
    of_kinds = collections.defaultdict(list)
    for run in runs:
      last = None if rounds is None else rounds[run]
      for found in run.diagnose(last):
        of_kinds[found.kind].append((run, found))
    for members in of_kinds.values():
      number = _of_seeds(len(members), runs)
      yield f"{label}{number}: {_sentence(*members[0])}"


def _of_seeds(number: int, runs: Sequence[Run]) -> str:
  return f" ({number} of {len(runs)} seeds)" if len(runs) > 1 else ""


def _sentence(run: Run, found: Diagnosis) -> str:
  value, before = (
    _number(found.measure, number) for number in (found.value, found.reference)
  )
  name = _noun(found.measure)
  at_end = f"the {name} after round {found.round_num} is {value}"
  smaller = _SMALLER.format(rate=run.spec.client_learning_rate)
  match found.kind:
    case "not_finite":
      return f"training diverged: {at_end}. Try {smaller}."
    case "above_initial":
      return (
        f"training diverged: {at_end}, and was {before} before training. Try "
        f"{smaller}."
      )
    case "above_best" | "score_lost":
      return (
        f"training fell back: {at_end}, and was {before} after round "
        f"{found.reference_round}. Try {smaller}, or keep the best model with "
        "criterion=mean."
      )
    case "worse_than_constant":
      if found.measure == POOLED:
        evidence = f"R² over all test examples is {value}, and 0 for their mean"
      else:
        evidence = f"{at_end}, and {before} with equal probabilities"
      return (
        f"the model is worse than a constant prediction: {evidence}. Try "
        f"{smaller}, more rounds, or inputs and labels of mean 0 and "
        "variance 1."
      )
    case "constant_prediction":
      what = _ALIKE.get(found.measure) or _class(run, int(found.value))
      return (
        f"the model predicts {what} for all test examples, after round "
        f"{found.round_num}, though their labels differ. Try more rounds, or "
        f"another client_learning_rate ({run.spec.client_learning_rate:g} "
        "here)."
      )
    case "unchanged":
      return (
        f"training changed no client's {name}: its mean is {value} in all "
        "evaluations. Try a larger client_learning_rate "
        f"({run.spec.client_learning_rate:g} here), or more rounds."
      )


def _class(run: Run, number: int) -> str:
  names = run.class_names
  return f"class {f'“{names[number]}”' if number < len(names) else number}"


def _noun(measure: str) -> str:
  if measure in BY_NAME:
    return f"mean {BY_NAME[measure].noun}"
  return f"mean {measure}"


def _number(measure: str, value: float) -> str:
  if math.isfinite(value) and measure in BY_NAME:
    return BY_NAME[measure].text(value)
  return f"{value:.4g}"
