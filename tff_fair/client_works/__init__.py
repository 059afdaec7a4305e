"""Client work: local training and evaluation."""

from tff_fair.client_works.attacks import Attack, build_attacked
from tff_fair.client_works.client_state import PersistentState
from tff_fair.client_works.method_work import (
  MethodWork,
  build_personal_training,
)
from tff_fair.client_works.training import TrainingPhases, build_training
from tff_fair.client_works.training_settings import (
  TrainingSettings,
  num_epochs,
  num_trained_examples,
  seed_in_64_bits,
)
from tff_fair.client_works.trial_losses import TrialLosses, losses_of
from tff_fair.client_works.user_work import build_from_computation, with_signals

__all__ = [
  "Attack",
  "MethodWork",
  "PersistentState",
  "TrainingPhases",
  "TrainingSettings",
  "TrialLosses",
  "build_attacked",
  "build_from_computation",
  "build_personal_training",
  "build_training",
  "losses_of",
  "num_epochs",
  "num_trained_examples",
  "seed_in_64_bits",
  "with_signals",
]


def __dir__() -> list[str]:
  return __all__
