"""Runs side by side: measures, groups and tables."""

from tff_fair.experiments.comparing.side_by_side import compare

__all__ = ["compare"]
