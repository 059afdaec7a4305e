"""The settings of a run, by group: names, types, defaults and meanings.

Settings are declared only here: `RunSpec` inherits these fields and checks
their values; flags, TOML and help texts are generated from them.
"""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import tasks
from tff_fair import declared, methods
from tff_fair.declared import Value
from tff_fair.experiments.spec import seeds
from tff_fair.experiments.spec.settings import bounds, federation, learning

# The default share of validation examples in a run with a criterion.
_VALIDATION_SHARE = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings(
  # Fields are ordered from the last base class to the first.
  federation.CorrectionSettings,
  federation.PrivacySettings,
  federation.DefenceSettings,
  federation.AttackSettings,
  federation.EvaluationSettings,
  federation.LoopSettings,
  federation.SamplingSettings,
  learning.LocalTrainingSettings,
  learning.AlgorithmSettings,
  learning.TaskSettings,
):
  """The settings of a run, and values that follow from them."""

  @classmethod
  def fields(cls) -> Mapping[str, declared.Field]:
    """Returns the settings by name, except `hparams` and `task_options`."""
    return declared.fields_of(cls)

  @property
  def weighted_algorithm(self) -> str:
    """The method's name, and the client weighting if it is not the default."""
    weights = self.client_weighting
    suffix = "" if weights == "num_examples" else f"-{weights}"
    return f"{methods.short_name(self.algorithm)}{suffix}"

  @property
  def short_name(self) -> str:
    """The names of the task and the method, for folders: "digits-adafed"."""
    return f"{tasks.short_name(self.task)}-{self.weighted_algorithm}"

  @property
  def seeds(self) -> seeds.Seeds:
    """The seeds of the run; seeds that are not given equal `seed`."""
    return seeds.from_settings(vars(self))

  @property
  def validation_share(self) -> float:
    """The share of each client's training examples for validation.

    It is `validation_fraction`. If that is not given, a run with a `criterion`
    has a default share, so that it does not select on its test data.
    """
    if self.validation_fraction is not None:
      return self.validation_fraction
    return 0.0 if self.criterion is None else _VALIDATION_SHARE

  @property
  def evaluation_interval(self) -> int:
    """The number of rounds from one evaluation to the next.

    It is `rounds_per_evaluation`. If that is not given or exceeds the number of
    rounds, the interval is short enough for several evaluations.
    """
    given, total = self.rounds_per_evaluation, self.total_rounds
    if given is not None and given <= total:
      return given
    return min(
      given or federation.USUAL_INTERVAL,
      max(1, total // federation.LEAST_EVALUATIONS),
    )

  @property
  def part_size(self) -> int:
    """How many clients a part of a cohort has; 0 if cohorts are not split.

    If all clients take part, their number is not known here, and the result is
    `clients_per_part`.
    """
    most = self.clients_per_round
    if most is None and self.sampling != "all":
      most = federation.USUAL_COHORT
    return federation.part_size(self.clients_per_part, most)

  @property
  def local_work(self) -> dict[str, Any]:
    """Arguments of `client_works.TrainingSettings` by name."""
    steps = self.local_steps
    return {
      "batch_size": self.batch_size,
      "local_epochs": bounds.ends_or_number(self.local_epochs),
      "local_steps": None if steps is None else bounds.ends_or_number(steps),
      "local_epochs_seed": self.seed,
      "loss_at": self.loss_at,
      "shuffle_seed": self.seed,
      "proximal_mu": self.proximal_mu,
      "learning_rate_decay": self.client_learning_rate_decay,
      "learning_rate_decay_kind": self.client_learning_rate_decay_kind,
      "learning_rate_decay_rounds": self.client_learning_rate_decay_rounds,
    }

  @property
  def all_hparams(self) -> dict[str, Value]:
    """All hyperparameters of the method, including those with default values.

    `server_learning_rate` sets one of them if the method has its own server
    step.
    """
    with self._record_guard():
      valid = methods.hyperparameters(self.algorithm)
    values = {name: hparam.default for name, hparam in valid.items()}
    if self.has_own_server_step and self.server_learning_rate is not None:
      values[learning.SERVER_RATE] = self.server_learning_rate
    return {**values, **self.hparams}

  @property
  def has_own_server_step(self) -> bool:
    """Whether the method has its own server step, with a rate in `hparams`."""
    with self._record_guard():
      return learning.SERVER_RATE in methods.hyperparameters(self.algorithm)

  @property
  def corrects_steps(self) -> bool:
    """Whether clients correct their steps by control variates."""
    is_asked = self.local_correction != "none"
    return is_asked or methods.method(self.algorithm).sends_controls

  @property
  def draws_by_lambda(self) -> bool:
    """Whether the method draws cohorts by weights that it learns."""
    return self.algorithm == "drfa"

  @property
  def measures_stationarity(self) -> bool:
    """Whether each round measures stationarity, even if the method does not."""
    return (
      self.certificate
      or self.stop_at_stationarity is not None
      or bool(self.tape)
    )

  @property
  def has_baselines(self) -> bool:
    """Whether the run also trains local or pooled baselines."""
    needs_gaps = self.loss_reference != "none"
    return self.local_baseline or self.pooled_baseline or needs_gaps

  def to_dict(self) -> dict[str, object]:
    """Returns all settings as plain values, ready for JSON."""
    values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
    return {
      name: dict(value) if isinstance(value, Mapping) else value
      for name, value in values.items()
    }

  def replace(self, **values: Any) -> Self:
    """Returns the run with the settings in `values` changed.

    Raises:
      ValueError: If a name or a value is not valid.
    """
    with self._record_guard():
      return dataclasses.replace(self, **values)

  def _record_guard(self) -> contextlib.AbstractContextManager[None]:
    """Returns a context that refuses to run code if the run is a saved one."""
    is_record = vars(self).get("_is_record", False)
    return tasks.reading_records() if is_record else contextlib.nullcontext()


GROUPS: tuple[type[Any], ...] = RunSettings.__bases__[::-1]
