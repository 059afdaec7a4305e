"""Compares methods over federations: chooses their settings, tests their gains.

Within a federation, two methods are compared by `paired`. Over federations,
each federation is one observation: a method's differences are tested by
Wilcoxon's signed-rank test (1945), with Holm's correction for the number of
methods. Nemenyi's test is not used, because its verdict on two methods depends
on the other methods.
"""

import itertools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from tasks.data_error import DataError
from tasks.formats import data_files
from tff_fair.experiments.analysis import (
  comparison_table,
  measures,
  paired,
  questions,
  references,
)
from tff_fair.experiments.analysis.client_results import Clients, ResultsBySeed
from tff_fair.experiments.analysis.paired import Difference
from tff_fair.experiments.spec.scores import BY_NAME, Score
from tff_fair.experiments.spec.seeds import Seeds as RunSeeds
from tff_fair.metrics.intervals import LEVEL

CRITERIA = ("mean", "worst_10")
COLUMNS = ("mean", "worst_10", "std")
FEDAVG, EQUAL_WEIGHTS = references.FEDAVG, "FedAvg, equal weights"
BETTER_FEDAVG = "the better FedAvg"
# A column of results: 0 in runs that select a setting, above 0 in repetitions.
MODEL_SEED = "model_seed"
_MOST_ENUMERATED = 16
_DIVERGED = 10  # See `Result.verdict`.


def choose(rows: pd.DataFrame, score: Score, criterion: str) -> int:
  """Returns the number of the setting that is best on validation data."""
  measure = measures.by_name(score)[criterion]
  assert measure.statistic is not None
  keys = {}
  for setting, of_setting in rows.groupby("setting"):
    values = of_setting[f"validation_{score.name}"].to_numpy(np.float64)
    if score.needs:
      values = values[~np.isnan(values)]
    clients = Clients(
      np.arange(values.size), values, values, np.ones(values.size)
    )
    found = measures.of_equal(measure, clients) if values.size else np.nan
    keys[int(setting)] = measures.sort_key(measure, found)
  return min(
    keys, key=lambda setting: (not np.isfinite(keys[setting]), keys[setting])
  )


def chosen_rows(rows: pd.DataFrame, score: Score) -> pd.DataFrame:
  """Returns clients' test scores at the setting that is best by each criterion.

  Scores are means over model seeds.
  """
  tried = rows[rows[MODEL_SEED] == 0]
  found = pd.DataFrame()
  for criterion in CRITERIA:
    setting = choose(tried, score, criterion)
    chosen = tried[tried["setting"] == setting].set_index("client")
    runs = rows[rows["setting"] == setting].pivot(
      index="client", columns=MODEL_SEED, values=score.name
    )
    found["num_examples"] = chosen["num_examples"]
    found[f"setting_{criterion}"] = setting
    found[f"score_{criterion}"] = runs.mean(axis=1, skipna=False).round(6)
  return found.reset_index()


def read(path: pathlib.Path) -> pd.DataFrame:
  """Returns a file's results; raises `DataError` if `compare` cannot take them.

  The file is CSV text, as it is or compressed.
  """
  with (
    data_files.open_file(path) as file,
    data_files.reporting_damage(path, "cannot be read"),
  ):
    # Clients' names are strings, even if they look like numbers or are NA.
    found = pd.read_csv(file, converters={"client": str})
  try:
    check(found)
  except ValueError as error:
    raise DataError(
      path, f"{error}; expected what tff-fair-bench --results writes."
    ) from error
  return found


def check(results: pd.DataFrame) -> None:
  """Raises `ValueError` for a table of results that `compare` cannot take."""
  keys = ["federation", "method", "seed", "client"]
  scores = [f"score_{criterion}" for criterion in CRITERIA]
  numbers = ["num_examples", *scores]
  lacking = {*keys, "score", *numbers} - {*results}
  if lacking:
    raise ValueError(f"lacks {', '.join(sorted(lacking))}")
  if results.empty:
    raise ValueError("holds no row")
  for name in numbers:
    if not pd.api.types.is_numeric_dtype(results[name]):
      raise ValueError(f"{name} has values that are not numbers")
  needed = results[[*keys, "score"]]
  incomplete = (needed.isna() | (needed == "")).any(axis=1)
  twice = results[keys].duplicated()
  if (incomplete | twice).any():
    row = int((incomplete | twice).to_numpy().argmax())
    problem = "lacks a value" if incomplete.iloc[row] else "is there twice"
    raise ValueError(f"line {row + 2} {problem}")
  if unknown := {*results["score"]} - {*BY_NAME}:
    raise ValueError(f"has the score {min(map(str, unknown))}")
  _check_values(results, scores)
  if not pd.api.types.is_integer_dtype(results["seed"]):
    raise ValueError("seed has values that are not whole numbers")
  several = results.groupby("federation")["score"].nunique() > 1
  if several.any():
    raise ValueError(f"has more than one score of {several.idxmax()}")
  for number, name in ((2, "seed"), (3, "client")):
    values = results.groupby(keys[:number])[name].agg(frozenset)
    for federation, found in values.groupby("federation"):
      if found.nunique() > 1:
        raise ValueError(
          f"methods or seeds of {federation} have other {name}s than others"
        )


