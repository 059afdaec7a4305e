"""Selects the evaluation by which a run is compared; computes its measures."""

import dataclasses
import functools
import weakref
from collections.abc import Callable, Collection
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import pandas as pd

from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import measures
from tff_fair.experiments.analysis.client_results import Clients
from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.spec.scores import Score

# The evaluations that can be selected by name instead of by round number.
LAST, BEST = "last", "best"
_USUAL_CRITERION = "mean"


@dataclasses.dataclass(frozen=True)
class ChosenEvaluation:
  """The evaluation by which a run is compared, or several that are averaged."""

  run: Run
  rounds: tuple[int, ...]
  honest: bool

  @property
  def round(self) -> int:
    """The last of the selected rounds."""
    return self.rounds[-1]

  def value(self, measure: Measure) -> float:
    """Returns a measure's unscaled value, averaged over the selected rounds."""
    values = measure_over_rounds(
      self.run, measure, honest=self.honest, rounds=self.rounds
    )
    return float(values.mean(skipna=False))

  def clients(self) -> list[Clients]:
    """Returns the clients' results, one entry per round."""
    left_out = frozenset(self.left_out())
    return [*_clients_of_rounds(self.run, self.rounds, left_out).values()]

  def left_out(self) -> set[int]:
    """Returns the ids of the attackers if `honest`, else an empty set."""
    return _attackers(self.run) if self.honest else set()


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSelector:
  """Selects the evaluation by which each run is compared."""

  round: str | int = LAST  # A round's number, LAST or BEST.
  criterion: str = _USUAL_CRITERION  # The measure by which BEST is selected.
  honest: bool = False  # Whether attackers are left out.
  unfinished: bool = False  # Whether unfinished runs are compared, too.
  inclusion_hint: str = "unfinished=True"  # How to include unfinished runs.
  last: int | None = None  # The number of evaluations that `average` averages.

  def __post_init__(self) -> None:
    measures.check(self.criterion, "criterion")
    if self.criterion != _USUAL_CRITERION and self.round != BEST:
      raise FieldError(
        "criterion",
        f"has no effect without round={BEST}; give it, or leave this out.",
        value=self.criterion,
      )
    if self.last is None:
      return
    if self.last < 1:
      raise FieldError("last", "expected 1 or more.", value=self.last)
    if self.round == BEST:
      raise FieldError(
        "last",
        f"does not go with round={BEST}, which is one evaluation; leave one of "
        "them out.",
        value=self.last,
      )

  def select(self, run: Run) -> ChosenEvaluation | str:
    """Returns a run's selected evaluation, or the reason why it has none."""
    if not run.is_finished and not self.unfinished:
      state = "was pruned by its search" if run.is_pruned else "is not finished"
      return f"{state} ({self.inclusion_hint} includes it)"
    rounds = run.evaluations[ROUND]
    if isinstance(self.round, int):
      if self.round in set(rounds):
        return ChosenEvaluation(run, (self.round,), self.honest)
      return f"has no evaluation after round {self.round}"
    if not (rounds > 0).any():
      # An untrained model is not a result.
      return "has no evaluation yet"
    if self.round == LAST:
      return ChosenEvaluation(run, (int(rounds.max()),), self.honest)
    measure = measures.find(self.criterion, run.score, run.path, "criterion")
    values = measure_over_rounds(run, measure, honest=self.honest)
    trained = values[values.index > 0]
    keys = [measures.sort_key(measure, value) for value in trained]
    best = int(trained.index[int(np.argmin(keys))])
    return ChosenEvaluation(run, (best,), self.honest)

  def average(self, evaluation: ChosenEvaluation) -> ChosenEvaluation:
    """Returns the mean of the `last` evaluations that end with `evaluation`."""
    run, rounds = evaluation.run, evaluation.run.evaluations[ROUND]
    found = sorted({int(r) for r in rounds if 0 < r <= evaluation.round})
    number = self.last or 1
    if number > len(found):
      until = "" if self.round == LAST else f" up to round {self.round}"
      raise FieldError(
        "last",
        f"{run.path} has {len(found)} evaluations after training began{until}; "
        "give a smaller number.",
        value=number,
      )
    return dataclasses.replace(evaluation, rounds=tuple(found[-number:]))


def measure_over_rounds(
  run: Run,
  measure: Measure,
  *,
  honest: bool,
  rounds: Collection[int] | None = None,
) -> pd.Series:
  """Returns a run's unscaled values of a measure, by round.

  By default, these are the values of all evaluated rounds.
  """
  table = run.evaluations
  evaluated = pd.Index(table[ROUND] if rounds is None else list(rounds))
  if not measure.is_stored:
    left_out = frozenset(_attackers(run) if honest else ())
    found = _clients_of_rounds(run, tuple(evaluated), left_out)
    values = {n: measures.of_equal(measure, c) for n, c in found.items()}
    return pd.Series(values, evaluated, np.float64)
  column = measure.column
  if honest and f"{tables.HONEST}{column}" in table:
    column = f"{tables.HONEST}{column}"
  if column not in table:
    raise RunError(f"{run.path / 'evaluations.csv'}: has no column {column!r}.")
  # With a thousand runs, indexing whole tables would take most of a report's
  # time.
  stored = pd.Series(table[column].to_numpy(np.float64), table[ROUND])
  return stored.loc[evaluated]


_P = ParamSpec("_P")
_T = TypeVar("_T")


def once_per_run(
  function: Callable[Concatenate[Run, _P], _T],
) -> Callable[Concatenate[Run, _P], _T]:
  """Caches a function's results for each run, as long as the run exists."""
  found: weakref.WeakKeyDictionary[Run, dict[object, _T]] = (
    weakref.WeakKeyDictionary()
  )

  @functools.wraps(function)
  def of_run(run: Run, *args: _P.args, **keywords: _P.kwargs) -> _T:
    results = found.setdefault(run, {})
    key = args, *sorted(keywords.items())
    if key not in results:
      results[key] = function(run, *args, **keywords)
    return results[key]

  return of_run


@once_per_run
def _clients_of_rounds(
  run: Run, rounds: tuple[int, ...], left_out: frozenset[int]
) -> dict[int, Clients]:
  """Returns, by round, the results of seen clients that are not `left_out`."""
  table = run.client_evaluations
  return {
    number: _clients(of_round, left_out, run.score)
    for number, of_round in table[table[ROUND].isin(rounds)].groupby(ROUND)
  }


def _clients(
  table: pd.DataFrame, left_out: frozenset[int], score: Score
) -> Clients:
  table = tables.drop_unseen(table)
  rows = table[~table["client_id"].isin(left_out)].sort_values("client_id")
  found = measures.clients_of(rows, score)
  return found._replace(score=found.score.clip(score.lowest, score.highest))


def _attackers(run: Run) -> set[int]:
  if run.settings.get("attack", "none") == "none":
    return set()
  if run.clients is None:
    raise FieldError(
      "honest",
      f"{run.path} does not record which clients attack until it is finished; "
      "leave it out.",
    )
  return tables.attackers(run.clients)
