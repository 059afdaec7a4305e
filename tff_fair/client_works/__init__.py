"""Client work: local training and evaluation."""

from tff_fair.client_works.attacks import Attack, build_attacked
from tff_fair.client_works.local_training import TrainingSettings, num_epochs
from tff_fair.client_works.personal import build_personal_training
from tff_fair.client_works.training import build_training

__all__ = [
  "Attack",
  "TrainingSettings",
  "build_attacked",
  "build_personal_training",
  "build_training",
  "num_epochs",
]
