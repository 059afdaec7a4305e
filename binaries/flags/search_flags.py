"""Search: instead of every combination, settings that Optuna suggests.

Needs the package optuna: pip install "tff-fair[search]".
"""

from absl import flags

from binaries.flags import sweep_flags
from tff_fair.declared import FieldError
from tff_fair.experiments.searching import settings
from tff_fair.experiments.searching.settings import (
  PRUNERS,
  SAMPLERS,
  SearchSettings,
)
from tff_fair.experiments.sweeps.file import Sweep


def _described(valid: dict[str, str]) -> str:
  return "; ".join(f"{name}, {meaning}" for name, meaning in valid.items())


_TRIALS = flags.DEFINE_integer(
  "trials",
  None,
  "How many settings each method tries: --range and the values of --grid are "
  "searched. A trial trains all seeds.",
  flag_values=sweep_flags.NAMESPACE,
)
_SAMPLER = flags.DEFINE_string(
  "sampler",
  None,
  f"Who suggests settings (by default tpe): {_described(SAMPLERS)}.",
  flag_values=sweep_flags.NAMESPACE,
)
_SAMPLER_SEED = flags.DEFINE_integer(
  "sampler_seed",
  None,
  "Seed of the sampler, by default 0.",
  flag_values=sweep_flags.NAMESPACE,
)
_OBJECTIVE = flags.DEFINE_string(
  "objective",
  None,
  "The measure to improve, one of those of --criterion, which it is by "
  "default; several, as mean,worst_10, for a Pareto set.",
  flag_values=sweep_flags.NAMESPACE,
)
_PRUNER = flags.DEFINE_string(
  "pruner",
  None,
  "Who ends runs early, after one of their evaluations (by default none): "
  f"{_described(PRUNERS)}.",
  flag_values=sweep_flags.NAMESPACE,
)
_FLAGS = {
  "trials": _TRIALS,
  "sampler": _SAMPLER,
  "sampler_seed": _SAMPLER_SEED,
  "objective": _OBJECTIVE,
  "pruner": _PRUNER,
}


def search(sweep: Sweep) -> SearchSettings | None:
  """Returns how to search; None if every combination is to run.

  The flags replace what the file of the sweep says.

  Raises:
    FieldError: If a flag or a value of the file is not valid.
  """
  given = {
    name: flag.value for name, flag in _FLAGS.items() if flag.value is not None
  }
  values = {
    "objective": sweep_flags.criterion(),
    "validation_fraction": sweep_flags.validation_fraction(),
    **sweep.search,
    **given,
  }
  if "trials" not in values:
    for name in (*given, *sweep.search):
      raise FieldError(
        name, "is of a search; say how many --trials it has, or leave it out."
      )
    return None
  found = SearchSettings.from_dict(sweep.place, values)
  settings.check_installed()
  return found
