"""Sampling: which clients take part in a round."""

from absl import flags

from binaries.command_line import UsageError
from binaries.flags import number_range
from tff_fair.experiments.training import sampling

_USUAL_COHORT = 10

_SAMPLING = flags.DEFINE_enum(
  "sampling",
  "uniform",
  sampling.KINDS,
  "How the cohort of a round is drawn, without replacement: uniform; "
  "proportional to training examples, one client after the other; or all "
  "clients in every round.",
)
_CLIENTS_PER_ROUND = number_range.define(
  "clients_per_round",
  None,
  "Size of the cohort, drawn anew each round; or a range as 5-15, from which "
  f"each round's size is drawn. By default {_USUAL_COHORT}, or all clients "
  "where there are fewer.",
)
_DROPOUT = flags.DEFINE_float(
  "dropout",
  0.0,
  "Probability that a drawn client does not report back, in [0, 1). Where "
  "nobody would, one client of the cohort, drawn by lot, does.",
)
_DROPOUT_KIND = flags.DEFINE_enum(
  "dropout_kind",
  "independent",
  sampling.DROPOUT_KINDS,
  "Whether clients drop out independently in each round, or by_client: each "
  "client has a probability of its own for the whole run, drawn uniformly from "
  "[0, 2p] for a --dropout p up to 1/2, from [2p - 1, 1] above.",
)
flags.register_validator(
  _DROPOUT.name,
  lambda value: 0 <= value < 1,
  message="expected a number in [0, 1)",
)


def settings(seed: int, num_clients: int) -> sampling.Sampling:
  """Returns how clients are drawn.

  Args:
    seed: Seed of the draws.
    num_clients: Size of the population.

  Raises:
    UsageError: If the population is too small, or flags exclude each other.
  """
  return sampling.Sampling(
    seed=seed,
    kind=_SAMPLING.value,
    clients_per_round=number_range.bounds(clients_per_round(num_clients)),
    dropout=_DROPOUT.value,
    dropout_kind=_DROPOUT_KIND.value,
  )


def clients_per_round(num_clients: int) -> number_range.Value:
  """Returns the size of cohorts, what it comes to where it is not given.

  Args:
    num_clients: Size of the population.

  Raises:
    UsageError: If the population is too small, or flags exclude each other.
  """
  value = _CLIENTS_PER_ROUND.value
  flag = f"--{_CLIENTS_PER_ROUND.name}={value}"
  if _SAMPLING.value == "all":
    if value not in (None, num_clients):
      raise UsageError(
        f"{flag}: --{_SAMPLING.name}=all takes all {num_clients} clients in "
        "every round; leave one of the two out."
      )
    return num_clients
  if value is None:
    return min(_USUAL_COHORT, num_clients)
  if number_range.bounds(value)[1] > num_clients:
    raise UsageError(
      f"{flag}: the task has {num_clients} clients; expected 1 to "
      f"{num_clients}."
    )
  return value
