"""The client work that a method asks for: in one piece, and for parts."""

import dataclasses
from collections.abc import Collection, Sequence

import tensorflow_federated as tff

from tff_fair.client_works import (
  attacks,
  keeping,
  local_model,
  training,
  training_settings,
  trial_losses,
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
    kept: What clients keep from one round to the next.
    attack: Which clients attack; `None` if no client does.
    securely: Whether what clients measure goes into secure sums, too.
  """

  model_fn: local_model.ModelFn
  optimizer: tff.learning.optimizers.Optimizer
  settings: training_settings.TrainingSettings
  signals: Collection[str]
  kept: keeping.Keeping = dataclasses.field(default_factory=keeping.Keeping)
  attack: attacks.Attack | None = None
  securely: bool = False

  def build(self) -> tff.learning.templates.ClientWorkProcess:
    """Builds the process."""
    if self.kept:
      process = self._keeping.build()
    else:
      process = training.build_training(
        self.model_fn,
        self.optimizer,
        self.settings,
        signals=self.signals,
        securely=self.securely,
      )
    if self.attack is None:
      return process
    return attacks.build_attacked(process, self.attack)

  @property
  def has_phases(self) -> bool:
    """Whether clients know all signals of the rule before they train."""
    return self.settings.loss_at == "before" and training.are_known_before(
      self.signals
    )

  def build_phases(self) -> training.TrainingPhases:
    """Builds the phases of the process, if it has some.

    Where clients keep something, each phase takes what they keep, after their
    data.
    """
    if self.kept:
      phases = self._keeping.build_phases()
    else:
      phases = training.build_training_phases(
        self.model_fn, self.optimizer, self.settings, signals=self.signals
      )
    if self.attack is None:
      return phases
    return attacks.build_attacked_phases(phases, self.attack)

  def build_round_of_own(self) -> tff.Computation:
    """Builds a round in which each client has what it keeps."""
    round_of_own = self._keeping.build_round()
    if self.attack is None:
      return round_of_own
    return attacks.build_attacked_round(round_of_own, self.attack)

  def build_trial_losses(self, factors: Sequence[float]) -> tff.Computation:
    """Builds the losses after steps of several lengths.

    Args:
      factors: Of the length of the server's step.
    """
    return trial_losses.build_trial_losses(
      self.model_fn,
      factors,
      batch_size=self.settings.batch_size,
      attack=self.attack,
    )

  @property
  def _keeping(self) -> keeping.KeepingWork:
    return keeping.KeepingWork(
      self.model_fn, self.optimizer, self.settings, self.signals, self.kept
    )
