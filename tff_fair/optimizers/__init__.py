"""Builds optimizers that TFF does not have, for clients or the server."""

from tff_fair import lazy
from tff_fair.optimizers.moments import (
  build_amsgrad as build_amsgrad,
  build_nesterov as build_nesterov,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
