"""Computes fairness statistics over clients, in NumPy and SciPy.

Only `pareto_stationarity` loads TensorFlow, when it is called.
"""

from tff_fair.metrics.comparison import (
  compare_clients,
  compare_errors,
  compare_signed,
  share_not_worse,
)
from tff_fair.metrics.group_gaps import GroupCounts, GroupGap, group_gap
from tff_fair.metrics.intervals import (
  Interval,
  bootstrap_intervals,
  fairness_intervals,
  wilson_interval,
)
from tff_fair.metrics.noise import (
  SamplingNoise,
  are_shares_of_examples,
  equality_p_value,
  sampling_noise,
)
from tff_fair.metrics.stationarity import pareto_stationarity
from tff_fair.metrics.summary import (
  error_summary,
  fairness_summary,
  signed_summary,
)
from tff_fair.metrics.unseen_clients import unseen_client_bound

__all__ = [
  "GroupCounts",
  "GroupGap",
  "Interval",
  "SamplingNoise",
  "are_shares_of_examples",
  "bootstrap_intervals",
  "compare_clients",
  "compare_errors",
  "compare_signed",
  "equality_p_value",
  "error_summary",
  "fairness_intervals",
  "fairness_summary",
  "group_gap",
  "pareto_stationarity",
  "sampling_noise",
  "share_not_worse",
  "signed_summary",
  "unseen_client_bound",
  "wilson_interval",
]


def __dir__() -> list[str]:
  return __all__
