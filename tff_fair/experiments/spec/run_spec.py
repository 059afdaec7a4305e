"""The specification of a run: everything that affects its results.

    spec = RunSpec(task="digits", algorithm="adafed", hparams={"gamma": 1.0})
    specs = spec.vary(algorithm=["fedavg", "adafed"], seed=range(5))

This module does not need TensorFlow to check names, types and bounds. Problems
that depend on the data or the built process are reported when the run starts.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Self

import tasks
from tff_fair import declared, methods, spelling
from tff_fair.declared import FieldError, Value
from tff_fair.experiments.spec import (
  combinations,
  grids,
  seeds,
  settings,
  spec_text,
)
from tff_fair.experiments.spec.settings import bounds


class FrozenMapping(Mapping[str, Value]):
  """An immutable, hashable dict that equals any mapping with the same items."""

  def __init__(self, items: Mapping[str, Value] | None = None) -> None:
    self._items = dict(items or {})

  def __getitem__(self, name: str) -> Value:
    return self._items[name]

  def __iter__(self) -> Iterator[str]:
    return iter(self._items)

  def __len__(self) -> int:
    return len(self._items)

  def __hash__(self) -> int:
    return hash(frozenset(self._items.items()))

  def __repr__(self) -> str:
    return repr(self._items)


_FEDAVG = "fedavg"
_RANGES = ("local_epochs", "local_steps", "clients_per_round")
_LISTS = ("measures", "unseen_clients", "join_round")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSpec(settings.RunSettings):
  """Everything that affects the results of a run.

  `RunSpec.fields()` lists the settings with their meanings and defaults;
  `tff_fair.experiments.spec.settings` declares them. In addition:

  Attributes:
    hparams: Hyperparameters of the method, by name; others have their defaults.
    task_options: Options of the task, by name; others have their defaults.

  Raises:
    ValueError: If a value is not valid; the text names the field, the invalid
      value and the valid values.
  """

  def __post_init__(self) -> None:
    # The code that a saved run names must not run, not even to list options.
    object.__setattr__(self, "_is_record", not tasks.may_run_code())
    for name in _RANGES:
      object.__setattr__(self, name, bounds.normal_range(getattr(self, name)))
    for name in _LISTS:
      if isinstance(value := getattr(self, name), list | tuple | float):
        object.__setattr__(self, name, declared.as_text(value) or None)
    for name, field in self.fields().items():
      object.__setattr__(self, name, field.check(getattr(self, name)))
    algorithm = methods.canonical_name(self.algorithm)
    object.__setattr__(self, "algorithm", algorithm)
    object.__setattr__(self, "task_options", self._checked_task_options())
    object.__setattr__(self, "hparams", self._checked_hparams())
    if self.model is not None:
      tasks.check_model(self.model)
    combinations.check(self)

  @classmethod
  def from_dict(cls, values: Mapping[str, Any]) -> Self:
    """Returns a run with the settings in `values`; others have their defaults.

    Raises:
      ValueError: If a name or a value is not valid.
    """
    names = [field.name for field in dataclasses.fields(cls)]
    for name in values:
      if name not in names:
        raise FieldError(
          name,
          f"there is no such setting; {spelling.advice(name, names, 'names')}",
        )
    return cls(**values)

  def to_toml(self) -> str:
    """Returns the settings that have a value, as TOML."""
    return spec_text.to_toml(self.to_dict())

  @classmethod
  def from_toml(cls, text: str) -> Self:
    """Reads a run from TOML.

    Raises:
      ValueError: If the text is not TOML, or a name or a value is not valid.
    """
    return cls.from_dict(spec_text.from_toml(text))

  def with_algorithm(self, algorithm: str) -> Self:
    """Returns the run with another method and its default hyperparameters."""
    rate = None if self.has_own_server_step else self.server_learning_rate
    return self.replace(
      algorithm=algorithm, hparams={}, server_learning_rate=rate
    )

  @property
  def title(self) -> str:
    """The title of the method in tables, pages and cards."""
    return methods.title(self.algorithm, self.client_weighting)

  def baselines(self) -> list[Self]:
    """Returns runs of FedAvg with the same settings, as baselines of this run.

    The runs differ in client_weighting: num_examples, uniform, and the value of
    this run. With noise for differential privacy, only uniform is possible. A
    run of FedAvg is not its own baseline.
    """
    weights = ["num_examples", "uniform"]
    if self.client_weighting not in weights:
      weights.append(self.client_weighting)
    if self.dp_noise is not None:
      weights = ["uniform"]
    found = (
      self.with_algorithm(_FEDAVG).replace(client_weighting=of_baseline)
      for of_baseline in weights
    )
    return [spec for spec in found if spec.differences(self)]

  def differences(self, other: "RunSpec") -> dict[str, tuple[Value, Value]]:
    """Returns the settings that affect results and differ in another run.

    Returns:
      This run's value and the other's, by flat name: the name of a field,
      "hparam.NAME" or "task_option.NAME". Settings that were not given have
      their default values.
    """
    mine, theirs = self.effective(), other.effective()
    return {
      name: (mine.get(name), theirs.get(name))
      for name in {**mine, **theirs}
      if mine.get(name) != theirs.get(name)
    }

  def effective(self) -> dict[str, Value]:
    """Returns the settings that affect results, with defaults, by flat name."""
    with self._record_guard():
      return {
        **{n: getattr(self, n) for n, f in self.fields().items() if f.decides},
        "rounds_per_evaluation": self.evaluation_interval,
        "validation_fraction": self.validation_share,
        "clients_per_part": self.part_size,
        **{  # None if the seed equals `seed`.
          name: None if value == self.seed else value
          for name, value in zip(seeds.NAMES[1:], self.seeds[1:], strict=True)
        },
        **{
          f"{spec_text.HPARAM}{name}": value
          for name, value in self.all_hparams.items()
        },
        **{
          f"{spec_text.TASK_OPTION}{name}": self.task_options.get(name, default)
          for name, default in tasks.option_defaults(self.task).items()
        },
      }

  def vary(self, **values: object) -> list[Self]:
    """Returns the runs of a grid, without repetitions.

    Args:
      **values: A value, or a list of values, for a field, a hyperparameter or
        an option of the task, by name. "hparam.NAME" and "task_option.NAME"
        (such as `**{"hparam.seed": 1}`) distinguish them from a field with the
        same name. A tuple is one value: a range. A hyperparameter applies only
        to the methods that have it.

    Returns:
      A run for each combination of values; the last name varies fastest.

    Raises:
      ValueError: If a name or a value is not valid, or none of the methods has
        a given hyperparameter.
    """
    with self._record_guard():
      return grids.vary(self, values)

  def _checked_task_options(self) -> FrozenMapping:
    tasks.check_name(self.task)
    given = _as_mapping("task_options", self.task_options)
    try:
      return FrozenMapping(tasks.check_options(self.task, given))
    except FieldError as error:
      raise error.within("task_options") from error
    except ValueError as error:
      raise FieldError("task_options", str(error)) from error

  def _checked_hparams(self) -> FrozenMapping:
    if not methods.is_method(self.algorithm):
      raise FieldError(
        "algorithm",
        methods.unknown_message(self.algorithm),
        value=self.algorithm,
      )
    # Checking values would run the method's code, which saved runs must not do.
    if methods.is_blocked(self.algorithm):
      return FrozenMapping(self.hparams)
    valid = methods.hyperparameters(self.algorithm)
    checked = {}
    for name, value in _as_mapping("hparams", self.hparams).items():
      spec_text.check_hparam_name(self.algorithm, name, value)
      try:
        checked[name] = valid[name].check(value)
      except FieldError as error:
        raise error.within("hparams", value) from error
    return FrozenMapping(checked)


def _as_mapping(field: str, value: object) -> Mapping[str, object]:
  if not isinstance(value, Mapping):
    raise FieldError(
      field, "expected a mapping from names to values.", value=value
    )
  return value
