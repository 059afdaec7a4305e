"""Client work: local training and evaluation."""

from tff_fair.client_works.local_training import TrainingSettings
from tff_fair.client_works.training import build_training

__all__ = ["TrainingSettings", "build_training"]
