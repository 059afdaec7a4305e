"""Optimizers that TFF does not have."""

from tff_fair.optimizers.moments import build_amsgrad, build_nesterov

__all__ = ["build_amsgrad", "build_nesterov"]


def __dir__() -> list[str]:
  return __all__
