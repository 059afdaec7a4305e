"""Builds the columns of comparison tables: measures, noise, single clients."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tff_fair.declared import FieldError
from tff_fair.experiments import number_text
from tff_fair.experiments.analysis import (
  client_results,
  measures,
  sampling_noise,
)
from tff_fair.experiments.analysis.chosen_evaluations import ChosenEvaluation
from tff_fair.experiments.analysis.client_results import ResultsBySeed
from tff_fair.experiments.analysis.measures import Measure, Value
from tff_fair.experiments.analysis.run_groups import Group
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.scores import ACCURACY, Score

NOISE = "noise_share"
NOISE_MEASURE = Measure("Noise share", False, digits=1)
NOISE_EXPLANATION = (
  "Noise share: how much of the variance between clients (%) comes only from "
  "the small size of test sets."
)
_SPREADS = ("std", "variance", "relative_std")


def noise_share(evaluation: ChosenEvaluation) -> float:
  """Returns the share of the scores' variance that is noise; NaN if unknown."""
  if not evaluation.run.score.is_accuracy:
    return math.nan  # The noise is known only for accuracies.
  found = [
    sampling_noise.of_scores(clients.score, clients.num_examples)
    for clients in evaluation.clients()
  ]
  return float(np.mean([n["share"] if n else math.nan for n in found]))


def noise_over_seeds(
  group: Group, evaluated: Mapping[Run, ChosenEvaluation]
) -> Value:
  """Returns the mean and std over seeds of the noise share, in percent."""
  return measures.over_seeds(
    NOISE_MEASURE, [noise_share(evaluated[run]) for run in group.runs]
  )


def noise_note(
  names: Iterable[str],
  groups: Sequence[Group],
  evaluated: Mapping[Run, ChosenEvaluation],
) -> str:
  """Returns a sentence on how much of a table's spreads is noise.

  It is empty if the table shows no spread, or has a column of noise.
  """
  shown = set(names)
  if not shown.intersection(_SPREADS) or NOISE in shown:
    return ""
  shares = [noise_over_seeds(group, evaluated).mean / 100 for group in groups]
  known = [value for value in shares if math.isfinite(value)]
  if not known:
    return ""
  ends = list(
    dict.fromkeys(map(number_text.whole_percent, (min(known), max(known))))
  )
  # Show the unit once: "6 to 9 %", not "6 % to 9 %".
  text = " to ".join([*(end.removesuffix(" %") for end in ends[:-1]), ends[-1]])
  return (
    f"Noise of small test sets: about {text} of the variance between clients "
    f"(column {NOISE})."
  )


CLIENTS = "clients"  # Requests one column for each client.
# Columns of gains from joining: each one's key in a summary, and its title.
_JOINING = {
  "gain": ("mean", "Mean gain"),
  "gain_min": ("min", "Least gain"),
  "gaining": ("gaining", "Clients gain"),
  "losing": ("losing", "Clients lose"),
}
# Columns of measures after fine-tuning, and the name of each one's measure.
_FINETUNED = {
  f"{summaries.FINETUNED}_{name}": name
  for name in ("mean", "std", "worst_10", "worst_20", "min")
}
NAMES = (*measures.NAMES, NOISE, *_JOINING, *_FINETUNED, CLIENTS)
MAX_CLIENTS = 10  # The most clients that get columns in a table.


class ComparedColumn(NamedTuple):
  """A column of a table, and how to compute its value for an evaluation."""

  measure: Measure
  evaluate: Callable[[ChosenEvaluation], float]
  client: int | None = None

  def results(self, method: ResultsBySeed) -> ResultsBySeed:
    """Returns a method's results; only those of `client` if it is not None."""
    if self.client is None:
      return method
    return client_results.subset(method, [self.client])


def build(
  names: Sequence[str],
  evaluated: Sequence[ChosenEvaluation],
  task: str,
  score: Score = ACCURACY,
) -> dict[str, ComparedColumn]:
  """Returns the columns that `names` request, by their names in data frames."""
  columns: dict[str, ComparedColumn] = {}
  for name in names:
    if name == CLIENTS:
      columns |= _client_columns(evaluated, task, score)
    elif name in _JOINING:
      columns[name] = _joining_column(name, score)
    elif name in _FINETUNED:
      key = _FINETUNED[name]
      measure = measures.by_name(score)[key]
      tuned = measure._replace(title=f"{measure.title} fine-tuned")
      columns[name] = _summary_column(summaries.FINETUNED, key, tuned)
    elif name == NOISE:
      columns[name] = ComparedColumn(NOISE_MEASURE, noise_share)
    else:
      columns[name] = of_measure(measures.find(name, score, task))
  return columns


def of_measure(measure: Measure) -> ComparedColumn:
  """Returns the column that shows a measure over clients."""
  return ComparedColumn(measure, lambda evaluation: evaluation.value(measure))


def _joining_column(name: str, score: Score) -> ComparedColumn:
  key, title = _JOINING[name]
  of_score = measures.by_name(score)["mean"]
  measure = (
    of_score._replace(title=title, higher_is_better=True, is_signed=True)
    if key in ("mean", "min")
    else Measure(title, name == "gaining", 1.0, 1)
  )
  return _summary_column(summaries.JOINING, key, measure)


def _summary_column(part: str, key: str, measure: Measure) -> ComparedColumn:
  """Returns a column that shows the value `summary[part][key]` of each run."""

  def summary_value(evaluation: ChosenEvaluation) -> float:
    return float(evaluation.run.of_summary(part).get(key, math.nan))

  return ComparedColumn(measure._replace(statistic=None), summary_value)


def _client_columns(
  evaluated: Sequence[ChosenEvaluation], task: str, score: Score
) -> dict[str, ComparedColumn]:
  ids = np.unique(np.concatenate([e.clients()[-1].ids for e in evaluated]))
  if ids.size > MAX_CLIENTS:
    raise FieldError(
      "columns",
      f"{task}: a table has columns for {MAX_CLIENTS} clients at most; leave "
      f"{CLIENTS} out.",
      value=CLIENTS,
    )
  names = {
    int(client): name
    for evaluation in reversed(evaluated)  # The first run's name wins.
    for client, name in evaluation.run.client_names.items()
    if name != str(client)  # Unfinished runs may not have names yet.
  }
  return {
    f"client_{names.get(client, client)}": _client_column(
      client, names.get(client, str(client)), score
    )
    for client in ids.tolist()
  }


def _client_column(client: int, name: str, score: Score) -> ComparedColumn:
  def mean_score(evaluation: ChosenEvaluation) -> float:
    found = [
      of_round.subset(np.array([client])).score
      for of_round in evaluation.clients()
    ]
    if not all(of_round.size for of_round in found):
      return math.nan  # The client was not evaluated, or is left out.
    return float(np.mean(found))

  title = f"Client {name}" if name == str(client) else name
  measure = measures.by_name(score)["mean"]._replace(title=title)
  return ComparedColumn(measure, mean_score, client)
