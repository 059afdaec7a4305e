"""The privacy of a run: its noise, and what it has spent."""

from collections.abc import Mapping

from tff_fair import privacy
from tff_fair.experiments import number_range
from tff_fair.experiments.spec import RunSpec

# In summary.json.
PRIVACY = "privacy"

SIMULATED = (
  "Secure sums are simulated: this machine adds in the clear, which protects "
  "nothing here."
)
_ASSUMPTION = (
  "An attacker sees the trained models, and neither the cohorts nor the seed. "
  "Cohorts have a fixed size and are drawn uniformly without replacement; "
  "neighbours differ in the data of one client."
)


def noise(
  spec: RunSpec, clients_per_round: number_range.Value
) -> privacy.DifferentialPrivacy | None:
  """Returns the noise of a run, if it has any.

  Args:
    spec: The run.
    clients_per_round: The size of its cohorts.
  """
  if spec.dp_noise is None or spec.dp_clip is None:
    return None
  return privacy.dp(
    spec.dp_noise, number_range.bounds(clients_per_round)[1], spec.dp_clip
  )


def account(
  dp: privacy.DifferentialPrivacy, *, num_clients: int, rounds: int
) -> dict[str, object]:
  """Returns what a run has spent, ready for JSON.

  Args:
    dp: Its noise.
    num_clients: The size of the population.
    rounds: The rounds that it has done.
  """
  return {
    "epsilon": privacy.epsilon(dp, num_clients=num_clients, rounds=rounds),
    "delta": privacy.default_delta(num_clients),
    "noise_multiplier": dp.noise_multiplier,
    "clip": dp.clip,
    "clients_per_round": dp.clients_per_round,
    "assumption": _ASSUMPTION,
  }


def describe(spent: Mapping[str, object]) -> str:
  """Returns a line about what a run has spent, as `account` returns it."""
  return (
    f"Differential privacy: epsilon = {spent['epsilon']:.3g} at delta = "
    f"{spent['delta']:.2g}. {spent['assumption']}"
  )
