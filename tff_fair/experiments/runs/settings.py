"""The settings of a saved run: its flags, and all that decides its results.

Flags have their own names, options of the task that of `TASK_OPTION` before
them, hyperparameters that of `HPARAM`.
"""

from typing import Any

import tasks
from tff_fair.experiments import seeds
from tff_fair.experiments.runs import configuration, own_files
from tff_fair.experiments.runs.configuration import Configuration
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.spec_text import HPARAM, TASK_OPTION

# Flags that decide nothing, and those that a setting holds under another name.
_NO_SETTINGS = (
  *("hparam", "task_option", "output_dir", "workers", *seeds.NAMES),
  *("rounds_per_checkpoint", "measure_improvement"),
)


def flags(config: Configuration) -> dict[str, Any]:
  """Returns all flags; those that the program did not have yet, by defaults."""
  fields = RunSpec.fields().values()
  return {
    **{field.name: field.default for field in fields},
    **configuration.FORMER,
    "task_option": [],
    **config[configuration.FLAGS],
  }


def task_options(config: Configuration) -> dict[str, str]:
  """Returns the options of the task: how its data is cut, and its model."""
  task = str(config[configuration.FLAGS]["task"])
  options = (text.partition("=") for text in flags(config)["task_option"])
  return {
    name: str(tasks.current_option(task, name, value))
    for name, _, value in options
  }


def deciding(config: Configuration) -> dict[str, object]:
  """Returns all that decides the results but the seeds, by flat names.

  Settings without a value are left out.
  """
  # Runs whose cohorts are one part do not differ in it.
  found = {
    **flags(config),
    configuration.PART: configuration.part_size(config),
  }
  return {
    **{
      name: value
      for name, value in found.items()
      if name not in _NO_SETTINGS and value not in (None, False, [])
    },
    **{f"{TASK_OPTION}{n}": value for n, value in task_options(config).items()},
    **{
      f"{HPARAM}{name}": value
      for name, value in config.get(configuration.HPARAMS, {}).items()
      if value is not None
    },
    # Runs of two versions of a user's file are no seeds of one.
    **own_files.short(config.get(configuration.OWN_FILES, {})),
  }
