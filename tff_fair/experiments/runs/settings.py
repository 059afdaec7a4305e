"""The settings of a saved run: its flags, and all that decides its results.

Flags have their own names, options of the task that of `TASK_OPTION` before
them, hyperparameters that of `HPARAM`.
"""

from collections.abc import Mapping
from typing import Any

from tff_fair.experiments import number_range, seeds, settings
from tff_fair.experiments.runs import configuration, own_files
from tff_fair.experiments.runs.configuration import Configuration
from tff_fair.experiments.spec_text import HPARAM, TASK_OPTION

# Flags that decide nothing, and those that a setting holds under another name.
_NO_SETTINGS = (
  *("hparam", "task_option", "output_dir", "workers", *seeds.NAMES),
  *("rounds_per_checkpoint", "measure_improvement"),
)


def task_options(config: Configuration) -> dict[str, str]:
  """Returns the options of the task: how its data is cut, and its model."""
  options = config[configuration.FLAGS]["task_option"]
  assignments = (text.partition("=") for text in options)
  return {name: value for name, _, value in assignments}


def deciding(config: Configuration) -> dict[str, object]:
  """Returns all that decides the results but the seeds, by flat names.

  Settings without a value are left out.
  """
  flags = config[configuration.FLAGS]
  # Runs whose cohorts are one part do not differ in it.
  found = {**flags, configuration.PART: _part_size(flags)}
  return {
    **{
      name: value
      for name, value in found.items()
      if name not in _NO_SETTINGS and value not in (None, False, [])
    },
    **{f"{TASK_OPTION}{n}": value for n, value in task_options(config).items()},
    **{
      f"{HPARAM}{name}": value
      for name, value in config[configuration.HPARAMS].items()
      if value is not None
    },
    # Runs of two versions of a user's file are no seeds of one.
    **own_files.short(config.get(configuration.OWN_FILES, {})),
    **_initial_weights(config),
  }


def _part_size(flags: Mapping[str, Any]) -> int:
  """Returns the size of the parts of cohorts; 0 if each cohort is one part."""
  cohort = flags["clients_per_round"]
  return settings.part_size(
    flags[configuration.PART],
    number_range.bounds(cohort)[1] if number_range.is_valid(cohort) else None,
  )


def _initial_weights(config: Configuration) -> dict[str, object]:
  """Returns the version of the weights that a file or another run has.

  Weights that the user's code makes may follow from the seed; its file decides.
  """
  group = config.get(configuration.INITIAL_WEIGHTS, {})
  found = config[configuration.FLAGS]
  if not group or not (found["initial_model"] or found["initial_run"]):
    return {}
  digest = str(group.get(configuration.SHA256))
  return {configuration.INITIAL_WEIGHTS: digest[: own_files.SHORT]}
