"""Optimizers that TFF does not have."""

from tff_fair.optimizers.nesterov import build_nesterov

__all__ = ["build_nesterov"]
