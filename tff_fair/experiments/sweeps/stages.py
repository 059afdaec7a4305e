"""Runs the four stages of a choice, which `choosing` describes."""

import contextlib
import dataclasses
import itertools
import math
import pathlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from tff_fair import declared
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import confirmation, group_measures, replay
from tff_fair.experiments.analysis.federations import FEDAVG
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import tables
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.sweeps import choice_runs, halving
from tff_fair.experiments.sweeps.choice_runs import ChoiceRunner
from tff_fair.files import atomic, parsing

_MAX_EXTRA_RATES = 3  # How often FedAvg may try further learning rates.
_FIRST_FRESH_SEED = 1000  # Added to the seed of the other stages.
_MOST_TAPED_ROUNDS = 20
_SAME_ANGLE = 1.0  # Degrees; directions within this angle are treated as equal.
_BUDGET = 90  # The default number of runs.
_BUDGET_FILE = "budget.json"
# The settings that a choice selects, besides the hyperparameters.
TUNED_SETTINGS = (
  "client_learning_rate",
  "server_learning_rate",
  "client_weighting",
)


Criterion = Literal[
  "worst_5",
  "worst_10",
  "worst_20",
  "worst_30",
  "mean",
  "std",
  "accuracy_parity",
  "demographic_parity",
  "equal_opportunity",
  "equalized_odds",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceSettings:
  """The settings of a choice: its criterion, budget, seeds and largest loss."""

  criterion: Criterion = declared.value(
    "worst_10",
    "The measure to improve: a measure over clients, or a gap between groups "
    "of people over all clients.",
  )
  budget: int | None = declared.value(
    None,
    "The largest number of runs to train, 40 or more; by default 90.",
    expects="an integer from 40 on",
    minimum=40,
  )
  minutes: float | None = declared.value(
    None,
    "Instead of --budget: train as many runs as fit into this time.",
    expects="a positive number",
    minimum=0,
    exclude_minimum=True,
  )
  fresh_seeds: int = declared.value(
    5,
    "The number of fresh seeds that confirm the choice on test data.",
    expects="an integer from 3 to 50",
    minimum=3,
    maximum=50,
  )
  most_loss: float | None = declared.value(
    None,
    "The largest loss against FedAvg that any client may have, as a mean over "
    "the seeds, in the unit of the score (for accuracies percentage points).",
    expects="a number from 0 on",
    minimum=0,
  )

  def __post_init__(self) -> None:
    for name, field in declared.fields_of(type(self)).items():
      object.__setattr__(self, name, field.check(getattr(self, name)))
    if self.budget is not None and self.minutes is not None:
      raise FieldError(
        "minutes",
        "does not go with budget; give one of them.",
        value=str(self.minutes),
      )


def settings_of(spec: RunSpec) -> dict[str, declared.Value]:
  """Returns the settings that a choice selects, except the method."""
  found = {
    **{name: getattr(spec, name) for name in TUNED_SETTINGS},
    **spec.hparams,
  }
  return {name: value for name, value in found.items() if value is not None}


def settings_text(spec: RunSpec) -> str:
  """Returns the settings that distinguish runs of one method, as text."""
  found = settings_of(spec)
  del found["client_weighting"]  # The method's title contains it.
  return ", ".join(spec_text.assignments(found))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceFindings:
  """The results of the four stages.

  Attributes:
    spec: The settings of the recommended run.
    confirmation: A row for each finalist, see `confirmation.compare`; numbers
      have the units of tables, for example percent for accuracies.
    path: A row for each stage and setting that it tried: `stage`, `method`,
      `settings`, `seeds`, `value` (of the criterion on validation rows) and
      `is_fedavg`.
    order: The methods in the order in which they are tried: `algorithm`, and
      the results of the replay, if any: `worst_cosine`, `angle`, `changes`.
    left_out: Why methods could not be tried, by method.
    num_runs: How many runs were trained.
    num_fresh_seeds: How many seeds confirmed the choice.
    criterion: The measure to improve.
  """

  spec: RunSpec
  confirmation: pd.DataFrame
  path: pd.DataFrame
  order: pd.DataFrame
  left_out: Mapping[str, str]
  num_runs: int
  num_fresh_seeds: int
  criterion: str

  @property
  def is_fair_method(self) -> bool:
    """Whether the choice recommends another method than FedAvg."""
    return self.spec.algorithm != FEDAVG

  @property
  def method(self) -> str:
    """The title of the recommended method."""
    return self.spec.title

  @property
  def settings(self) -> Mapping[str, declared.Value]:
    """The settings of the method that the choice selected, by name."""
    return settings_of(self.spec)


class _Candidate(NamedTuple):
  """Settings to try, and a sort key for each seed; smaller keys are better."""

  spec: RunSpec
  keys: tuple[float, ...] = ()

  @property
  def key(self) -> float:
    """The mean of the keys over seeds."""
    return float(np.mean(self.keys))


class Stages:
  """Runs the four stages of a choice; `runner` trains their runs."""

  def __init__(
    self,
    base: RunSpec,
    settings: ChoiceSettings,
    folder: pathlib.Path,
    runner: ChoiceRunner,
  ) -> None:
    """`base` is FedAvg at the middle one of its first learning rates."""
    self._base, self._settings = base, settings
    self._folder, self._runner = folder, runner
    self._path: list[dict[str, Any]] = []

  def run(self, names: Sequence[str]) -> ChoiceFindings:
    """Chooses between FedAvg and the methods in `names` in four stages."""
    begin = time.monotonic()
    fedavgs = self._tune_fedavg()
    best = min((tried[0] for tried in fedavgs), key=lambda t: t.key).spec
    budget = self._budget(time.monotonic() - begin)
    numbers = [*map(len, fedavgs)]
    variants, left_out = halving.variants(
      names,
      best,
      max(numbers),
      has_groups=self._runner.has_groups(self._base),
    )
    order = self._replay(list(variants), best)
    # The first setting of each method, then the second of each, and so on.
    by_rank = [variants[name] for name in order["algorithm"]]
    depths = itertools.zip_longest(*by_rank)
    specs = [spec for depth in depths for spec in depth if spec is not None]
    specs = self._fit_to_budget(specs, numbers, budget, left_out)
    fedavgs, pool = self._halve(fedavgs, [*map(_Candidate, specs)])
    finalists: dict[str, RunSpec] = {}
    for one in pool:  # Keep each method's best setting.
      finalists.setdefault(one.spec.algorithm, one.spec)
    fedavgs.sort(key=lambda tried: tried[0].key)
    spec, compared = self._confirm(
      [tried[0].spec for tried in fedavgs], list(finalists.values())
    )
    return ChoiceFindings(
      spec=spec,
      confirmation=compared,
      path=pd.DataFrame(self._path),
      order=order,
      left_out=left_out,
      num_runs=self._runner.num_runs,
      num_fresh_seeds=self._settings.fresh_seeds,
      criterion=self._settings.criterion,
    )

  def _fit_to_budget(
    self,
    specs: list[RunSpec],
    numbers: Sequence[int],
    budget: int,
    left_out: dict[str, str],
  ) -> list[RunSpec]:
    """Returns as many of the first `specs` as fit into the budget.

    Methods whose first run fails are dropped, and noted in `left_out`.
    """
    room = budget - self._runner.num_runs - 1  # Minus the recommended run.
    fresh_seeds = self._settings.fresh_seeds
    fits: set[str] = set()
    while specs:
      number = halving.num_affordable(len(specs), numbers, fresh_seeds, room)
      new = [s for s in specs[:number] if s.algorithm not in fits]
      if not new:
        return specs[:number]
      algorithm = new[0].algorithm
      if reason := self._runner.training_error(new[0]):
        left_out[algorithm] = reason
        specs = [s for s in specs if s.algorithm != algorithm]
      fits.add(algorithm)
    raise halving.no_method_error(left_out)

  def _tune_fedavg(self) -> list[list[_Candidate]]:
    """Trains FedAvg at several learning rates.

    Returns its settings for each client weighting, the best first.
    """
    weightings = [self._base.replace(client_weighting="uniform")]
    if self._base.dp_noise is None:
      weightings.append(self._base.replace(client_weighting="num_examples"))
    wanted = [
      spec.replace(client_learning_rate=rate)
      for spec in weightings
      for rate in halving.rates(self._base.client_learning_rate)
    ]
    tried: list[_Candidate] = []
    for number in range(1 + _MAX_EXTRA_RATES):
      if not wanted:
        break
      tried += self._measure(
        f"FedAvg {number + 1}", [*map(_Candidate, wanted)], self._base.seed
      )
      wanted = []
      for spec in weightings:
        of_weighting = _filter_by_weighting(tried, spec)
        known = [t.spec.client_learning_rate for t in of_weighting]
        if known[0] in (min(known), max(known)):
          _, low, high = halving.rates(known[0])
          beyond = low if known[0] == min(known) else high
          wanted.append(spec.replace(client_learning_rate=beyond))
    return [_filter_by_weighting(tried, spec) for spec in weightings]

  def _budget(self, seconds: float) -> int:
    """Returns how many runs to train, given the `seconds` of the first stage.

    A resumed choice gets the same number.
    """
    if self._settings.minutes is None:
      return self._settings.budget or _BUDGET
    file = self._folder / _BUDGET_FILE
    if not file.exists():
      # Not `num_runs`, which also counts runs trained before a resumption.
      pace = self._runner.num_trained / seconds
      runs = math.floor(60 * self._settings.minutes * pace) if pace else _BUDGET
      atomic.write(file, parsing.json_text({"runs": runs}))
    return int(parsing.parse_json(file.read_bytes())["runs"])

  def _replay(self, names: Sequence[str], best: RunSpec) -> pd.DataFrame:
    """Returns a table of methods, sorted by benefit to the worst-off clients.

    Rules are replayed on a run of `best`; rules with its direction come last.
    """
    run = None
    rounds = min(best.total_rounds, _MOST_TAPED_ROUNDS)
    with contextlib.suppress(FieldError):  # Secure sums or noise forbid tapes.
      run = self._runner.train_with_tape(
        best.replace(tape=True, total_rounds=rounds)
      )
    if run is None:
      return pd.DataFrame({"algorithm": names, "worst_cosine": math.nan})
    rows = []
    for name in names:
      found = {"worst_cosine": math.nan, "angle": math.nan}
      with contextlib.suppress(FieldError, RunError):
        of_clients = replay.replay(run, name, tell=lambda _: None)
        by_round = of_clients.groupby("round")
        found["worst_cosine"] = float(by_round["cosine"].min().mean())
        found["angle"] = float(by_round["angle"].first().mean())
      rows.append({"algorithm": name, **found})
    order = pd.DataFrame(rows)
    order["changes"] = ~(order["angle"] < _SAME_ANGLE)
    by = ["changes", "worst_cosine"]
    return order.sort_values(by, ascending=False, kind="stable")

  def _halve(
    self, fedavgs: list[list[_Candidate]], pool: list[_Candidate]
  ) -> tuple[list[list[_Candidate]], list[_Candidate]]:
    """Trains settings in rungs, one seed each; a rung keeps the better half.

    Returns the last rung's settings: those of FedAvg by client weighting, and
    those of the other methods.
    """
    for rung, number in enumerate(halving.rungs(len(pool))):
      pool = pool[:number]
      if rung:
        fedavgs = [
          tried[: halving.num_survivors(len(tried))] for tried in fedavgs
        ]
      of_fedavg = [t for tried in fedavgs for t in tried] if rung else []
      measured = self._measure(
        f"Rung {rung + 1}", [*of_fedavg, *pool], self._base.seed + rung
      )
      if rung:
        fedavgs = [
          _filter_by_weighting(measured, tried[0].spec) for tried in fedavgs
        ]
      pool = [t for t in measured if t.spec.algorithm != FEDAVG]
    return fedavgs, pool

  def _measure(
    self, stage: str, tried: Sequence[_Candidate], seed: int
  ) -> list[_Candidate]:
    """Trains each setting with `seed`; returns all, the best one first."""
    results = self._runner.evaluate(
      stage, [t.spec.replace(seed=seed) for t in tried]
    )
    score = choice_runs.score_of(results[0])
    measure = group_measures.find(self._settings.criterion, score)
    sign = -1 if measure.higher_is_better else 1
    found = [
      _Candidate(t.spec, (*t.keys, self._key(clients, score)))
      for t, clients in zip(tried, results, strict=True)
    ]
    found.sort(key=lambda t: t.key)
    self._path += [
      {
        "stage": stage,
        "method": one.spec.title,
        "settings": settings_text(one.spec),
        "seeds": len(one.keys),
        "value": sign * measure.scale * one.key + 0.0,  # Turns -0 into 0.
        "is_fedavg": one.spec.algorithm == FEDAVG,
      }
      for one in found
    ]
    return found

  def _key(self, clients: pd.DataFrame, score: Score) -> float:
    """Returns a sort key for the criterion on the clients' validation rows."""
    if not tables.has_validation(clients):
      raise RunError(
        "A choice needs validation rows, and no client has enough training "
        "rows to set some aside; give a larger validation_fraction."
      )
    found = group_measures.clients_of(tables.validation_rows(clients), score)
    return confirmation.sort_key(found, score, self._settings.criterion)

  def _confirm(
    self, fedavgs: Sequence[RunSpec], finalists: Sequence[RunSpec]
  ) -> tuple[RunSpec, pd.DataFrame]:
    """Compares finalists with FedAvg on test rows of fresh seeds.

    Returns the spec to recommend, and the comparison as a table.
    """
    first = self._base.seed + _FIRST_FRESH_SEED
    specs = [
      spec.replace(seed=first + number)
      for number in range(self._settings.fresh_seeds)
      for spec in (*fedavgs, *finalists)
    ]
    results = self._runner.evaluate("Confirmation", specs)
    score = choice_runs.score_of(results[0])
    compared = confirmation.compare(
      (
        (spec.title, spec.seeds, clients)
        for spec, clients in zip(specs, results, strict=True)
      ),
      score,
      {spec.title: settings_text(spec) for spec in finalists},
      self._settings.criterion,
    )
    is_fit = compared["is_better"]
    if self._settings.most_loss is not None:
      is_fit = is_fit & (compared["largest_loss"] <= self._settings.most_loss)
    better = compared[is_fit]
    if better.empty:
      return fedavgs[0], compared
    [spec] = [s for s in finalists if s.title == better["method"].iloc[0]]
    return spec, compared


def _filter_by_weighting(
  tried: Iterable[_Candidate], spec: RunSpec
) -> list[_Candidate]:
  """Returns FedAvg's settings with the weighting of `spec`, the best first."""
  return sorted(
    (
      t
      for t in tried
      if t.spec.algorithm == FEDAVG
      and t.spec.client_weighting == spec.client_weighting
    ),
    key=lambda t: t.key,
  )
