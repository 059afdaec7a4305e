"""Evaluation: of whom, and what follows from it."""

from absl import flags

from binaries.command_line import UsageError
from tff_fair.experiments.training import selection

_CLIENTS = flags.DEFINE_integer(
  "evaluation_clients",
  None,
  "How many clients are evaluated, drawn once, the same in all evaluations and "
  "in the results at the end. By default all.",
  lower_bound=1,
)
_CRITERION = flags.DEFINE_enum(
  "criterion",
  None,
  selection.CRITERIA,
  "Keep the state at the evaluation with the largest mean accuracy over "
  "clients, or mean over the worst 10 %, in best_checkpoint. By default only "
  "the last state is kept.",
)
_PATIENCE = flags.DEFINE_integer(
  "patience",
  None,
  "End the run after so many evaluations in a row that did not improve the "
  "--criterion. By default it goes on to the last round.",
  lower_bound=1,
)
_MEASURE_IMPROVEMENT = flags.DEFINE_boolean(
  "measure_improvement",
  False,
  "Evaluate the model on the cohort's training data before and after each "
  "round: improved_share in metrics.csv is the share of clients whose loss did "
  "not rise, cohorts.csv has their losses.",
)


def num_clients(population: int) -> int | None:
  """Returns how many clients are to be evaluated, `None` for all.

  Args:
    population: The number of all clients.

  Raises:
    UsageError: If there are fewer.
  """
  number = _CLIENTS.value
  if number is not None and number > population:
    raise UsageError(
      f"--{_CLIENTS.name}={number}: the task has {population} clients; "
      f"expected 1 to {population}."
    )
  return number


def build_selection() -> selection.Selection | None:
  """Returns what finds the best evaluation, `None` if nobody asks.

  Raises:
    UsageError: If flags do not go together.
  """
  if _CRITERION.value is not None:
    return selection.Selection(_CRITERION.value, _PATIENCE.value)
  if _PATIENCE.value is not None:
    raise UsageError(
      f"--{_PATIENCE.name}={_PATIENCE.value}: does not say what is to improve; "
      f"give --{_CRITERION.name}, {' or '.join(selection.CRITERIA)}."
    )
  return None


def measures_improvement() -> bool:
  """Returns whether the cohort's losses are taken before and after rounds."""
  return _MEASURE_IMPROVEMENT.value
