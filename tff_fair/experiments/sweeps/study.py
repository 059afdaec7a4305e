"""Defines the settings of a search, and divides a sweep into studies.

The settings of each method of a sweep are searched separately on each task,
since results on different data cannot be compared. So there is a study for
every combination of a method, a task and values of the task's options. Seeds
are not searched: each trial trains all seeds, and its value is their mean.
"""

import dataclasses
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self

from tff_fair import declared, methods
from tff_fair.declared import FieldError, Value
from tff_fair.experiments import startup
from tff_fair.experiments.analysis import measures
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.spec import grids, seeds, spec_text
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.sweeps import plan
from tff_fair.experiments.sweeps.plan import PlannedRun
from tff_fair.experiments.sweeps.setting_tables import Range
from tff_fair.experiments.sweeps.sweep_file import Sweep, SweptMethod

Sampler = Literal["tpe", "random", "qmc", "grid"]
Pruner = Literal["none", "median", "hyperband"]
Direction = Literal["minimize", "maximize"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings:
  """The settings of a search."""

  trials: int = declared.required(
    "Number of settings to try for each method, from --range and --grid. A "
    "trial trains all seeds.",
    expects="a positive integer",
    minimum=1,
  )
  sampler: Sampler = declared.value(
    "tpe",
    "How to suggest settings. tpe, a tree-structured Parzen estimator, the "
    "default: learn from earlier trials; random: draw each setting "
    "independently; qmc: spread trials evenly (quasi-Monte Carlo, scrambled "
    "Sobol); grid: take every combination of a grid once, in random order.",
  )
  sampler_seed: int = declared.value(
    0,
    "Seed of the sampler, by default 0.",
    expects="a non-negative integer",
    minimum=0,
  )
  objective: str = declared.value(
    "mean",
    "The measure to improve, one of those of --criterion and by default the "
    "same; several, such as mean,worst_10, search the Pareto set.",
  )
  pruner: Pruner = declared.value(
    "none",
    "How to end runs early, after one of their evaluations. none, the default: "
    "let every run finish; median: from the sixth trial on, end a run that is "
    "worse than the median of the earlier trials after as many rounds; "
    "hyperband: successive halving in brackets.",
  )
  validation_fraction: float = declared.value(
    0.2,
    "Share of the data to choose settings on; results are on the other data. "
    "With fewer than 50 clients, it is a share of each client's training data, "
    "which all runs set aside (--flag=validation_fraction=0.2 does so for any "
    "number of clients); otherwise a share of the clients, on whose test data "
    "the sweep chooses. 0 chooses on the test data of all clients, on which "
    "results then look better than they are.",
    expects="a number in [0, 1), where 0 is the test data of all clients",
    minimum=0,
    maximum=1,
    exclude_maximum=True,
  )

  def __post_init__(self) -> None:
    for name, field in declared.fields_of(type(self)).items():
      field.check(getattr(self, name))
    for name in self.objectives:
      measures.check(name, "objective")
    if len(set(self.objectives)) < len(self.objectives):
      raise FieldError(
        "objective", "names a measure twice.", value=self.objective
      )
    if len(self.objectives) > 1 and self.pruner != "none":
      raise FieldError(
        "pruner",
        "needs one objective: with several, no run is plainly the worse one; "
        "leave it out.",
        value=self.pruner,
      )

  @property
  def objectives(self) -> tuple[str, ...]:
    """The names of the measures to improve."""
    return tuple(self.objective.split(","))

  def directions(self, score: Score) -> list[Direction]:
    """Returns Optuna's direction of each objective."""
    return [
      "maximize"
      if measures.find(name, score, "the search", "objective").higher_is_better
      else "minimize"
      for name in self.objectives
    ]

  @classmethod
  def from_dict(cls, place: str, values: Mapping[str, Any]) -> Self:
    """Returns the settings in the table [search] of a file or record."""
    valid = declared.fields_of(cls)
    for name in values:
      if name not in valid:
        raise FieldError(
          "search", f"{place}: unknown {name!r}; valid: {', '.join(valid)}."
        )
    objective = values.get("objective")
    if isinstance(objective, list):
      values = {**values, "objective": ",".join(map(str, objective))}
    return cls(**values)


def check_installed() -> None:
  """Raises a `FieldError` for `trials` unless Optuna is installed."""
  startup.check_installed("optuna", "search", "trials", who="a search ")


# A value that Optuna suggests: a number from a range, or the text of a choice.
SuggestedValue = str | int | float
# Enough digits to distinguish settings, and few enough for short folder names.
_DIGITS = 4


@dataclasses.dataclass(frozen=True)
class Dimension:
  """A setting that a search varies: either its choices or its range."""

  choices: tuple[str, ...] = ()
  range: Range | None = None
  is_integer: bool = False

  def text(self, value: SuggestedValue) -> str:
    """Returns a value as text; a number from a range is rounded."""
    if self.range is None or self.is_integer:
      return str(value)
    number = float(value)
    # Multiples of a step have few digits, except for rounding errors.
    text = f"{number:.{10 if self.range.step else _DIGITS}g}"
    is_within = self.range.low <= float(text) <= self.range.high
    return text if is_within else repr(number)

  def value(self, text: str) -> SuggestedValue:
    """Returns the value that `text` stands for."""
    if self.range is None:
      return text
    return int(text) if self.is_integer else float(text)

  def contains(self, text: str) -> bool:
    """Returns whether `text` is one of the dimension's values."""
    if self.range is None:
      return text in self.choices
    return self.range.low <= float(self.value(text)) <= self.range.high

  @property
  def examples(self) -> tuple[str, ...]:
    """All choices, or the first and last number of the range, as text."""
    if self.range is None:
      return self.choices
    return tuple(self.text(n) for n in (self.range.low, self.range.last))

  def values(self) -> tuple[str, ...] | None:
    """Returns all values as text; None if there are infinitely many."""
    if self.range is None:
      return self.choices
    step = self.range.step or (1 if self.is_integer else None)
    if step is None or self.range.is_logarithmic:
      return None
    count = self.range.num_steps(step) + 1
    return tuple(self.text(self.range.low + n * step) for n in range(count))

  def __str__(self) -> str:
    return ",".join(self.choices) if self.range is None else str(self.range)


Space = Mapping[str, Dimension]


@dataclasses.dataclass(frozen=True)
class Study:
  """The search for the settings of a method on a task."""

  name: str
  sweep: Sweep
  method: SweptMethod
  fixed: Mapping[str, Value]
  seeds: tuple[Mapping[str, Value], ...]
  space: Space

  def runs(self, settings: Mapping[str, str]) -> list[PlannedRun]:
    """Returns the runs of a trial, one for each of the seeds."""
    given = {**self.fixed, **settings}
    return [
      plan.make_run(self.sweep, self.method, {**given, **seed_values})
      for seed_values in self.seeds
    ]


def make_studies(sweep: Sweep) -> list[Study]:
  """Returns a study for each method, task and set of options of a sweep."""
  hparams = plan.hyperparameters(sweep)
  studies: dict[str, Study] = {}
  for method in sweep.methods:
    for study in _method_studies(sweep, method, hparams[method.algorithm]):
      if study.name in studies:
        raise RunError(
          f"{method.place}: has the same search as "
          f"{studies[study.name].method.place}; leave one of them out."
        )
      studies[study.name] = study
      _check(study)
  return list(studies.values())


def _method_studies(
  sweep: Sweep, method: SweptMethod, hparams: Mapping[str, object]
) -> Iterator[Study]:
  fixed_values: dict[str, Sequence[Value]] = {}
  seed_values: dict[str, Sequence[Value]] = {"seed": [0]}
  space: dict[str, Dimension] = {}
  for name, setting in plan.method_grid(sweep, method, hparams).items():
    values = setting.values
    is_fixed = plan.is_problem_setting(name)
    if isinstance(values, Range):
      place = f"{setting.place}: {name}={values}"
      if is_fixed:
        raise RunError(
          f"{place}: decides what to search on; give its values in a grid."
        )
      space[name] = _dimension(place, method.algorithm, name, values)
    elif name in seeds.NAMES:
      seed_values[name] = values
    elif is_fixed or len(values) == 1:
      fixed_values[name] = values
    else:
      space[name] = Dimension(tuple(map(declared.as_text, values)))
  if not space:
    raise RunError(
      f"{method.place}: {method.name} has nothing to search; give a range, "
      "such as --range=client_learning_rate=0.001:1:log, or a grid of values."
    )
  # A list, since the study's name has the settings in this order.
  in_name = [n for n in fixed_values if n in method.grid or n in sweep.varying]
  for fixed in grids.product(fixed_values):
    name = plan.folder_name(method.algorithm, {n: fixed[n] for n in in_name})
    yield Study(
      name, sweep, method, fixed, tuple(grids.product(seed_values)), space
    )


def _dimension(
  place: str, algorithm: str, name: str, drawn: Range
) -> Dimension:
  """Returns the dimension for the range `drawn` of a setting."""
  fields = RunSpec.fields()
  if name.startswith(spec_text.HPARAM):
    fields = methods.hyperparameters(algorithm)
  annotation = fields[name.removeprefix(spec_text.HPARAM)].annotation
  kinds = typing.get_args(annotation) or (annotation,)
  if float in kinds:
    return Dimension(range=drawn)
  if int not in kinds:
    raise RunError(
      f"{place}: does not take numbers; give its values in a grid."
    )
  numbers = (drawn.low, drawn.high, drawn.step or 1)
  if not all(isinstance(number, int) for number in numbers):
    raise RunError(f"{place}: takes only integers.")
  return Dimension(range=drawn, is_integer=True)


def _check(study: Study) -> None:
  """Checks that runs are valid with each choice and each end of a range."""
  first = {name: d.examples[0] for name, d in study.space.items()}
  for name, dimension in study.space.items():
    for text in dimension.examples:
      study.runs({**first, name: text})
