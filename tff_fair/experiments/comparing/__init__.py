"""Runs side by side: measures, groups and tables."""

from tff_fair.experiments.comparing.run_comparison import compare

__all__ = ["compare"]
