"""Defines the runs of fair-bench, a benchmark of methods, and trains them.

An item is a combination of a federation, a method and a data seed. Its runs try
up to 8 settings of the method. A run trains on 60 % of each client's rows, and
is evaluated on 20 % for validation and 20 % for testing. When all runs of an
item are done, their results are written to the item's file, so that an
interrupted bench continues with the items that have no file. The runs of an
item share one compiled graph for each value of the method's hyperparameter.
"""

import collections
import dataclasses
import functools
import itertools
import multiprocessing
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
import tqdm

import tasks
from tasks import federations
from tasks.federations import Federation
from tasks.formats import source_files
from tff_fair import declared, methods, user_functions
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import federations as analysis
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import ACCURACY, BY_NAME, RMSE, Score
from tff_fair.experiments.sweeps import processes, sweep_file
from tff_fair.experiments.sweeps.sweep_file import SweptMethod
from tff_fair.files import atomic
from tff_fair.files.parsing import json_text

if TYPE_CHECKING:
  from tff_fair.experiments.training import in_memory

Calibration = Literal["null", "power"]

METHODS = (
  *("fedavg", "fedavg:uniform", "qfedavg", "term"),
  *("fedfv", "fedmdfg", "adafedadam", "ditto"),
)
# All methods except DRFA, which samples its own cohorts, and the methods that
# need groups of people, which the federations do not define.
ALL_METHODS = (
  "fedavg:uniform",
  *(
    name
    for name in methods.names()
    if name != "drfa" and not methods.method(name).needs_groups
  ),
)
# The share of test rows, and the share of validation rows in the other rows.
_TEST_SHARE, _VALIDATION_SHARE = 0.2, 0.25
# Client learning rates by kind of label. Methods in `HYPERPARAMETERS` try every
# second rate with both values of the hyperparameter; other methods try all
# rates.
RATES: Mapping[str, tuple[float, ...]] = {
  "classes": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
  "number": (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1),
}
HYPERPARAMETERS: Mapping[str, tuple[str, tuple[float, float]]] = {
  "fedprox": ("mu", (0.01, 0.1)),
  "fedadam": ("learning_rate", (0.01, 0.1)),
  "qfedavg": ("q", (0.1, 1.0)),
  "afl": ("lambda_learning_rate", (0.01, 0.1)),
  "term": ("t", (0.1, 1.0)),
  "propfair": ("m", (2.0, 5.0)),
  "delta_fl": ("alpha", (0.5, 0.8)),
  "gifair": ("fraction", (0.2, 0.5)),
  "fedfa": ("b", (0.2, 0.5)),
  "ditto": ("lam", (0.1, 1.0)),
  "fedmgda_plus": ("epsilon", (0.1, 0.5)),
  "adafed": ("gamma", (0.5, 1.0)),
  "vred": ("beta", (0.1, 1.0)),
  "semi_vred": ("beta", (0.1, 1.0)),
  "fedfv": ("alpha", (0.1, 0.5)),
  "adafedadam": ("learning_rate", (0.003, 0.01)),
  "mgda_prox": ("epsilon", (0.1, 0.5)),
  "drfl": ("q", (0.1, 1.0)),
  "n_accadam": ("learning_rate", (0.003, 0.01)),
  "fedgini": ("epsilon", (0.2, 0.5)),
}
# Methods whose step length does not depend on the length of client updates. The
# bench tunes their server learning rate instead of the client rate. The steps
# of Nash-MTL are the square root of the number of clients times as long.
_UNIT_RATES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
SERVER_RATES: Mapping[str, tuple[float, ...]] = {
  **dict.fromkeys(("fedavg_n", "fedmgda_plus", "mgda_prox"), _UNIT_RATES),
  "nash_mtl": (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
}
# Methods whose steps can be much shorter than client updates. The bench tunes
# their client and server learning rates, but not AdaFed's gamma.
SHORT_STEPS = ("adafed", "aligned_mtl")
# The server rates of `SHORT_STEPS` by kind of label: high where client rates
# are low.
_LONG_RATES = {"classes": (1.0, 10.0), "number": (10.0, 1000.0)}
# Columns of an item's file: the number of the setting, and the client's name.
SETTING, CLIENT = "setting", "client"
# Which of a method's eight settings to try if fewer: different rates, with both
# values of a hyperparameter.
_TRIED = {1: (4,), 2: (2, 5), 4: (1, 2, 5, 6), 8: range(8)}
# The step between the seeds of runs with the same data; larger than any data
# seed.
_MODEL_SEED_STEP = 100_000


def with_both_fedavgs(names: Sequence[str]) -> tuple[str, ...]:
  """Returns the methods, and before them each FedAvg that they lack."""
  return (*(name for name in METHODS[:2] if name not in names), *names)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
  """The settings of a bench, which determine its tables and items."""

  folder: pathlib.Path  # Contains the files of the bench.
  data_dir: pathlib.Path  # Contains the prepared tables.
  federations: tuple[str, ...] = federations.SMALL
  algorithms: tuple[str, ...] = METHODS
  seeds: tuple[int, ...] = (0, 1, 2)  # The data seeds.
  rounds: int = 30
  tries: int = 8  # The number of settings of each method: 1, 2, 4 or 8.
  model_seeds: int = 1  # How many model seeds train a selected setting.
  model: str = "linear"  # A model of the task `table`.
  # "null" shuffles rows among clients; "power" also inverts the labels of some
  # clients.
  calibration: Calibration | None = None
  copies: int = 1  # The number of random tables per federation, if calibrating.
  share: float = 0.2  # The share of clients whose labels are inverted.

  def __post_init__(self) -> None:
    declared.check_number(
      "share", self.share, minimum=0, exclude_minimum=True, maximum=1
    )
    if not self.federations:
      raise FieldError("federations", "is empty; name one, or all.")

  @property
  def swept_methods(self) -> tuple[SweptMethod, ...]:
    """The methods that `algorithms` names, with their client weightings."""
    return sweep_file.from_methods(self.algorithms, "algorithms").methods

  def tables(self) -> Iterator["Table"]:
    """Yields the table of each federation, or each table of a calibration."""
    for name in self.federations:
      for draw in range(self.copies if self.calibration else 1):
        yield Table(self, name, draw)

  def items(self) -> list["Item"]:
    """Returns all items, ordered by federation."""
    return [
      Item(table, seed, method)
      for table in self.tables()
      for seed in self.seeds
      for method in table.methods
    ]

  def record(self, *, dry: bool = False) -> None:
    """Records the settings, or only checks that no others are on record.

    Raises:
      RunError: If results of other settings are in the folder.
    """
    found = {
      "rounds": self.rounds,
      "tries": self.tries,
      "model_seeds": self.model_seeds,
      "model": self.model,
      "calibration": self.calibration,
      "share": self.share if self.calibration == "power" else None,
    }
    uses = collections.Counter(item.path for item in self.items())
    if twice := [path for path, number in uses.items() if number > 1]:
      raise RunError(
        f"{min(twice)}: would hold the results of two methods or federations; "
        "name each once, and give your own another name."
      )
    path = self.folder / "protocol.json"
    before = discovery.read_json_object(path) if path.exists() else found
    for name, value in found.items():
      if before.get(name) != value:
        raise RunError(
          f"{self.folder}: holds a bench with {name}={before.get(name)} "
          f"(here {value}); choose another folder."
        )
    versions = dict(before.get("versions", {}))
    for place, source, version in self._sources():
      if versions.setdefault(place, version) != version:
        raise RunError(
          f"{self.folder}: holds a bench with another version of {source}; "
          "put that version back, or choose another folder."
        )
    if not dry:
      self.folder.mkdir(parents=True, exist_ok=True)
      atomic.write(path, json_text({**found, "versions": versions}))

  def _sources(self) -> Iterator[tuple[str, object, object]]:
    """Yields the sources of results: tables, settings, users' definitions.

    Each source is yielded as a place in the folder, a name, and a version, such
    as a digest.
    """
    tables = [*dataclasses.replace(self, calibration=None).tables()]
    for table in tables:
      path = table.prepared_path()
      (digest,) = source_files.digests([path]).values()
      yield f"{table.short_name}/", path, digest
    for kind, table in {table.kind: table for table in tables}.items():
      for method in table.methods:
        tried = settings(method, table.spec(), self.tries)
        place = f"{kind}/{_folder_name(method)}"
        yield place, f"the settings of {method.name}", [*map(describe, tried)]
    for name in filter(user_functions.is_name, self.federations):
      federation = federations.get(name)
      options = federation.task_options(pathlib.Path())
      yield (
        user_functions.short_name(name),
        name,
        [federation.score, *(f"{k}={options[k]}" for k in sorted(options))],
      )
    for method in self.swept_methods:
      name = method.algorithm
      if user_functions.is_name(name):
        yield (
          f"*/{_folder_name(method)}",
          name,
          f"{user_functions.short_name(name)} {user_functions.digest(name)}",
        )


def _folder_name(method: SweptMethod) -> str:
  return re.sub(r"\W+", "_", method.name).strip("_").lower()


@dataclasses.dataclass(frozen=True)
class Table:
  """A federation's data table, original or randomized for a calibration."""

  bench: Bench
  federation: str
  draw: int = 0

  @property
  def short_name(self) -> str:
    """The federation's name, without the file that defines it, if any."""
    return self.federation.rpartition(":")[2]

  @property
  def name(self) -> str:
    """The short name; if calibrating, also the calibration and the draw."""
    if self.bench.calibration is None:
      return self.short_name
    return f"{self.short_name}-{self.bench.calibration}-{self.draw}"

  @property
  def kind(self) -> str:
    """The kind of the label: "classes" or "number"."""
    return federations.get(self.federation).kind

  @property
  def methods(self) -> list[SweptMethod]:
    """The bench's methods, except those that lack accuracies for this label."""
    return [
      method
      for method in self.bench.swept_methods
      if self.kind == "classes"
      or not methods.method(method.algorithm).needs_accuracy
    ]

  @property
  def score(self) -> Score:
    """The score by which clients are compared."""
    usual = ACCURACY if self.kind == "classes" else RMSE
    return BY_NAME[federations.get(self.federation).score or usual.name]

  def prepared_path(self) -> pathlib.Path:
    """Returns the path of the federation's prepared table, which must exist."""
    prepared = self.bench.data_dir / f"{self.short_name}.csv"
    if not prepared.exists():
      files = federations.get(self.federation).files
      raise FieldError(
        "federations",
        f"{prepared} is missing; write it with tff-fair-prepare-data "
        f"--federation={self.federation} --data_dir={self.bench.data_dir}"
        f"{' --source=PATH' if files else ''}.",
        value=self.federation,
      )
    return prepared

  def path(self) -> pathlib.Path:
    """Returns the table's file; writes a calibration's file if missing."""
    prepared = self.prepared_path()
    if self.bench.calibration is None:
      return prepared
    path = self.bench.folder / "tables" / f"{self.name}.csv"
    if not path.exists():
      frame = pd.read_csv(prepared)
      federation = federations.get(self.federation)
      rng = np.random.default_rng((len(self.short_name), self.draw))
      if self.bench.calibration == "null":
        frame = shuffle_clients(frame, federation, rng)
      else:
        frame = invert_labels(frame, federation, self.bench.share, rng)
      path.parent.mkdir(parents=True, exist_ok=True)
      atomic.write(path, frame.to_csv(index=False, lineterminator="\n"))
    return path

  def spec(self) -> RunSpec:
    """Returns the settings that the runs of all methods share."""
    federation = federations.get(self.federation)
    rounds = self.bench.rounds
    return RunSpec(
      task="table",
      task_options={
        **federation.task_options(self.path().resolve()),
        "model": self.bench.model,
        "test_fraction": _TEST_SHARE,
      },
      score=federation.score,
      sampling="all",
      total_rounds=rounds,
      rounds_per_evaluation=rounds,
      rounds_per_checkpoint=rounds,
      batch_size=64,
      validation_fraction=_VALIDATION_SHARE,
    )


def shuffle_clients(
  frame: pd.DataFrame, federation: Federation, rng: np.random.Generator
) -> pd.DataFrame:
  """Assigns the rows of a table to clients at random; keeps clients' sizes."""
  client = rng.permutation(frame[federation.client].to_numpy())
  return frame.assign(**{federation.client: client})


def invert_labels(
  frame: pd.DataFrame,
  federation: Federation,
  share: float,
  rng: np.random.Generator,
) -> pd.DataFrame:
  """Shuffles rows among clients, and inverts the labels of a share of clients.

  Each class becomes the next one, and the last class becomes the first; numbers
  are mirrored at their mean.
  """
  frame = shuffle_clients(frame, federation, rng)
  clients = frame[federation.client].astype(str)
  names = np.unique(clients)
  number = max(1, round(share * len(names)))
  chosen = clients.isin(rng.permutation(names)[:number])
  label = frame[federation.label]
  if federation.kind == "number":
    other = 2 * label.mean() - label
  else:
    classes = np.unique(label)
    places = np.searchsorted(classes, label)
    other = pd.Series(classes[(places + 1) % len(classes)], frame.index)
  return frame.assign(**{federation.label: label.where(~chosen, other)})


@dataclasses.dataclass(frozen=True)
class Item:
  """The runs of a method on a federation's table, with one data seed."""

  table: Table
  seed: int
  method: SweptMethod

  @property
  def path(self) -> pathlib.Path:
    """The file with the item's results."""
    folder = self.table.bench.folder / self.table.name
    return folder / _folder_name(self.method) / f"seed-{self.seed}.csv"

  @property
  def is_done(self) -> bool:
    """Whether the item's file exists, so that its runs need not train."""
    return self.path.exists()


def settings(
  method: SweptMethod, spec: RunSpec, tries: int = 8
) -> list[RunSpec]:
  """Returns `tries` of a method's eight settings."""
  kind = str(spec.task_options["kind"])
  rates = RATES[kind]
  tuned: dict[str, list[float]] = {}
  rate, varied = "client_learning_rate", rates
  if method.algorithm in SERVER_RATES:
    tuned["client_learning_rate"] = [rates[len(rates) // 2]]
    rate, varied = "server_learning_rate", SERVER_RATES[method.algorithm]
  if method.algorithm in SHORT_STEPS:
    varied, tuned["server_learning_rate"] = rates[1::2], [*_LONG_RATES[kind]]
  elif method.algorithm in HYPERPARAMETERS:
    name, values = HYPERPARAMETERS[method.algorithm]
    varied, tuned[f"hparam.{name}"] = varied[1::2], [*values]
  found = spec.vary(
    algorithm=method.algorithm,
    **{name: setting.values for name, setting in method.grid.items()},
    **{rate: [*varied]},
    **tuned,
  )
  return [found[k] for k in _TRIED[tries]]


def seeded(spec: RunSpec, model_seed: int) -> RunSpec:
  """Returns `spec` with the same data, but with the seed for `model_seed`."""
  seed = spec.seed + _MODEL_SEED_STEP * model_seed
  return spec.replace(seed=seed, data_seed=spec.seed)


def evaluate_settings(
  table: Table, train: Callable[[Sequence[int], int], pd.DataFrame]
) -> pd.DataFrame:
  """Trains all settings with model seed 0, and the best with further seeds.

  `train` takes the settings' indices and a model seed, and returns a row for
  each setting and client; the result concatenates these rows.
  """
  found = [train(range(table.bench.tries), 0)]
  selected = sorted(
    {analysis.choose(found[0], table.score, c) for c in analysis.CRITERIA}
  )
  for model_seed in range(1, table.bench.model_seeds):
    found.append(train(selected, model_seed))
  return pd.concat(
    rows.assign(**{analysis.MODEL_SEED: k}) for k, rows in enumerate(found)
  )


def describe(spec: RunSpec) -> str:
  """Returns the settings that a method tunes, such as "rate 0.1, q 1"."""
  own = HYPERPARAMETERS.get(spec.algorithm, ("", ()))[0]
  if spec.algorithm == "adafed":
    own = ""  # The bench tunes both rates instead of gamma.
  found = f"rate {spec.client_learning_rate:g}"
  if spec.server_learning_rate is not None:
    found += f", server rate {spec.server_learning_rate:g}"
  return f"{found}, {own} {spec.all_hparams[own]:g}" if own else found


def run(bench: Bench, jobs: int = 1, *, progress: bool = True) -> None:
  """Trains the bench's missing items, and shows progress and remaining time.

  The methods are divided among `jobs` processes. If a process fails, the others
  finish; then `run` raises `RunError`.
  """
  bench.record()
  for table in bench.tables():
    table.path()  # Writes tables of a calibration before processes read them.
  items = bench.items()
  with tqdm.tqdm(
    total=len(items),
    initial=sum(item.is_done for item in items),
    unit="item",
    dynamic_ncols=True,
    disable=None if progress else True,
  ) as bar:
    if jobs == 1:
      _run_share(bench, 0, 1, bar.update)
      return
    _run_in_processes(bench, jobs, items, bar)


def _run_in_processes(
  bench: Bench, jobs: int, items: Sequence[Item], bar: "tqdm.tqdm[None]"
) -> None:
  context = multiprocessing.get_context("spawn")
  started = [
    context.Process(target=_run_in_child, args=(bench, k, jobs), daemon=True)
    for k in range(jobs)
  ]
  with processes.hide_main_module(), processes.export_module_paths():
    for process in started:
      process.start()
  try:
    while any(process.is_alive() for process in started):
      time.sleep(1.0)
      bar.update(sum(item.is_done for item in items) - bar.n)
  finally:
    for process in started:
      process.terminate()
      process.join()
  bar.update(sum(item.is_done for item in items) - bar.n)
  left = sum(not item.is_done for item in items)
  if left:
    was_killed = any((process.exitcode or 0) < 0 for process in started)
    raise RunError(
      f"{bench.folder}: {left} of {len(items)} items failed, "
      f"{'since a process was killed' if was_killed else 'see above'}; the "
      "same command tries them again."
    )


def _run_in_child(bench: Bench, share: int, num_shares: int) -> None:
  # Exiting at any time is safe, since items are written as whole files.
  processes.on_parent_exit(functools.partial(os._exit, 1))
  try:
    _run_share(bench, share, num_shares)
  except (FieldError, RunError, tasks.DataError) as error:
    sys.exit(f"{bench.folder}: {error}")


def _run_share(
  bench: Bench,
  share: int,
  num_shares: int,
  on_done: Callable[[], object] = lambda: None,
) -> None:
  """Trains the missing items of `bench.swept_methods[share::num_shares]`."""
  # Imported here, as it imports TensorFlow.
  from tff_fair.experiments.training import in_memory  # noqa: PLC0415

  mine = {method.name for method in bench.swept_methods[share::num_shares]}
  left = [
    item
    for item in bench.items()
    if item.method.name in mine and not item.is_done
  ]
  for _, of_federation in itertools.groupby(
    left, key=lambda item: item.table.federation
  ):
    # One cache per federation: all its seeds and draws have the same graphs.
    cache = in_memory.ProgramCache()
    for (table, seed), items in itertools.groupby(
      of_federation, key=lambda item: (item.table, item.seed)
    ):
      trainer = _Trainer(table.spec().replace(seed=seed), cache)
      for item in items:
        tried = settings(item.method, trainer.shared, bench.tries)
        rows = evaluate_settings(table, functools.partial(trainer.train, tried))
        item.path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(item.path, rows.to_csv(index=False, lineterminator="\n"))
        on_done()


class _Trainer:
  """Trains settings of methods; `shared` determines the table and data seed."""

  def __init__(self, shared: RunSpec, cache: "in_memory.ProgramCache") -> None:
    self.shared = shared
    self._cache = cache
    self._tasks = {0: task_loading.load(seeded(shared, 0))}

  def train(
    self, tried: Sequence[RunSpec], numbers: Sequence[int], model_seed: int
  ) -> pd.DataFrame:
    """Trains the settings `tried[k]` for each index k in `numbers`.

    Returns a row of results for each setting and client.
    """
    from tff_fair.experiments.training import in_memory  # noqa: PLC0415

    task, rows = self._task(model_seed), []
    for k in numbers:
      spec = seeded(tried[k], model_seed)
      found = in_memory.train_and_evaluate(spec, task, self._cache)
      names = [task.client_names[i] for i in found.clients["client_id"]]
      rows.append(pd.DataFrame({SETTING: k, CLIENT: names, **found.clients}))
    return pd.concat(rows)

  def _task(self, model_seed: int) -> tasks.Task:
    """Returns the task, cached, with the initial weights of a model seed."""
    if model_seed not in self._tasks:
      other = task_loading.load(seeded(self.shared, model_seed))
      self._tasks[model_seed] = dataclasses.replace(
        self._tasks[0], keras_model_fn=other.keras_model_fn
      )
    return self._tasks[model_seed]


def results(bench: Bench) -> Iterator[tuple[Item, pd.DataFrame]]:
  """Yields each item whose file exists, and the rows of that file."""
  for item in bench.items():
    if item.is_done:
      yield item, read_results(item)


def read_results(item: Item) -> pd.DataFrame:
  """Returns the rows of an item's file; raises `RunError` if it lacks rows."""
  try:
    # Clients' names are strings, even if they look like numbers or are NA.
    rows = pd.read_csv(item.path, converters={CLIENT: str})
    problem = _problem(item, rows)
  except (OSError, ValueError) as error:
    problem = f"cannot be read: {' '.join(str(error).split())[:100]}"
  if problem:
    raise RunError(
      f"{item.path}: {problem}; remove it, and repeat the command."
    )
  return rows


def _problem(item: Item, rows: pd.DataFrame) -> str:
  """Returns what is wrong with an item's rows, or an empty string."""
  score = item.table.score.name
  keys = [SETTING, analysis.MODEL_SEED, CLIENT]
  needed = (*keys, "num_examples", score, f"validation_{score}")
  if lacking := [name for name in needed if name not in rows]:
    return f"lacks {', '.join(lacking)}"
  bench = item.table.bench
  runs = rows.groupby(keys[:2])[CLIENT].agg(frozenset)
  seeds = [seed for _, seed in runs.index]
  if (
    seeds.count(0) != bench.tries
    or {*seeds} != {*range(bench.model_seeds)}
    or runs.nunique() != 1
    or rows[keys].duplicated().any()
  ):
    return "lacks rows, or has some twice"
  return ""
