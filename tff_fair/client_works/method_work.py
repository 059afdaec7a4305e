"""The client work that a method asks for: in one piece, and for parts."""

import dataclasses
from collections.abc import Collection

import tensorflow_federated as tff

from tff_fair.client_works import (
  attacks,
  local_model,
  personal,
  training,
  training_phases,
  training_settings,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodWork:
  """What decides the client work of a method.

  Attributes:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    optimizer: The client optimizer.
    settings: How clients train.
    signals: The signals that the rule asks for.
    personal_lam: Pull of the personal models towards the global one; `None`
      trains no personal models.
    attack: Which clients attack; `None` if nobody does.
    securely: Whether what clients measure goes into secure sums, too.
  """

  model_fn: local_model.ModelFn
  optimizer: tff.learning.optimizers.Optimizer
  settings: training_settings.TrainingSettings
  signals: Collection[str]
  personal_lam: float | None = None
  attack: attacks.Attack | None = None
  securely: bool = False

  def build(self) -> tff.learning.templates.ClientWorkProcess:
    """Builds the process."""
    if self.personal_lam is None:
      process = training.build_training(
        self.model_fn,
        self.optimizer,
        self.settings,
        signals=self.signals,
        securely=self.securely,
      )
    else:
      process = personal.build_personal_training(
        self.model_fn, self.optimizer, self.settings, lam=self.personal_lam
      )
    if self.attack is None:
      return process
    return attacks.build_attacked(process, self.attack)

  @property
  def has_phases(self) -> bool:
    """Whether clients know all signals of the rule before they train."""
    return (
      self.personal_lam is None
      and self.settings.loss_at == "before"
      and training_phases.are_known_before(self.signals)
    )

  def build_phases(self) -> training_phases.TrainingPhases:
    """Builds the phases of the process, if it has some."""
    phases = training_phases.build_training_phases(
      self.model_fn, self.optimizer, self.settings, signals=self.signals
    )
    if self.attack is None:
      return phases
    return attacks.build_attacked_phases(phases, self.attack)

  def build_personal_round(self) -> tff.Computation:
    """Builds a round in which each client has its personal model."""
    assert self.personal_lam is not None
    round_of_own = personal.build_personal_round(
      self.model_fn, self.optimizer, self.settings, lam=self.personal_lam
    )
    if self.attack is None:
      return round_of_own
    return attacks.build_attacked_round(round_of_own, self.attack)
