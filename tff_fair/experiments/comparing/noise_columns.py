"""How much of the spread between clients is noise, for tables of runs."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tff_fair.experiments import spread_noise
from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.evaluations import ChosenEvaluation
from tff_fair.experiments.comparing.groups import Group
from tff_fair.experiments.comparing.measures import Measure, Value
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.scores import ACCURACY

NAME = "noise_share"
MEASURE = Measure("Noise share", False, digits=1)
EXPLANATION = (
  "Noise share: how much of the variance between clients (%) test sets of "
  "their sizes make by themselves."
)
_SPREADS = ("std", "variance", "relative_std")


def share(evaluation: ChosenEvaluation) -> float:
  """Returns the share of the noise in the variance, in [0, 1].

  Of several rounds, the mean; NaN where nothing tells it, see
  `spread_noise.of_clients`.
  """
  if evaluation.run.score.name != ACCURACY.name:
    return math.nan  # Nothing tells the noise of an error.
  found = [
    spread_noise.of_clients(clients.score, clients.num_examples)
    for clients in evaluation.clients()
  ]
  return float(np.mean([n["share"] if n else math.nan for n in found]))


def over_seeds(
  group: Group, evaluated: Mapping[Run, ChosenEvaluation]
) -> Value:
  """Returns the share of a method over its seeds, in percent."""
  return measures.over_seeds(
    MEASURE, [share(evaluated[run]) for run in group.runs]
  )


def note(
  names: Iterable[str],
  groups: Sequence[Group],
  evaluated: Mapping[Run, ChosenEvaluation],
) -> str:
  """Returns a sentence about the noise in the spreads of a table.

  Args:
    names: The columns of the table.
    groups: The methods.
    evaluated: The evaluation of each run.

  Returns:
    The sentence; empty if the table shows no spread, or its noise already, or
    if nothing tells the noise.
  """
  shown = set(names)
  if not shown.intersection(_SPREADS) or NAME in shown:
    return ""
  shares = [over_seeds(group, evaluated).mean / 100 for group in groups]
  known = [value for value in shares if math.isfinite(value)]
  if not known:
    return ""
  ends = list(
    dict.fromkeys(map(spread_noise.percent, (min(known), max(known))))
  )
  # "6 to 9 %", and not "6 % to 9 %".
  text = " to ".join([*(end.removesuffix(" %") for end in ends[:-1]), ends[-1]])
  return (
    f"Noise of small test sets: about {text} of the variance between clients "
    f"({NAME} tells it for each method)."
  )
