"""Plans many runs, carries them out in parallel, and selects settings."""

from tff_fair.experiments.sweeps.runner import sweep

__all__ = ["sweep"]
