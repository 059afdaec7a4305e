"""Distributors: they send the weights to the clients."""

from tff_fair.distributors.initial_weights import build_with_initial_weights

__all__ = ["build_with_initial_weights"]
