"""Many runs: plans, parallel execution, and the choice of settings."""

from tff_fair.experiments.sweeps.runner import sweep

__all__ = ["sweep"]