def _check_values(results: pd.DataFrame, columns: Sequence[str]) -> None:
  """Raises `ValueError` for scores that no client can have."""
  if not (results["num_examples"] > 0).all():
    raise ValueError("has clients without examples")
  for name, rows in results.groupby("score"):
    score = BY_NAME[str(name)]
    values = rows[[*columns]].to_numpy(np.float64)
    if ((values < score.lowest) | (values > score.highest)).any():
      raise ValueError(
        f"has values of {name} outside [{score.lowest:g}, {score.highest:g}]"
      )


class Result(NamedTuple):
  """A method's comparison with the baseline on a federation, by a measure."""

  federation: str
  method: str
  column: str  # The measure, one of COLUMNS.
  score: str
  value: float  # The mean over seeds, in the unit of tables.
  difference: Difference  # The interval has Holm's correction for the methods.
  p_holm: float  # NaN if nothing varies.
  gain: float  # The difference, signed so that positive is better.

  @property
  def verdict(self) -> str:
    """The verdict: "gain" or "loss" if significant, "neither", or "diverged".

    A method has diverged if its error is not finite, or more than ten times the
    baseline's; seeds then differ too much for any loss to be significant. One
    seed shows no gain or loss, since it may be a lucky one.
    """
    is_error = not BY_NAME[self.score].higher_is_better
    of_baseline = self.value - self.difference.estimate
    if is_error and not self.value <= _DIVERGED * of_baseline:
      return "diverged"
    if self.difference.num_seeds < 2 or not self.p_holm < LEVEL:
      return "neither"
    return "gain" if self.gain > 0 else "loss"


def compare(
  results: pd.DataFrame,
  baseline: str = FEDAVG,
  *,
  criterion: str = "worst_10",
  columns: Sequence[str] = COLUMNS,
  question: questions.Name = questions.OTHER_CLIENTS,
) -> list[Result]:
  """Compares each federation's methods with the baseline, by all `columns`.

  A federation where the baseline has no results, or diverged, is left out.
  """
  return [
    result
    for federation, rows in results.groupby("federation", sort=False)
    for column in columns
    for result in _federation_results(
      str(federation), rows, column, baseline, criterion, question
    )
  ]


def _federation_results(
  federation: str,
  rows: pd.DataFrame,
  column: str,
  baseline: str,
  criterion: str,
  question: questions.Name,
) -> list[Result]:
  score = BY_NAME[rows["score"].iloc[0]]
  measure = measures.by_name(score)[column]
  of_methods = {
    str(method): _results_by_seed(of_method, criterion)
    for method, of_method in rows.groupby("method", sort=False)
  }
  means = {
    name: float(
      np.mean([measures.of_equal(measure, e) for [e] in seeds.values()])
    )
    for name, seeds in of_methods.items()
  }
  reference = baseline
  if baseline == BETTER_FEDAVG:
    both = [name for name in (FEDAVG, EQUAL_WEIGHTS) if name in means]
    reference = min(
      both, key=lambda n: measures.sort_key(measure, means[n]), default=FEDAVG
    )
  if not np.isfinite(means.get(reference, np.nan)):
    return []
  others = [name for name in of_methods if name != reference]
  contrasts = comparison_table.contrasts(
    measure,
    [of_methods[name] for name in others],
    of_methods[reference],
    reference,
    question,
  )
  sign = 1 if measure.higher_is_better else -1
  return [
    Result(
      federation,
      name,
      column,
      score.name,
      measure.scale * means[name],
      found.difference,
      found.p_holm,
      sign * found.difference.estimate,
    )
    for name, found in zip(others, contrasts, strict=True)
  ]


