"""Studies: each method of a sweep is searched by itself, on each task.

Other data is another question, not another answer: for every combination of
values of a task and its options there is a study. A seed is no setting to
search either: each trial trains all seeds, and has their mean.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tff_fair import declared, methods
from tff_fair.declared import Value
from tff_fair.experiments import grids, seeds, spec_text
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.searching import space as spaces
from tff_fair.experiments.searching.space import Dimension, Space
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.sweeps import names, plan
from tff_fair.experiments.sweeps.file import Method, Sweep
from tff_fair.experiments.sweeps.plan import PlannedRun
from tff_fair.experiments.sweeps.ranges import Range
from tff_fair.experiments.sweeps.setting_tables import WORKERS

# These make another question of a run, or decide none of its results.
_NOT_SEARCHED = ("task", "data_dir", WORKERS, *seeds.NAMES)


@dataclasses.dataclass(frozen=True)
class Study:
  """The search for the settings of a method on a task.

  Attributes:
    name: Tells it from the other studies of a search.
    sweep: The sweep that it is of.
    method: The method.
    fixed: The settings that stay, by flat names.
    seeds: The seeds of each run of a trial, by name.
    space: The settings to search; not empty.
  """

  name: str
  sweep: Sweep
  method: Method
  fixed: Mapping[str, Value]
  seeds: tuple[Mapping[str, Value], ...]
  space: Space

  def runs(self, settings: Mapping[str, str]) -> list[PlannedRun]:
    """Returns the runs of a trial, one for each of the seeds.

    Args:
      settings: The texts of the settings of the space.

    Raises:
      RunError: If a value is not valid.
    """
    given = {**self.fixed, **settings}
    return [
      plan.run_of(
        self.sweep,
        self.method,
        # In the order in which a sweep would name them.
        {n: {**given, **own}[n] for n in names.ordered([*given, *own])},
      )
      for own in self.seeds
    ]


def of_sweep(sweep: Sweep) -> list[Study]:
  """Returns the studies of a sweep.

  Raises:
    RunError: If a value is not valid, or a method has nothing to search.
  """
  hparams = plan.hyperparameters(sweep)
  studies: dict[str, Study] = {}
  for method in sweep.methods:
    for study in _of_method(sweep, method, hparams[method.algorithm]):
      if study.name in studies:
        raise RunError(
          f"{method.place}: is searched as {studies[study.name].method.place} "
          "is; leave one of them out."
        )
      studies[study.name] = study
      _check(study)
  return list(studies.values())


def _of_method(
  sweep: Sweep, method: Method, hparams: Mapping[str, object]
) -> Iterator[Study]:
  questions: dict[str, Sequence[Value]] = {}
  of_runs: dict[str, Sequence[Value]] = {"seed": [0]}
  space: dict[str, Dimension] = {}
  for name, values in plan.grid_of(sweep, method, hparams).items():
    is_question = name in _NOT_SEARCHED or name.startswith(
      spec_text.TASK_OPTION
    )
    if isinstance(values, Range):
      if is_question:
        raise RunError(
          f"{method.place}: {name}={values}: decides what to search on; give "
          "its values in a grid."
        )
      space[name] = spaces.of_range(
        method.place, name, values, _annotation(method.algorithm, name)
      )
    elif name in seeds.NAMES:
      of_runs[name] = values
    elif is_question or len(values) == 1:
      questions[name] = values
    else:
      space[name] = Dimension(tuple(map(declared.as_text, values)))
  if not space:
    raise RunError(
      f"{method.place}: {method.name} has nothing to search; give a range, as "
      "--range=client_learning_rate=0.001:1:log, or a grid of values."
    )
  told = {n for n in questions if n in method.grid or n in sweep.varying}
  for fixed in grids.product(questions):
    own = {name: fixed[name] for name in names.ordered(told)}
    name = names.of_settings(method.algorithm, own)
    yield Study(
      name, sweep, method, fixed, tuple(grids.product(of_runs)), space
    )


def _annotation(algorithm: str, name: str) -> object:
  if name.startswith(spec_text.HPARAM):
    of_method = methods.hyperparameters(algorithm)
    return of_method[name.removeprefix(spec_text.HPARAM)].annotation
  return RunSpec.fields()[name].annotation


def _check(study: Study) -> None:
  """Tries each choice and each bound, so that mistakes show at once."""
  first = {name: d.examples[0] for name, d in study.space.items()}
  for name, dimension in study.space.items():
    for text in dimension.examples:
      try:
        study.runs({**first, name: text})
      except RunError:
        raise
      except ValueError as error:
        raise RunError(
          f"{study.method.place}: {name}={text}: {error}."
        ) from error
