"""Many runs: plans, parallel execution, and the selection of settings."""

from tff_fair.experiments.sweeps.runner import sweep

__all__ = ["sweep"]
