"""Chooses a method for a task, or shows that FedAvg is as good.

Four stages, each a sweep in a folder of its own. Training rows train,
validation rows decide, and test rows are read in the last stage alone:

1. FedAvg, by numbers of examples and with equal weights, at three learning
   rates, and beyond them while the best one is the last. Rounds go on a tape.
2. Replay: each rule on the tape. Rules whose direction serves the worst client
   come first; rules that change nothing come last.
3. Successive halving: all settings train one seed; the better half trains a
   further seed, and so on. FedAvg's settings are halved in the same way.
4. Confirmation: the best settings and FedAvg, on fresh seeds and test rows. A
   method is recommended if the interval of its difference to the better FedAvg,
   over seeds and clients and corrected for the number of methods, lies on the
   better side.
"""

import contextlib
import dataclasses
import itertools
import math
import os
import pathlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tff_fair import declared, methods
from tff_fair.declared import FieldError
from tff_fair.experiments import progress as progress_lines
from tff_fair.experiments.analysis import (
  compare,
  measures,
  questions,
  replay,
  tidy_table,
)
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.sweeps.runner import sweep
from tff_fair.files import atomic, parsing

FEDAVG = "fedavg"
# Of rates: the first three, and how often one beyond the best is tried.
_RATE_FACTOR, _MOST_BEYOND = 3.0, 3
_NUM_FINALISTS = 2
_FIRST_FRESH_SEED = 1000  # From the run's own seed on.
_MOST_TAPED_ROUNDS = 20
_SAME_ANGLE = 1.0  # Degrees, up to which a direction is FedAvg's.
_VALIDATION_FRACTION = 0.2
_REQUEST_FILE, _BUDGET_FILE = "request.json", "budget.json"
_CHOICE_FILE = "choice.json"
_DECIDED = ("client_learning_rate", "client_weighting")  # Beside hparams.
# Settings of a run that the choice decides, or that belong to single runs.
DECIDED = (
  *("algorithm", "hparams", "client_weighting", "criterion", "patience"),
  *("tape", "tape_rounds", "local_baseline", "save_updates"),
)
_ENDS = ("low", "high")

