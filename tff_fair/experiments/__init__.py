"""Experiments: what a run is, running it, and what came of it.

    spec = RunSpec(task="digits", algorithm="adafed", total_rounds=100)
    runs = sweep(spec.vary(seed=range(5)), "outputs/first", jobs=2)
    print(compare(runs))

TensorFlow is imported when something trains.
"""

from tff_fair.experiments.errors import RunError, SpecError
from tff_fair.experiments.spec import RunSpec

__all__ = ["RunError", "RunSpec", "SpecError"]
