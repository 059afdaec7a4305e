"""The runs of a sweep: every combination of its settings, checked.

A run's folder is named after its method and the settings that are not the same
for all, so that the same sweep finds its runs again; whether they are the same
is checked with what the folders hold.
"""

import collections
import dataclasses
import hashlib
import itertools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from binaries import command_line, train
from binaries.flags import algorithm_flags, task_flags
from tff_fair.experiments.comparing import groups as run_groups
from tff_fair.experiments.errors import RunError as UsageError
from tff_fair.experiments.runs import run as runs
from tff_fair.experiments.runs.folder import FREE_FLAGS, RunFolder
from tff_fair.experiments.sweeps import file as sweep_file

_LONGEST_NAME = 150


@dataclasses.dataclass(frozen=True)
class PlannedRun:
  """A run of a sweep.

  Attributes:
    name: Name of its folder.
    method: What its method is called.
    arguments: Its command line, without --output_dir.
    flags: All flags that decide its results; None where none is given.
    task_options: The options of the task that are given.
    hparams: All hyperparameters.
  """

  name: str
  method: str
  arguments: tuple[str, ...]
  flags: Mapping[str, Any]
  task_options: Mapping[str, str]
  hparams: Mapping[str, Any]


def expand(sweep: sweep_file.Sweep) -> list[PlannedRun]:
  """Returns the runs of a sweep: seed by seed, the methods in their order.

  Imports TensorFlow Federated, and leaves the flags of training with other
  values.

  Raises:
    UsageError: If a value is not valid, or two runs are the same.
  """
  import tff_fair  # noqa: PLC0415

  hparams: dict[str, Mapping[str, Any]] = {}
  for method in sweep.methods:
    valid = tff_fair.algorithms.names()
    if method.algorithm not in valid:
      raise UsageError(
        f"{method.place}: unknown algorithm {method.algorithm!r}; valid: "
        f"{', '.join(valid)}."
      )
    hparams[method.algorithm] = tff_fair.algorithms.get(
      method.algorithm
    ).hparams
  _check_common_hparams(sweep, hparams)
  planned: dict[str, tuple[sweep_file.Method, PlannedRun]] = {}
  for method in sweep.methods:
    for run in _runs_of(sweep, method, hparams[method.algorithm]):
      key = json.dumps([run.flags, run.task_options, run.hparams], default=str)
      if key in planned:
        other, first = planned[key]
        if run.method == first.method and any(
          method.grid.get(name) != other.grid.get(name) for name in sweep.final
        ):
          # They differed, until the command line replaced a setting of both.
          continue
        raise UsageError(
          f"{method.place}: {run.name} is the same run as {first.name} of "
          f"{other.place}; leave one of them out."
        )
      planned[key] = method, run
  # A hyperparameter and an option of the task may have the same name.
  counts = collections.Counter(run.name for _, run in planned.values())
  named = [
    dataclasses.replace(run, name=f"{run.name}-{_digest(key)}")
    if counts[run.name] > 1
    else run
    for key, (_, run) in planned.items()
  ]
  return sorted(named, key=lambda run: run.flags["seed"])


def state(run: PlannedRun, folder: pathlib.Path) -> str:
  """Returns "finished", "interrupted" or "new".

  Args:
    run: A run.
    folder: The folder of it.

  Raises:
    UsageError: If the folder holds another run, or cannot be read.
  """
  files = RunFolder(folder)
  if not files.config.exists() or not files.config.stat().st_size:
    files.check_free()
    return "new"
  saved = runs.read(folder)
  for name, before, now in _differences(saved, run):
    raise UsageError(
      f"--output_dir: {folder} holds a run with {name}={before} (here {now}); "
      "choose another folder for the sweep, or move that run away."
    )
  return "finished" if saved.is_finished else "interrupted"


def _check_common_hparams(
  sweep: sweep_file.Sweep, hparams: Mapping[str, Mapping[str, Any]]
) -> None:
  """Checks that hyperparameters for all methods are of one at least."""
  known = {
    f"{runs.HPARAM}{name}" for names in hparams.values() for name in names
  }
  for place, grid in ((sweep.place, sweep.common), ("--grid", sweep.final)):
    for name in grid:
      if name.startswith(runs.HPARAM) and name not in known:
        raise UsageError(
          f"{place}: {name} is no hyperparameter of {', '.join(hparams)}."
        )


