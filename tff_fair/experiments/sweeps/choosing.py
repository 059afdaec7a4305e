"""Chooses a method for a task, or shows that FedAvg is as good.

Training rows train, validation rows decide, and test rows are read in the
fourth stage alone:

1. FedAvg, by numbers of examples and with equal weights, at three learning
   rates, and beyond them while the best one is the last.
2. Replay: a run of the better FedAvg has a tape, to which each rule is applied.
   Rules whose direction serves the worst client come first; rules that change
   nothing come last.
3. Successive halving: all settings train one seed; the better half trains a
   further seed, and so on. FedAvg's settings are halved in the same way.
4. Confirmation: the best settings and FedAvg, on fresh seeds and test rows. A
   method is recommended if the interval of its difference to the better FedAvg,
   over seeds and clients and corrected for the number of methods, lies on the
   better side.

Runs of these stages share what the program has compiled (`in_memory`), and each
leaves the results of its clients in a file, so that a choice goes on where it
was interrupted. The recommended run is an ordinary one.
"""

import contextlib
import dataclasses
import itertools
import math
import os
import pathlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from tff_fair import declared, methods
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import federations, measures, replay
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import finding, tables
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.sweeps import bench, tries
from tff_fair.experiments.sweeps.tries import Tries
from tff_fair.files import atomic, parsing

FEDAVG = federations.FEDAVG
# Of rates: the first three, and how often one beyond the best is tried.
_RATE_FACTOR, _MOST_BEYOND = 3.0, 3
_NUM_FINALISTS = 2
_FIRST_FRESH_SEED = 1000  # From the run's own seed on.
_MOST_TAPED_ROUNDS = 20
_SAME_ANGLE = 1.0  # Degrees, up to which a direction is FedAvg's.
_VALIDATION_FRACTION = 0.2
_REQUEST_FILE, _BUDGET_FILE = "request.json", "budget.json"
CHOICE_FILE = "choice.json"
_CRITERION = "validation"  # What federations call that by which one chose.
_SETTINGS = ("client_learning_rate", "client_weighting")  # Beside hparams.
# Settings of a run that the choice decides, or that belong to single runs.
DECIDED = (
  *("algorithm", "hparams", "client_weighting", "criterion", "patience"),
  *("tape", "tape_rounds", "local_baseline", "save_updates"),
)

Criterion = Literal[
  "worst_5", "worst_10", "worst_20", "worst_30", "mean", "std"
]

