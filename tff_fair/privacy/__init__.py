"""Private rounds: differential privacy, and what counts as a sum.

    private = tff_fair.privacy.dp(
      noise_multiplier=1.0, clients_per_round=100, clip=0.5
    )
    process = tff_fair.algorithms.build(
      "fedavg", model_fn, client_optimizer=sgd, client_weighting="uniform",
      dp=private,
    )
    tff_fair.privacy.epsilon(private, num_clients=10_000, rounds=500)

Secure sums are a way of summing: `aggregation="secure"`.
"""

import typing

from tff_fair import lazy

if typing.TYPE_CHECKING:
  from tff_fair.privacy.accounting import (
    FIXED_SIZE,
    POISSON,
    default_delta,
    epsilon,
    noise_for,
  )
  from tff_fair.privacy.differential import DifferentialPrivacy, dp
  from tff_fair.privacy.sum_check import check_sums
else:
  __getattr__ = lazy.lazy(
    __name__,
    {
      **dict.fromkeys(
        ("FIXED_SIZE", "POISSON", "default_delta", "epsilon", "noise_for"),
        "tff_fair.privacy.accounting",
      ),
      "DifferentialPrivacy": "tff_fair.privacy.differential",
      "dp": "tff_fair.privacy.differential",
      "check_sums": "tff_fair.privacy.sum_check",
    },
  )

__all__ = [
  "FIXED_SIZE",
  "POISSON",
  "DifferentialPrivacy",
  "check_sums",
  "default_delta",
  "dp",
  "epsilon",
  "noise_for",
]


def __dir__() -> list[str]:
  return __all__
