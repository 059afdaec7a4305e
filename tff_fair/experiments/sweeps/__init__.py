"""Many runs: planned, run side by side, the best settings chosen."""

from tff_fair.experiments.sweeps.runner import sweep

__all__ = ["sweep"]