# The methods that are tried, those with most evidence first. A replay reorders.
METHODS = (
  *("fedfv", "adafed", "fedmgda_plus", "semi_vred", "vred", "adafedadam"),
  *("qfedavg", "term", "propfair", "delta_fl", "gifair", "fedmdfg"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceSettings:
  """How to choose: what is better, among which methods, at which cost."""

  criterion: Criterion = declared.value(
    "worst_10", "The measure over clients that is to become better."
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
    order: The methods in the order of trial: `algorithm`, and of the replay
      `worst_cosine`, `angle` and `changes`, missing where there is none.
    left_out: Of each method that could not be tried, why.
    num_runs: How many runs were trained.
    num_fresh_seeds: How many seeds confirmed the choice.
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
  num_fresh_seeds: int
  recommended: Run
  criterion: str

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
      "num_fresh_seeds": self.num_fresh_seeds,
    }


def choose(
  spec: RunSpec,
  output_dir: str | os.PathLike[str],
  *,
  algorithms: Iterable[str] | None = None,
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
    output_dir: A folder for all results, `choice.json` among them.
    algorithms: The methods to try beside FedAvg, by name or as FILE.py:NAME; by
      default `METHODS`. Those that do not go with the settings of `spec`, such
      as its way of summing, are left out.
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
  folder = pathlib.Path(output_dir)
  found = find(spec, folder, names, how, progress=progress)
  recommended = _train(folder, spec, found.spec, progress=progress)
  choice = Choice(
    spec=recommended.spec,
    is_fair_method=found.spec.algorithm != FEDAVG,
    method=found.spec.title,
    settings=_settings(found.spec),
    confirmation=found.confirmation,
    path=found.path,
    order=found.order,
    left_out=found.left_out,
    num_runs=found.num_runs + 1,
    num_fresh_seeds=how.fresh_seeds,
    recommended=recommended,
    criterion=how.criterion,
  )
  atomic.write(folder / CHOICE_FILE, parsing.json_text(choice.to_dict()))
  return choice


def find(
  spec: RunSpec,
  folder: pathlib.Path,
  names: Sequence[str],
  how: ChoiceSettings,
  *,
  progress: bool,
) -> "Found":
  """Goes through the four stages, as `choose` says."""
  for name in names:
    if not methods.is_method(methods.understood(name)):
      raise FieldError("algorithms", methods.unknown(name), value=name)
  if not names:
    raise FieldError("algorithms", "is empty; name a method, as fedfv.")
  fraction = spec.validation_fraction or _VALIDATION_FRACTION
  base = spec.with_algorithm(FEDAVG).replace(
    validation_fraction=fraction, data_seed=spec.seeds.data, tape=False
  )
  tried = Tries(folder / "tries", progress=progress)
  request = {
    **dataclasses.asdict(how),
    "algorithms": {
      name: methods.file_digest(methods.understood(name)) for name in names
    },
    "spec": base.to_dict(),
    "data": tried.data_digests(base),
  }
  _check_request(folder, request)
  return _Search(base, how, folder, tried).choose(names)


def _check_request(folder: pathlib.Path, request: Mapping[str, Any]) -> None:
  """Refuses a folder that holds the choice of another request."""
  file = folder / _REQUEST_FILE
  text = parsing.json_text(request)
  if not file.exists():
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(file, text)
  elif file.read_text("utf-8") != text:
    raise RunError(
      f"{folder}: holds the choice of other settings, data or files of yours; "
      "name another folder, or give the same."
    )


def _train(
  folder: pathlib.Path, spec: RunSpec, chosen: RunSpec, *, progress: bool
) -> Run:
  """Trains the recommendation on all training rows, and clients alone."""
  final = spec.with_algorithm(chosen.algorithm).replace(
    hparams=chosen.hparams,
    **{name: getattr(chosen, name) for name in _SETTINGS},
  )
  with contextlib.suppress(FieldError):  # As of models no client has alone.
    final = final.replace(local_baseline=True)
  return run_once(final, folder / "recommended", progress=progress)


def run_once(spec: RunSpec, path: pathlib.Path, *, progress: bool) -> Run:
  """Returns a run of a choice, which an earlier program may have trained."""
  if RunFolder(path).is_finished:
    return finding.read_run(path)
  from tff_fair.experiments.training import running  # noqa: PLC0415

  return running.run(spec, path, progress=progress)


class _Tried(NamedTuple):
  """A setting and its values of the criterion so far, one for each seed.

  Attributes:
    spec: The setting, at the first seed.
    keys: The values as keys to sort by, the best first.
  """

  spec: RunSpec
  keys: tuple[float, ...] = ()

  @property
  def key(self) -> float:
    """The mean of its keys."""
    return float(np.mean(self.keys))


class Found(NamedTuple):
  """The setting that the four stages choose; the others as in `Choice`."""

  spec: RunSpec
  confirmation: pd.DataFrame
  path: pd.DataFrame
  order: pd.DataFrame
  left_out: Mapping[str, str]
  num_runs: int


class _Search:
  """The four stages, and the way that they have come."""

  def __init__(
    self,
    base: RunSpec,
    how: ChoiceSettings,
    folder: pathlib.Path,
    tried: Tries,
  ) -> None:
    self._base = base
    self._how = how
    self._folder = folder
    self._tries = tried
    self._path: list[dict[str, Any]] = []
    self._num_others = 0

  @property
  def num_runs(self) -> int:
    """How many runs were trained."""
    return self._tries.num_runs + self._num_others

  def choose(self, names: Sequence[str]) -> Found:
    """Chooses among FedAvg and the methods of some names."""
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
    room = budget - self.num_runs - 1  # The last is the recommended one.
    number = self._how_many(len(specs), [*map(len, fedavgs)], room)
    fedavgs, pool = self._halve(fedavgs, [*map(_Tried, specs[:number])])
    finalists: dict[str, RunSpec] = {}
    for one in pool:  # Of each method its best setting.
      finalists.setdefault(one.spec.algorithm, one.spec)
    fedavgs.sort(key=lambda tried: tried[0].key)
    return self._confirm(
      [tried[0].spec for tried in fedavgs],
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
      tried += self._measure(
        f"FedAvg {number + 1}", [*map(_Tried, wanted)], self._base.seed
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
    file = self._folder / _BUDGET_FILE
    if not file.exists():
      rate = self.num_runs / seconds
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
    self._num_others += 1
    run = run_once(spec, self._folder / "tape", progress=False)
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
      measured = self._measure(
        f"Rung {rung + 1}", [*of_fedavg, *pool], self._base.seed + rung
      )
      if rung:
        fedavgs = [_of_weighting(measured, tried[0].spec) for tried in fedavgs]
      pool = [t for t in measured if t.spec.algorithm != FEDAVG]
    return fedavgs, pool

  def _measure(
    self, stage: str, tried: Sequence[_Tried], seed: int
  ) -> list[_Tried]:
    """Trains each setting at a further seed; returns them, the best first."""
    results = self._tries.evaluate(
      stage, [t.spec.replace(seed=seed) for t in tried]
    )
    score = tries.score_of(results[0])
    measure = measures.of(score)[self._how.criterion]
    sign = -1 if measure.higher_is_better else 1
    found = [
      _Tried(t.spec, (*t.keys, self._key(clients, score)))
      for t, clients in zip(tried, results, strict=True)
    ]
    found.sort(key=lambda t: t.key)
    self._path += [
      {
        "stage": stage,
        "method": one.spec.title,
        "settings": settings_text(one.spec),
        "seeds": len(one.keys),
        "value": sign * measure.scale * one.key + 0.0,  # Not -0.
        "is_fedavg": one.spec.algorithm == FEDAVG,
      }
      for one in found
    ]
    return found

  def _key(self, clients: pd.DataFrame, score: Score) -> float:
    """Returns the criterion on validation rows as a key to sort by."""
    if not tables.has_validation(clients):
      raise RunError(
        "A choice needs validation rows, and no client has enough training "
        "rows to set some aside; give a larger validation_fraction."
      )
    found = measures.of_clients(tables.on_validation(clients), score)
    criterion = self._how.criterion
    return measures.sort_key(measures.of(score)[criterion], found[criterion])

  def _confirm(
    self,
    fedavgs: Sequence[RunSpec],
    finalists: Sequence[RunSpec],
    order: pd.DataFrame,
    left_out: Mapping[str, str],
  ) -> Found:
    """Compares the finalists with FedAvg on test rows, at fresh seeds."""
    first = self._base.seed + _FIRST_FRESH_SEED
    specs = [
      spec.replace(seed=first + number)
      for number in range(self._how.fresh_seeds)
      for spec in (*fedavgs, *finalists)
    ]
    results = self._tries.evaluate("Confirmation", specs)
    score = tries.score_of(results[0])
    rows = pd.concat(
      clients.assign(
        federation="",
        method=spec.title,
        seed=spec.seed,
        client=clients["client_id"],
        **{f"score_{_CRITERION}": clients[score.name]},
      )
      for spec, clients in zip(specs, results, strict=True)
    )
    confirmation = _differences(rows, score, finalists, self._how.criterion)
    is_fit = confirmation["is_better"]
    if self._how.most_loss is not None:
      is_fit = is_fit & (confirmation["largest_loss"] <= self._how.most_loss)
    better = confirmation[is_fit]
    spec = fedavgs[0]
    if len(better):
      [spec] = [s for s in finalists if s.title == better["method"].iloc[0]]
    return Found(
      spec,
      confirmation,
      pd.DataFrame(self._path),
      order,
      left_out,
      self.num_runs,
    )


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
    _, lower, higher = _rates(best.client_learning_rate)
    further = _further(algorithm)
    changes: list[dict[str, Any]] = [
      {},
      {"client_learning_rate": higher},
      *further[:1],
      {"client_learning_rate": lower},
      *further[1:],
    ]
    try:
      spec = best.with_algorithm(algorithm)
      found[algorithm] = [spec.replace(**one) for one in changes[:most]]
    except FieldError as error:
      left_out[name] = str(error)
  return found, left_out


def _further(algorithm: str) -> list[dict[str, Any]]:
  """Returns the hyperparameters that fair-bench tries, but for the default."""
  if algorithm not in bench.HYPERPARAMETERS:
    return []
  name, values = bench.HYPERPARAMETERS[algorithm]
  default = methods.hyperparameters(algorithm)[name].default
  return [{"hparams": {name: value}} for value in values if value != default]


def _settings(spec: RunSpec) -> dict[str, declared.Value]:
  """Returns what the choice decides of a run."""
  return {
    **{name: getattr(spec, name) for name in _SETTINGS},
    **spec.hparams,
  }


def settings_text(spec: RunSpec) -> str:
  """Returns what tells the settings of one method apart."""
  shown = {n: v for n, v in _settings(spec).items() if n != "client_weighting"}
  return ", ".join(spec_text.assignments(shown))


def _differences(
  rows: pd.DataFrame,
  score: Score,
  finalists: Sequence[RunSpec],
  criterion: str,
) -> pd.DataFrame:
  """Returns a row for each finalist, as `Choice.confirmation` has them."""
  found: dict[str, dict[str, Any]] = {
    spec.title: {"method": spec.title, "settings": settings_text(spec)}
    for spec in finalists
  }
  fedavgs = [name for name in rows["method"].unique() if name not in found]
  for column in dict.fromkeys([criterion, "mean"]):
    fedavg = _better(rows, score, fedavgs, column)
    compared = federations.compare(
      rows[rows["method"].isin([fedavg, *found])],
      fedavg,
      criterion=_CRITERION,
      columns=[column],
    )
    for result in compared:
      row, difference = found[result.method], result.difference
      row[f"{column}_difference"] = difference.estimate
      row[f"{column}_difference_low"] = difference.low
      row[f"{column}_difference_high"] = difference.high
      if column == criterion:
        row["is_better"] = result.verdict == "gain"
        row["baseline"] = fedavg
        row["largest_loss"] = _largest_loss(rows, score, result.method, fedavg)
  return pd.DataFrame([*found.values()]).sort_values(
    f"{criterion}_difference",
    ascending=not measures.of(score)[criterion].higher_is_better,
    ignore_index=True,
  )


def _better(
  rows: pd.DataFrame, score: Score, names: Sequence[str], column: str
) -> str:
  """Returns the method that has more of a measure, over seeds."""
  measure = measures.of(score)[column]

  def key(name: str) -> float:
    of_method = rows[rows["method"] == name]
    return float(
      np.mean(
        [
          measures.sort_key(
            measure, measures.of_clients(clients, score)[column]
          )
          for _, clients in of_method.groupby("seed")
        ]
      )
    )

  return min(names, key=key)


def _largest_loss(
  rows: pd.DataFrame, score: Score, method: str, fedavg: str
) -> float:
  """Returns how much a method's worst-off client loses against FedAvg."""
  means = rows.groupby(["method", "client"])[score.name].mean() * score.scale
  change = means[method] - means[fedavg]
  gain = change if score.higher_is_better else -change
  return float(max(0.0, -gain.min()))
