"""Builds client work: what clients do in a round, and the state they keep."""

from tff_fair import lazy
from tff_fair.client_works.attacks import (
  Attack as Attack,
  build_attacked as build_attacked,
)
from tff_fair.client_works.client_state import (
  PersistentState as PersistentState,
)
from tff_fair.client_works.method_work import MethodWork as MethodWork
from tff_fair.client_works.training import (
  TrainingPhases as TrainingPhases,
  build_training as build_training,
)
from tff_fair.client_works.training_settings import (
  TrainingSettings as TrainingSettings,
  num_epochs as num_epochs,
  num_trained_examples as num_trained_examples,
  seed_in_64_bits as seed_in_64_bits,
)
from tff_fair.client_works.trial_losses import (
  TrialLosses as TrialLosses,
  losses_of as losses_of,
)
from tff_fair.client_works.user_work import (
  build_from_computation as build_from_computation,
  with_signals as with_signals,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