def _runs_of(
  sweep: sweep_file.Sweep,
  method: sweep_file.Method,
  hparams: Mapping[str, Any],
) -> Iterator[PlannedRun]:
  def own(grid: sweep_file.Grid) -> dict[str, Sequence[str]]:
    # What is said for all is for those methods that have it.
    return {
      name: values
      for name, values in grid.items()
      if not name.startswith(runs.HPARAM)
      or name.removeprefix(runs.HPARAM) in hparams
    }

  grid = {**own(sweep.common), **method.grid, **own(sweep.final)}
  grid = dict(sorted(grid.items(), key=lambda item: _place(item[0])))
  # What is the same for all runs of the sweep says nothing in a name.
  named = [n for n in grid if n in method.grid or n in sweep.varying]
  for values in itertools.product(*grid.values()):
    settings = dict(zip(grid, values, strict=True))
    arguments = [f"--algorithm={method.algorithm}"]
    arguments += [_argument(name, text) for name, text in settings.items()]
    words = [method.algorithm]
    words += [f"{run_groups.short_name(n)}={settings[n]}" for n in named]
    words += [f"seed={settings.get('seed', 0)}"] if "seed" not in named else []
    yield _checked(method, "-".join(words), arguments)


def _checked(
  method: sweep_file.Method, name: str, arguments: Sequence[str]
) -> PlannedRun:
  """Parses a run's command line, as the run itself will."""
  import tasks  # noqa: PLC0415

  flags.FLAGS.unparse_flags()
  try:
    flags.FLAGS(["train", *arguments])
    hparams = algorithm_flags.hparams()
    algorithm_flags.aggregation()
    if task_flags.name() not in tasks.names():
      raise UsageError(
        f"--task={task_flags.name()}: unknown task; valid: "
        f"{', '.join(tasks.names())}."
      )
    values = command_line.flag_values(train.GROUPS)
    tasks.parse_options(task_flags.name(), values["task_option"])
  except (UsageError, flags.Error, ValueError) as error:
    raise UsageError(f"{method.place}: {error}") from error
  return PlannedRun(
    name=_file_name(name),
    method=method.name,
    arguments=tuple(arguments),
    flags={
      name: value
      for name, value in values.items()
      if name not in (*FREE_FLAGS, "task_option")
    },
    task_options=_options(values["task_option"]),
    hparams=hparams,
  )


def _differences(
  saved: runs.Run, run: PlannedRun
) -> Iterator[tuple[str, Any, Any]]:
  before = saved.flags
  given = re.findall(
    r"--(\w+)", saved.config.get("command", {}).get("line", "")
  )
  for name, value in run.flags.items():
    # A flag that is not given may have been saved as what it came to.
    came_to = value is None and name not in given
    if before[name] != value and not came_to:
      yield f"--{name}", before[name], value
  for kind, old, new in (
    ("task_option", saved.task_options, run.task_options),
    ("hparam", saved.config.get("hparams", {}), run.hparams),
  ):
    for name in {**old, **new}:
      if old.get(name) != new.get(name):
        yield f"--{kind}={name}", old.get(name), new.get(name)


def _options(texts: Sequence[str]) -> dict[str, str]:
  pairs = (text.partition("=") for text in texts)
  return {name: value for name, _, value in pairs}


def _place(name: str) -> tuple[bool, bool, bool]:
  """Hyperparameters come first, then options and flags; the seed is last."""
  return (
    name == "seed",
    not name.startswith(runs.HPARAM),
    not name.startswith(runs.TASK_OPTION),
  )


def _argument(name: str, text: str) -> str:
  for prefix in (runs.HPARAM, runs.TASK_OPTION):
    if name.startswith(prefix):
      return f"--{prefix[:-1]}={name.removeprefix(prefix)}={text}"
  return f"--{name}={text}"


def _file_name(text: str) -> str:
  name = re.sub(r"[^A-Za-z0-9._=+-]+", "_", text)
  if name == text and len(name) <= _LONGEST_NAME:
    return name
  # Otherwise it would hang on what else is in the sweep whether it is unique.
  return f"{name[:_LONGEST_NAME]}-{_digest(text)}"


def _digest(text: str) -> str:
  return hashlib.sha256(text.encode()).hexdigest()[:8]
