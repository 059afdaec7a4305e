"""Server steps."""

from tff_fair.finalizers.apply_direction import build_apply_direction

__all__ = ["build_apply_direction"]
