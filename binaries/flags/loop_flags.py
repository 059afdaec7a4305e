"""Loop: rounds, checkpoints, and the seed."""

from absl import flags

from tff_fair.experiments.training import loop as training_loop

_TOTAL_ROUNDS = flags.DEFINE_integer(
  "total_rounds", 100, "Number of rounds.", lower_bound=1
)
_ROUNDS_PER_EVALUATION = flags.DEFINE_integer(
  "rounds_per_evaluation",
  10,
  "Every so many rounds, and at the end, the model is evaluated on the "
  "clients' test data.",
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
  "Seed of the task, the initial weights, the cohorts, the local order of "
  "examples and all other draws. The same flags with the same seed give the "
  "same results.",
  lower_bound=0,
)


def seed() -> int:
  """Returns the seed of everything random."""
  return _SEED.value


def settings() -> training_loop.Settings:
  """Returns the settings of the training loop."""
  return training_loop.Settings(
    total_rounds=_TOTAL_ROUNDS.value,
    rounds_per_evaluation=_ROUNDS_PER_EVALUATION.value,
    rounds_per_checkpoint=_ROUNDS_PER_CHECKPOINT.value,
  )
