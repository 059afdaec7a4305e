"""Loop: rounds, cohorts, evaluation, and the seed."""

from absl import flags

from binaries import training_loop
from binaries.command_line import UsageError

_USUAL_COHORT = 10

_TOTAL_ROUNDS = flags.DEFINE_integer(
  "total_rounds", 100, "Number of rounds.", lower_bound=1
)
_CLIENTS_PER_ROUND = flags.DEFINE_integer(
  "clients_per_round",
  None,
  "Size of the cohort, drawn anew each round without replacement. By default "
  f"{_USUAL_COHORT}, or all clients where there are fewer.",
  lower_bound=1,
)
_ROUNDS_PER_EVALUATION = flags.DEFINE_integer(
  "rounds_per_evaluation",
  10,
  "Every so many rounds, and at the end, the model is evaluated on the test "
  "data of all clients.",
  lower_bound=1,
)
_ROUNDS_PER_CHECKPOINT = flags.DEFINE_integer(
  "rounds_per_checkpoint",
  10,
  "Every so many rounds, and whenever it ends by itself, the run is saved, to "
  "go on from there.",
  lower_bound=1,
)
_SEED = flags.DEFINE_integer(
  "seed",
  0,
  "Seed of the task, the initial weights, the cohorts and the local order of "
  "examples. The same flags with the same seed give the same results.",
  lower_bound=0,
)


def seed() -> int:
  """Returns the seed of everything random."""
  return _SEED.value


def settings(num_clients: int) -> training_loop.Settings:
  """Returns the settings of the training loop.

  Args:
    num_clients: Size of the population.

  Raises:
    UsageError: If the population is too small.
  """
  cohort_size = _CLIENTS_PER_ROUND.value
  if cohort_size is None:
    cohort_size = min(_USUAL_COHORT, num_clients)
  if cohort_size > num_clients:
    raise UsageError(
      f"--clients_per_round={cohort_size}: the task has {num_clients} clients; "
      f"expected 1 to {num_clients}."
    )
  return training_loop.Settings(
    total_rounds=_TOTAL_ROUNDS.value,
    clients_per_round=cohort_size,
    rounds_per_evaluation=_ROUNDS_PER_EVALUATION.value,
    rounds_per_checkpoint=_ROUNDS_PER_CHECKPOINT.value,
    seed=_SEED.value,
  )
