"""Lets a sweep select settings on validation data if it has few clients.

In a small federation, a part of the clients is too few to compare settings on:
the differences are mostly random. So all runs of the sweep hold out a share of
each client's training data, and settings are selected on these data.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tff_fair.declared import Value
from tff_fair.experiments import progress
from tff_fair.experiments.progress import Say
from tff_fair.experiments.spec import grids, seeds
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.sweeps import plan, processes
from tff_fair.experiments.sweeps.best_settings import MIN_RELIABLE_CLIENTS
from tff_fair.experiments.sweeps.setting_tables import Grid, Range, Setting
from tff_fair.experiments.sweeps.sweep_file import Sweep

_NAME = "validation_fraction"


def with_fraction(
  sweep: Sweep, fraction: float, say: Say = progress.say
) -> Sweep:
  """Returns the sweep; with few clients, it holds out validation data.

  It holds out the share `fraction` of each client's training data, unless the
  sweep itself sets the share.
  """
  method_grids = [method.grid for method in sweep.methods]
  is_given = any(
    _NAME in grid for grid in (sweep.common, sweep.final, *method_grids)
  )
  if not fraction or is_given:
    return sweep
  hparams = plan.hyperparameters(sweep)
  settings = [
    plan.method_grid(sweep, method, hparams[method.algorithm])
    for method in sweep.methods
  ]
  names = [method.name for method in sweep.methods]
  if len(set(names)) == len(names) and not any(map(_is_choice, settings)):
    return sweep
  specs = {
    spec
    for method, grid in zip(sweep.methods, settings, strict=True)
    for values in _problem_settings(grid)
    for spec in [plan.make_run(sweep, method, values).spec]
  }
  number = processes.call(few_clients, sorted(specs, key=repr))
  if number is None:
    return sweep
  say(
    f"{number} clients are too few to choose settings on some of them: all "
    f"runs set {fraction:.0%} of each client's training data aside, and these "
    f"decide (--{_NAME})."
  )
  setting = Setting([fraction], f"--{_NAME}={fraction:g}")
  return dataclasses.replace(sweep, common={**sweep.common, _NAME: setting})


def _is_choice(grid: Grid) -> bool:
  """Returns whether a method has several settings to choose from."""
  return any(
    isinstance(setting.values, Range) or len(setting.values) > 1
    for name, setting in grid.items()
    if not plan.is_problem_setting(name)
  )


def _problem_settings(grid: Grid) -> Iterator[Mapping[str, Value]]:
  """Yields the settings of one run for each task and set of task options."""
  yield from grids.product(
    {
      name: values
      if plan.is_problem_setting(name) and name not in seeds.NAMES
      else values[:1]
      for name, setting in grid.items()
      if not isinstance(values := setting.values, Range)
    }
  )


def few_clients(specs: Sequence[RunSpec]) -> int | None:
  """Returns the number of clients of the first spec with too few, or None."""
  # Imported here, as the program that starts runs does not need TensorFlow.
  from tff_fair.experiments.spec import task_loading  # noqa: PLC0415
  from tff_fair.experiments.training import sampling  # noqa: PLC0415

  for spec in specs:
    try:
      first = sampling.first_rounds(spec, task_loading.load(spec))
      clients = sampling.evaluation_clients(spec, first)
    except Exception:  # The user's code may raise any error.
      continue
    number = sampling.num_participants(first[clients])
    if number < MIN_RELIABLE_CLIENTS:
      return number
  return None
