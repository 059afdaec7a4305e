"""Builds finalizers, which take the server's step in a round."""

from tff_fair import lazy
from tff_fair.finalizers.certain_adam import (
  CertainAdamSettings as CertainAdamSettings,
  build_certain_adam as build_certain_adam,
)
from tff_fair.finalizers.server_steps import (
  build_apply_direction as build_apply_direction,
  build_learning_rate as build_learning_rate,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
