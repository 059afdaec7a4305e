"""The settings of attacks, defences and privacy."""

import dataclasses
import math
from typing import Literal

from tff_fair import declared
from tff_fair.experiments.settings import bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttackSettings:
  """Attack: a study of clients that report something else than they found."""

  attack: Literal["none", "bias", "scaling"] = declared.value(
    "none",
    "What attackers do, a seeded subset of the clients: bias adds a constant "
    "to the losses they report, scaling multiplies their updates. Results are "
    "there for the honest clients alone, too.",
  )
  attack_share: float = declared.value(
    0.1,
    "Share of the clients that attack, in (0, 1); one client at least, and one "
    "remains honest.",
    expects="a number in (0, 1)",
    is_valid=lambda value: 0 < value < 1,
  )
  attack_strength: float | None = declared.value(
    None,
    "What bias adds, 0 or more; what scaling multiplies with, below 0 to turn "
    "updates round.",
    expects="a finite number or none (in float32)",
    is_valid=lambda value: math.isfinite(declared.as_float32(value)),
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DefenceSettings:
  """Defence: what the server does against updates out of the ordinary."""

  defence: Literal["none", "zeroing", "clipping", "trimmed_mean", "median"] = (
    declared.value(
      "none",
      "Zeroing drops an update with an entry beyond a bound, clipping shortens "
      "one with a norm beyond a bound; the bounds follow the updates. "
      "trimmed_mean and median sum coordinate by coordinate without the least "
      "and the greatest values, for methods that can be summed in two_phase.",
    )
  )
  trimmed_share: float = declared.value(
    0.2,
    "Share of a cohort that trimmed_mean leaves out at each end, in (0, 1/2).",
    expects="a number in (0, 1/2)",
    is_valid=lambda value: 0 < value < 0.5,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacySettings:
  """Privacy: what a client may add to a sum, and noise on it."""

  secure_bound: float | None = bounds.positive_number(
    None,
    "With --aggregation=secure, the largest value in what a client adds to the "
    "sum of updates, its weight included; the round leaves out a client beyond "
    "it. By default 1024.",
  )
  dp_noise: float | None = bounds.positive_number(
    None,
    "Differential privacy: the standard deviation of the noise on a round's "
    "sum, in units of --dp_clip. The run tells its epsilon. Goes with methods "
    "whose coefficients depend on no other client, as fedavg, and with "
    "--client_weighting=uniform. By default no noise.",
  )
  dp_clip: float | None = bounds.positive_number(
    None, "With --dp_noise, the largest norm of what a client adds to the sum."
  )
