"""Private rounds: differential privacy, and checks of aggregation factories.

    private = tff_fair.privacy.dp(
      noise_multiplier=1.0, clients_per_round=100, clip=0.5
    )
    process = tff_fair.algorithms.build(
      "fedavg", model_fn, client_optimizer=sgd, client_weighting="uniform",
      dp=private,
    )
    tff_fair.privacy.epsilon(private, num_clients=10_000, rounds=500)

For secure sums, use the option `aggregation="secure"` instead.
"""

import typing

from tff_fair import lazy

if typing.TYPE_CHECKING:
  from tff_fair.privacy.accounting import (
    FIXED_SIZE as FIXED_SIZE,
    POISSON as POISSON,
    default_delta as default_delta,
    epsilon as epsilon,
    noise_for as noise_for,
  )
  from tff_fair.privacy.differential import (
    DifferentialPrivacy as DifferentialPrivacy,
    dp as dp,
  )
  from tff_fair.privacy.sum_check import check_sums as check_sums

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