# The methods that are tried, those with most evidence first. A replay reorders.
METHODS = (
  *("fedfv", "adafed", "fedmgda_plus", "semi_vred", "vred", "adafedadam"),
  *("qfedavg", "term", "propfair", "delta_fl", "gifair", "fedmdfg"),
)
# Hyperparameters to try beside the defaults, at FedAvg's best rate.
_FURTHER: Mapping[str, Sequence[Mapping[str, float]]] = {
  "fedfv": ({"alpha": 0.3}, {"alpha": 0.5}),
  "adafed": ({"gamma": 0.1}, {"gamma": 3.0}),
  "fedmgda_plus": ({"epsilon": 0.5}, {"epsilon": 1.0}),
  "semi_vred": ({"beta": 0.5}, {"beta": 1.0}),
  "vred": ({"beta": 0.5}, {"beta": 1.0}),
  "adafedadam": ({"learning_rate": 0.01}, {"learning_rate": 0.03}),
  "qfedavg": ({"q": 1.0}, {"q": 5.0}),
  "term": ({"t": 0.1}, {"t": 5.0}),
  "propfair": ({"m": 3.0}, {"m": 10.0}),
  "delta_fl": ({"alpha": 0.2}, {"alpha": 0.8}),
  "gifair": ({"fraction": 0.9}, {"fraction": 0.2}),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceSettings:
  """How to choose: what is better, among which methods, at which cost."""

  criterion: str = declared.value(
    "worst_10", "The measure that is to become better, one of those of compare."
  )
  budget: int = declared.value(
    90,
    "How many runs to train, at most; 40 or more. Without --minutes.",
    expects="an integer from 40 on",
    minimum=40,
  )
  minutes: float | None = declared.value(
    None,
    "Train as many runs as this time allows, instead of --budget.",
    expects="a positive number",
    minimum=0,
    exclude_minimum=True,
  )
  fresh_seeds: int = declared.value(
    5,
    "How many seeds confirm the choice, on test rows.",
    expects="an integer from 3 to 50",
    minimum=3,
    maximum=50,
  )
  most_loss: float | None = declared.value(
    None,
    "How much any client may lose against FedAvg, in the unit of the score (of "
    "accuracies, percentage points); a mean over the seeds.",
    expects="a number from 0 on",
    minimum=0,
  )

  def __post_init__(self) -> None:
    """Checks each value."""
    for name, field in declared.fields_of(type(self)).items():
      object.__setattr__(self, name, field.check(getattr(self, name)))
    measures.check(self.criterion, "criterion")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
  """The outcome of `choose`.

  Attributes:
    spec: The recommended run. It sets no validation rows aside.
    is_fair_method: Whether it is a method that is clearly better than the
      better FedAvg; else it is that FedAvg.
    method: The title of the recommended method.
    settings: Its settings that the choice decided, by name.
    confirmation: A row for each finalist, the best first: `method`, `settings`,
      `is_better`, the differences to the better FedAvg on the test rows of
      fresh seeds, `NAME_difference`, `_low`, `_high` of the criterion and of
      the mean, in the unit of tables (accuracies in percent), and
      `largest_loss` of any client.
    path: A row for each setting that was tried: `stage`, `method`, `settings`,
      `seeds`, the criterion on validation rows, `value`, and `is_fedavg`.
    order: The replay, a row for each rule in the order of trial: `method`,
      `worst_cosine`, `angle`; no row where no rule could be replayed.
    left_out: Of each method that could not be tried, why.
    num_runs: How many runs were trained.
    runs: The runs of the confirmation.
    recommended: The run of `spec`, with what each client reaches alone.
    criterion: The measure that was to become better.
  """

  spec: RunSpec
  is_fair_method: bool
  method: str
  settings: Mapping[str, declared.Value]
  confirmation: pd.DataFrame
  path: pd.DataFrame
  order: pd.DataFrame
  left_out: Mapping[str, str]
  num_runs: int
  runs: Sequence[Run]
  recommended: Run
  criterion: str

  @property
  def num_fresh_seeds(self) -> int:
    """How many seeds the confirmation has."""
    return len({run.seeds for run in self.runs})

  def to_dict(self) -> dict[str, Any]:
    """Returns all but the runs as values of JSON."""
    return {
      "method": self.method,
      "is_fair_method": self.is_fair_method,
      "settings": dict(self.settings),
      "spec": self.spec.to_dict(),
      "criterion": self.criterion,
      **{
        name: getattr(self, name).to_dict("records")
        for name in ("confirmation", "order", "path")
      },
      "left_out": dict(self.left_out),
      "num_runs": self.num_runs,
    }


def choose(
  spec: RunSpec,
  output_dir: str | os.PathLike[str],
  *,
  algorithms: Iterable[str] | None = None,
  jobs: int | None = None,
  progress: bool = True,
  **settings: Any,
) -> Choice:
  """Chooses a method for a task, or shows that FedAvg is as good.

      choice = choose(RunSpec(task="digits", total_rounds=30), "outputs/choice")
      print(choice.method, choice.settings)

  Called again with the same arguments, it goes on where it was interrupted.

  Args:
    spec: The task and all settings that are the same for all methods; its
      learning rate is the middle one of the first three. Its algorithm and
      hyperparameters do not count.
    output_dir: A folder for all runs, `choice.json` among them.
    algorithms: The methods to try beside FedAvg, by name or as FILE.py:NAME; by
      default `METHODS`. Those that do not go with the settings of `spec`, such
      as its way of summing, are left out.
    jobs: How many runs to train side by side.
    progress: Whether to show on stderr how the choice gets on.
    **settings: Fields of `ChoiceSettings`.

  Returns:
    The choice, with the way to it.

  Raises:
    FieldError: If an argument is not valid.
    RunError: If the folder holds another choice, or a run fails.
  """
  how = ChoiceSettings(**settings)
  names = METHODS if algorithms is None else tuple(algorithms)
  for name in names:
    if not methods.is_method(methods.understood(name)):
      raise FieldError("algorithms", methods.unknown(name), value=name)
  if not names:
    raise FieldError("algorithms", "is empty; name a method, as fedfv.")
  fraction = spec.validation_fraction or _VALIDATION_FRACTION
  base = spec.with_algorithm(FEDAVG).replace(
    validation_fraction=fraction, data_seed=spec.seeds.data, tape=False
  )
  folder = pathlib.Path(output_dir)
  trials = _Trials(folder, how.criterion, jobs, progress)
  trials.check_request(
    {**dataclasses.asdict(how), "algorithms": list(names)}, base
  )
  choice = _Search(base, spec, how, trials).choose(names)
  atomic.write(folder / _CHOICE_FILE, parsing.json_text(choice.to_dict()))
  return choice


class _Tried(NamedTuple):
  """A setting and its values of the criterion so far, one for each seed.

  Attributes:
    spec: The setting, at the first seed.
    keys: The values as keys to sort by, the best first.
  """

  spec: RunSpec
  keys: tuple[float, ...]

  @property
  def key(self) -> float:
    """The mean of its keys."""
    return float(np.mean(self.keys))


class _Trials:
  """Trains settings and measures them on validation rows; keeps the path."""

  def __init__(
    self,
    folder: pathlib.Path,
    criterion: str,
    jobs: int | None,
    progress: bool,
  ) -> None:
    self.folder = folder
    self._criterion = criterion
    self._jobs = jobs
    self._progress = progress
    self.path: list[dict[str, Any]] = []
    self.num_runs = 0

  def check_request(self, request: Mapping[str, Any], base: RunSpec) -> None:
    """Refuses a folder that holds the choice of another request."""
    wanted = {**request, "spec": base.to_dict()}
    file = self.folder / _REQUEST_FILE
    text = parsing.json_text(wanted)
    if not file.exists():
      self.folder.mkdir(parents=True, exist_ok=True)
      atomic.write(file, text)
    elif file.read_text("utf-8") != text:
      raise RunError(
        f"{self.folder}: holds the choice of other settings; name another "
        "folder, or give the same settings."
      )

  def say(self, text: str) -> None:
    """Shows a line of progress."""
    if self._progress:
      progress_lines.say(text)

  def train(self, stage: str, specs: Sequence[RunSpec]) -> list[Run]:
    """Trains runs in the folder of a stage."""
    self.num_runs += len(specs)
    self.say(f"{stage}: {len(specs)} runs.")
    return sweep(specs, self.folder / stage, self._jobs, self._progress)

  def measure(
    self, stage: str, tried: Sequence[_Tried], seed: int
  ) -> list[_Tried]:
    """Trains each setting at a further seed; returns them, the best first."""
    runs = self.train(stage, [t.spec.replace(seed=seed) for t in tried])
    found = [
      _Tried(t.spec, (*t.keys, self._key(run)))
      for t, run in zip(tried, runs, strict=True)
    ]
    found.sort(key=lambda t: t.key)
    for one in found:
      measure = measures.of(runs[0].score)[self._criterion]
      sign = -1 if measure.higher_is_better else 1
      self.path.append(
        {
          "stage": stage,
          "method": one.spec.title,
          "settings": settings_text(one.spec),
          "seeds": len(one.keys),
          "value": sign * measure.scale * one.key + 0.0,  # Not -0.
          "is_fedavg": one.spec.algorithm == FEDAVG,
        }
      )
    return found

  def _key(self, run: Run) -> float:
    """Returns a run's criterion on validation rows as a key to sort by."""
    last = tables.seen(run.last_evaluation)
    if not tables.has_validation(last):
      raise RunError(
        f"{run.path}: has no validation rows, since its clients have too few "
        "training rows; a choice needs them."
      )
    measure = measures.find(self._criterion, run.score, run.path, "criterion")
    found = measures.of_clients(tables.on_validation(last), run.score)
    return measures.sort_key(measure, found[self._criterion])


class _Search:
  """The four stages, and what they have found so far."""

  def __init__(
    self, base: RunSpec, final: RunSpec, how: ChoiceSettings, trials: _Trials
  ) -> None:
    self._base = base
    self._final = final
    self._how = how
    self._trials = trials
    self._first_seed = base.seed

  def choose(self, names: Sequence[str]) -> Choice:
    """Returns the choice among FedAvg and the methods of some names."""
    begin = time.monotonic()
    fedavgs = self._fedavg()
    best = min((tried[0] for tried in fedavgs), key=lambda t: t.key).spec
    budget = self._budget(time.monotonic() - begin)
    variants, left_out = _variants(names, best, max(map(len, fedavgs)))
    if not variants:
      reasons = " ".join(f"{name}: {why}" for name, why in left_out.items())
      raise FieldError("algorithms", f"none can be tried. {reasons}")
    order = self._replay(list(variants), best)
    by_rank = [variants[name] for name in order["algorithm"]]
    # Each method's first setting, then each one's second, and so on.
    specs = [
      spec
      for depth in itertools.zip_longest(*by_rank)
      for spec in depth
      if spec is not None
    ]
    room = budget - self._trials.num_runs - 1  # The last is the recommended.
    number = self._how_many(len(specs), [*map(len, fedavgs)], room)
    pool = [_Tried(spec, ()) for spec in specs[:number]]
    fedavgs, pool = self._halve(fedavgs, pool)
    finalists: dict[str, RunSpec] = {}
    for one in pool:  # Of each method its best setting.
      finalists.setdefault(one.spec.algorithm, one.spec)
    return self._confirm(
      [tried[0].spec for tried in sorted(fedavgs, key=lambda t: t[0].key)],
      list(finalists.values()),
      order,
      left_out,
    )

  def _fedavg(self) -> list[list[_Tried]]:
    """Tries FedAvg at several rates; of each weighting, the best first."""
    weightings = [self._base.replace(client_weighting="uniform")]
    if self._base.dp_noise is None:
      weightings.append(self._base.replace(client_weighting="num_examples"))
    middle = self._base.client_learning_rate
    wanted = [
      spec.replace(client_learning_rate=rate)
      for spec in weightings
      for rate in _rates(middle)
    ]
    tried: list[_Tried] = []
    for number in range(1 + _MOST_BEYOND):
      if not wanted:
        break
      tried += self._trials.measure(
        f"1-fedavg-{number + 1}",
        [_Tried(spec, ()) for spec in wanted],
        self._first_seed,
      )
      wanted = []
      for spec in weightings:
        of_weighting = _of_weighting(tried, spec)
        rates = [t.spec.client_learning_rate for t in of_weighting]
        if rates[0] in (min(rates), max(rates)):
          _, low, high = _rates(rates[0])
          beyond = low if rates[0] == min(rates) else high
          wanted.append(spec.replace(client_learning_rate=beyond))
    return [_of_weighting(tried, spec) for spec in weightings]

  def _budget(self, seconds: float) -> int:
    """Returns how many runs to train; as it was where the choice goes on."""
    if self._how.minutes is None:
      return self._how.budget
    file = self._trials.folder / _BUDGET_FILE
    if not file.exists():
      rate = self._trials.num_runs / seconds
      runs = math.floor(60 * self._how.minutes * rate)
      atomic.write(file, parsing.json_text({"runs": runs}))
    return int(parsing.parse_json(file.read_bytes())["runs"])

  def _replay(self, names: Sequence[str], best: RunSpec) -> pd.DataFrame:
    """Returns the methods in the order in which their rules serve the worst.

    Those whose rules are FedAvg's here come later, and those that no tape can
    order last.
    """
    try:
      rounds = min(best.total_rounds, _MOST_TAPED_ROUNDS)
      spec = best.replace(tape=True, total_rounds=rounds)
    except FieldError:  # Sums or noise hide what a tape has.
      return pd.DataFrame({"algorithm": names, "worst_cosine": math.nan})
    [run] = self._trials.train("2-tape", [spec])
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

  def _how_many(self, most: int, num_fedavgs: Sequence[int], room: int) -> int:
    """Returns how many settings so many runs can halve and confirm."""
    confirming = self._how.fresh_seeds * (_NUM_FINALISTS + len(num_fedavgs))
    for number in range(most, _NUM_FINALISTS, -1):
      rungs = list(_rungs(number))
      cost = sum(rungs) + confirming
      for tried in num_fedavgs:
        halved = itertools.accumulate(
          rungs[1:], lambda n, _: _half(n), initial=tried
        )
        cost += sum([*halved][1:])
      if cost <= room:
        return number
    return min(most, _NUM_FINALISTS)

  def _halve(
    self, fedavgs: list[list[_Tried]], pool: list[_Tried]
  ) -> tuple[list[list[_Tried]], list[_Tried]]:
    """Halves all settings until the finalists are left."""
    for rung, number in enumerate(_rungs(len(pool))):
      pool = pool[:number]
      if rung:
        fedavgs = [tried[: _half(len(tried))] for tried in fedavgs]
      of_fedavg = [t for tried in fedavgs for t in tried] if rung else []
      measured = self._trials.measure(
        f"3-rung-{rung + 1}", [*of_fedavg, *pool], self._first_seed + rung
      )
      if rung:
        fedavgs = [_of_weighting(measured, tried[0].spec) for tried in fedavgs]
      pool = [t for t in measured if t.spec.algorithm != FEDAVG]
    return fedavgs, pool

  def _confirm(
    self,
    fedavgs: Sequence[RunSpec],
    finalists: Sequence[RunSpec],
    order: pd.DataFrame,
    left_out: Mapping[str, str],
  ) -> Choice:
    """Compares the finalists with FedAvg on test rows, at fresh seeds."""
    fresh = self._first_seed + _FIRST_FRESH_SEED
    runs = self._trials.train(
      "4-confirmation",
      [
        spec.replace(seed=fresh + number)
        for spec in (*fedavgs, *finalists)
        for number in range(self._how.fresh_seeds)
      ],
    )
    confirmation = _confirmation(
      runs, fedavgs[0].title, finalists, self._how.criterion
    )
    is_fit = confirmation["is_better"]
    if self._how.most_loss is not None:
      is_fit = is_fit & (confirmation["largest_loss"] <= self._how.most_loss)
    better = confirmation[is_fit]
    spec = fedavgs[0]
    if len(better):
      spec = next(s for s in finalists if s.title == better["method"].iloc[0])
    recommended = self._recommended(spec)
    return Choice(
      spec=recommended.spec,
      is_fair_method=spec.algorithm != FEDAVG,
      method=spec.title,
      settings=_settings(spec),
      confirmation=confirmation,
      path=pd.DataFrame(self._trials.path),
      order=order,
      left_out=left_out,
      num_runs=self._trials.num_runs,
      runs=runs,
      recommended=recommended,
      criterion=self._how.criterion,
    )

  def _recommended(self, spec: RunSpec) -> Run:
    """Trains the recommendation on all training rows, and clients alone."""
    final = self._final.with_algorithm(spec.algorithm).replace(
      hparams=spec.hparams,
      **{name: getattr(spec, name) for name in _DECIDED},
    )
    with contextlib.suppress(
      FieldError
    ):  # As of models that no client has alone.
      final = final.replace(local_baseline=True)
    [run] = self._trials.train("recommended", [final])
    return run


def _rates(middle: float) -> list[float]:
  """Returns a rate, the next lower and the next higher one."""
  rates = (middle, middle / _RATE_FACTOR, middle * _RATE_FACTOR)
  return [float(f"{rate:.3g}") for rate in rates]


def _half(number: int) -> int:
  return max(1, math.ceil(number / 2))


def _rungs(number: int) -> Iterator[int]:
  """Yields how many settings train in each rung."""
  yield number
  while number > _NUM_FINALISTS:
    number = max(_half(number), _NUM_FINALISTS)
    yield number


def _of_weighting(tried: Iterable[_Tried], spec: RunSpec) -> list[_Tried]:
  """Returns FedAvg's settings with the weights of `spec`, the best first."""
  return sorted(
    (
      t
      for t in tried
      if t.spec.algorithm == FEDAVG
      and t.spec.client_weighting == spec.client_weighting
    ),
    key=lambda t: t.key,
  )


def _variants(
  names: Iterable[str], best: RunSpec, most: int
) -> tuple[dict[str, list[RunSpec]], dict[str, str]]:
  """Returns the settings to try of each method, no more than FedAvg had.

  Args:
    names: The methods.
    best: FedAvg at its best rate, with the better weights of clients.
    most: How many settings a method may have.

  Returns:
    The settings by method; and why others cannot be tried.
  """
  found: dict[str, list[RunSpec]] = {}
  left_out: dict[str, str] = {}
  for name in names:
    algorithm = methods.understood(name)
    if algorithm == FEDAVG:
      continue
    ways = methods.get(algorithm).aggregations
    if best.aggregation is not None and best.aggregation not in ways:
      left_out[name] = f"Its ways of summing are {', '.join(ways)}."
      continue
    further = _FURTHER.get(algorithm, ())
    _, lower, higher = _rates(best.client_learning_rate)
    changes: list[dict[str, Any]] = [
      {},
      {"client_learning_rate": higher},
      *({"hparams": hparams} for hparams in further[:1]),
      {"client_learning_rate": lower},
      *({"hparams": hparams} for hparams in further[1:]),
    ]
    try:
      spec = best.with_algorithm(algorithm)
      found[algorithm] = [spec.replace(**one) for one in changes[:most]]
    except FieldError as error:
      left_out[name] = str(error)
  return found, left_out


def _settings(spec: RunSpec) -> dict[str, declared.Value]:
  """Returns what the choice decides of a run."""
  return {
    **{name: getattr(spec, name) for name in _DECIDED},
    **spec.hparams,
  }


def settings_text(spec: RunSpec) -> str:
  """Returns what tells the settings of one method apart."""
  shown = {n: v for n, v in _settings(spec).items() if n != "client_weighting"}
  return ", ".join(spec_text.assignments(shown))


def _confirmation(
  runs: Sequence[Run], fedavg: str, finalists: Sequence[RunSpec], criterion: str
) -> pd.DataFrame:
  """Returns a row for each finalist, as `Choice.confirmation` has them."""
  columns = list(dict.fromkeys([criterion, "mean"]))
  compared = compare.compare(
    runs, FEDAVG, columns, question=questions.OTHER_CLIENTS
  )
  score = runs[0].score
  measure = measures.of(score)[criterion]
  losses = _largest_losses(runs, fedavg)
  rows = []
  for spec in finalists:
    of_method = compared.loc[spec.title]
    differences = {
      f"{name}_{part}": float(of_method[f"{name}_{part}"])
      for name in columns
      for part in ("difference", "difference_low", "difference_high")
    }
    low, high = (differences[f"{criterion}_difference_{end}"] for end in _ENDS)
    rows.append(
      {
        "method": spec.title,
        "settings": settings_text(spec),
        "baseline": of_method[f"{criterion}_difference_baseline"],
        "is_better": low > 0 if measure.higher_is_better else high < 0,
        **differences,
        "largest_loss": losses[spec.title],
      }
    )
  return pd.DataFrame(rows).sort_values(
    f"{criterion}_difference",
    ascending=not measure.higher_is_better,
    ignore_index=True,
  )


def _largest_losses(runs: Sequence[Run], fedavg: str) -> pd.Series:
  """Returns by method how much its worst-off client loses against FedAvg."""
  score = runs[0].score
  rows = tidy_table.table(runs)
  last = rows[
    rows["round"] == rows.groupby(["method", "seed"])["round"].transform("max")
  ]
  means = last.groupby(["method", "client_id"])[score.name].mean().unstack()
  change = (means - means.loc[fedavg]) * score.scale
  gains = change if score.higher_is_better else -change
  return (-gains.min(axis=1)).clip(lower=0)