def _results_by_seed(rows: pd.DataFrame, criterion: str) -> ResultsBySeed:
  """Returns a method's results by seed, in the form that `paired` takes."""
  found = {}
  ids = {name: k for k, name in enumerate(sorted(rows["client"].unique()))}
  known = rows
  if BY_NAME[rows["score"].iloc[0]].needs:  # Clients may lack it.
    known = rows[rows[f"score_{criterion}"].notna()]
  for seed, of_seed in known.groupby("seed"):
    order = of_seed["client"].map(ids).to_numpy(np.int64)
    places = np.argsort(order)
    score = of_seed[f"score_{criterion}"].to_numpy(np.float64)[places]
    found[RunSeeds(int(seed), int(seed), int(seed))] = [
      Clients(
        order[places],
        score,
        np.full(score.size, np.nan),
        of_seed["num_examples"].to_numpy(np.float64)[places],
      )
    ]
  return found


class MethodSummary(NamedTuple):
  """A method's gains and losses over all federations, and their test."""

  method: str
  num_federations: int
  gains: int  # Federations with a significant gain.
  losses: int  # Federations with a significant loss.
  diverged: int  # Federations on which the method diverged.
  median: float  # The median of `standardized_gain`.
  p_value: float  # From Wilcoxon's test; NaN with fewer than two federations.
  p_holm: float  # The p-value with Holm's correction for the methods.


def standardized_gain(result: Result, spread: float) -> float:
  """Returns a gain in units of `spread`, a standard deviation over clients.

  It is -inf if the method diverged to a result that is not finite.
  """
  if np.isnan(result.gain):
    return -math.inf
  return 0.0 if spread == 0 else result.gain / spread


def summarize_methods(
  results: Sequence[Result],
  spreads: Mapping[str, float],
  column: str = "worst_10",
) -> list[MethodSummary]:
  """Returns each method's summary over all federations by measure `column`."""
  chosen = [result for result in results if result.column == column]
  names = list(dict.fromkeys(result.method for result in chosen))
  rows = []
  for name in names:
    of_method = [result for result in chosen if result.method == name]
    gains = [standardized_gain(r, spreads[r.federation]) for r in of_method]
    verdicts = [result.verdict for result in of_method]
    rows.append(
      MethodSummary(
        name,
        len(of_method),
        verdicts.count("gain"),
        verdicts.count("loss"),
        verdicts.count("diverged"),
        float(np.median(gains)),
        signed_rank_p(gains),
        np.nan,
      )
    )
  factors = paired.holm_factors([row.p_value for row in rows])
  return [
    row._replace(p_holm=min(factor * row.p_value, 1.0))
    for row, factor in zip(rows, factors, strict=True)
  ]


def signed_rank_p(differences: Sequence[float]) -> float:
  """Returns the two-sided p-value of Wilcoxon's signed-rank test."""
  values = np.asarray(differences, np.float64)
  if values.size < 2 or np.isnan(values).any():
    return float("nan")
  if not values.any():
    return 1.0
  if values.size > _MOST_ENUMERATED:
    return float(
      stats.wilcoxon(values, zero_method="pratt", method="approx").pvalue
    )
  # Zeros are ranked, then left out (Pratt, 1959). The code enumerates all
  # combinations of signs, so the p-value is exact even with ties.
  ranks = stats.rankdata(np.abs(values))[values != 0]
  signs = np.array([*itertools.product((-1, 1), repeat=ranks.size)])
  observed = abs(float(ranks @ np.sign(values[values != 0])))
  # Ranks are multiples of a half, so sums are exact.
  return float(np.mean(np.abs(signs @ ranks) >= observed))


def spreads(
  results: pd.DataFrame, criterion: str = "worst_10"
) -> dict[str, float]:
  """Returns the std of FedAvg's scores over clients, by federation.

  Where FedAvg is missing or diverged, it is that of FedAvg with equal weights.
  The std is averaged over seeds, and in the unit of tables. The scores are
  those at the setting that `criterion` chose.
  """
  found = {}
  for federation, rows in results.groupby("federation", sort=False):
    score = BY_NAME[rows["score"].iloc[0]]
    by_method = [
      rows[rows["method"] == name]
      .groupby("seed")[f"score_{criterion}"]
      .std(ddof=0)
      for name in (FEDAVG, EQUAL_WEIGHTS)
    ]
    means = [float(stds.mean()) for stds in by_method]
    found[str(federation)] = score.scale * next(
      filter(math.isfinite, means), math.nan
    )
  return found
