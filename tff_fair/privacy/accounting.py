"""Computes the privacy loss epsilon of a run, or the noise for an epsilon.

Google's package dp-accounting does the computation.

The runs of this project draw cohorts of a fixed size without replacement. Wang,
Balle, Kasiviswanathan, "Subsampled Renyi Differential Privacy and Analytical
Moments Accountant" (AISTATS 2019) bound epsilon for such cohorts, if
neighbouring data sets differ in the data of one client. Replacing this data
changes the sum by up to 2 C, twice the clip C, so the noise multiplier z counts
as z / 2.

Mironov, Talwar, Zhang, "Renyi Differential Privacy of the Sampled Gaussian
Mechanism" (2019) bound epsilon for cohorts in which each client takes part
independently, if neighbouring data sets differ in the presence of one client.
"""

from tff_fair import declared
from tff_fair.privacy import differential

FIXED_SIZE = "fixed_size"
POISSON = "poisson"

# The largest noise multiplier that `noise_for` tries.
_MOST_NOISE = 2.0**16
_RELATIVE_STEP = 1e-3


def epsilon(
  settings: differential.DifferentialPrivacy,
  *,
  num_clients: int,
  rounds: int,
  delta: float | None = None,
  sampling: str = FIXED_SIZE,
) -> float:
  """Returns the epsilon spent by releasing the models of all rounds.

  This epsilon holds if cohorts are drawn uniformly and independently in each
  round, and the attacker does not know the cohorts.

  Args:
    settings: The noise and the size of the cohorts.
    num_clients: N, the size of the population.
    rounds: The number of rounds.
    delta: The delta of the guarantee; `None` for `default_delta`.
    sampling: "fixed_size": a round draws `clients_per_round` of N clients
      without replacement, and neighbouring data sets differ in the data of one
      client. "poisson": a round draws each client independently, with
      probability `clients_per_round` / N, and neighbouring data sets differ in
      the presence of one client.

  Returns:
    Epsilon, infinite without noise.

  Raises:
    FieldError: If an argument is out of range; a `ValueError`.
  """
  import dp_accounting  # noqa: PLC0415  Takes a second.
  from dp_accounting import rdp  # noqa: PLC0415

  declared.check_integer("rounds", rounds, minimum=0)
  declared.check_choice("sampling", sampling, (FIXED_SIZE, POISSON))
  declared.check_integer(
    "num_clients", num_clients, minimum=settings.clients_per_round
  )
  delta = default_delta(num_clients) if delta is None else delta
  declared.check_number(
    "delta", delta, minimum=0, maximum=1, exclude_minimum=True
  )
  if rounds == 0:
    return 0.0
  if settings.noise_multiplier == 0:
    return float("inf")
  relation = dp_accounting.NeighboringRelation
  if sampling == POISSON:
    neighbours = relation.ADD_OR_REMOVE_ONE
    event = dp_accounting.PoissonSampledDpEvent(
      settings.clients_per_round / num_clients,
      dp_accounting.GaussianDpEvent(float(settings.noise_multiplier)),
    )
  else:
    neighbours = relation.REPLACE_ONE
    event = dp_accounting.SampledWithoutReplacementDpEvent(
      num_clients,
      settings.clients_per_round,
      # The accountant expects noise / sensitivity; the sensitivity is 2 C here.
      dp_accounting.GaussianDpEvent(settings.noise_multiplier / 2),
    )
  accountant = rdp.RdpAccountant(neighboring_relation=neighbours)
  accountant.compose(event, rounds)
  return float(accountant.get_epsilon(delta))


def noise_for(
  epsilon: float,
  *,
  clients_per_round: int,
  num_clients: int,
  rounds: int,
  delta: float | None = None,
  sampling: str = FIXED_SIZE,
) -> float:
  """Returns the noise multiplier with which the rounds spend `epsilon`.

      noise = tff_fair.privacy.noise_for(
        8.0, clients_per_round=100, num_clients=10_000, rounds=200
      )
      private = tff_fair.privacy.dp(noise, clients_per_round=100, clip=0.5)

  Args:
    epsilon: The largest epsilon that the models of all rounds may spend.
    clients_per_round: m, the size of a cohort.
    num_clients: N, the size of the population.
    rounds: The number of rounds.
    delta: The delta of the guarantee; `None` for `default_delta`.
    sampling: "fixed_size" or "poisson"; see `epsilon`.

  Returns:
    The least noise multiplier z, to a relative precision of 1e-3, with which
    the rounds spend at most `epsilon`.

  Raises:
    FieldError: If an argument is out of range, or no noise multiplier is large
      enough; a `ValueError`.
  """
  declared.check_number("epsilon", epsilon, minimum=0, exclude_minimum=True)

  def is_enough(noise: float) -> bool:
    return epsilon >= _epsilon(
      differential.dp(noise, clients_per_round, clip=1.0),
      num_clients=num_clients,
      rounds=rounds,
      delta=delta,
      sampling=sampling,
    )

  enough, too_low = 1.0, 0.0
  if is_enough(too_low):  # True only if there are no rounds.
    return too_low
  while not is_enough(enough):
    enough, too_low = 2 * enough, enough
    if enough > _MOST_NOISE:
      raise declared.FieldError(
        "epsilon",
        f"No noise multiplier up to {_MOST_NOISE:g} spends as little as "
        f"epsilon={epsilon!r} here. Take fewer rounds, smaller cohorts, a "
        "larger delta or a larger epsilon.",
      )
  while enough - too_low > _RELATIVE_STEP * enough:
    middle = (enough + too_low) / 2
    if is_enough(middle):
      enough = middle
    else:
      too_low = middle
  return enough


# An alias, because `noise_for` has an argument named `epsilon`.
_epsilon = epsilon


def default_delta(num_clients: int) -> float:
  """Returns delta = N^-1.1, as in McMahan et al. (2018).

  Args:
    num_clients: N, the size of the population.
  """
  return float(num_clients) ** -1.1
