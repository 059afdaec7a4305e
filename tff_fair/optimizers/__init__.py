"""Optimizers that TFF does not have."""

from tff_fair.optimizers.amsgrad import build_amsgrad
from tff_fair.optimizers.nesterov import build_nesterov

__all__ = ["build_amsgrad", "build_nesterov"]


def __dir__() -> list[str]:
  return __all__
