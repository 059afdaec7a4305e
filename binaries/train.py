"""Trains one fair algorithm on one task, and shows how fair the result is.

Without flags: AdaFed on handwritten digits, in less than a minute.
"""

import importlib.metadata
import platform
import shlex
import sys
from typing import NoReturn

from binaries import (
  algorithm_flags,
  catalog,
  command_line,
  loop_flags,
  output_flags,
  progress,
  run_folder,
  task_flags,
  training_flags,
  training_loop,
)

GROUPS = (
  task_flags,
  algorithm_flags,
  training_flags,
  loop_flags,
  output_flags,
)
_PACKAGES = ("numpy", "tensorflow", "tensorflow-federated")


def main() -> None:
  """Trains as the flags say."""
  output_flags.check()
  if catalog.is_wanted():
    print(catalog.text())
    return
  progress.say_on_screen("Loading TensorFlow Federated ...")
  # Imported late: it takes seconds, which a mistyped flag should not.
  import tasks  # noqa: PLC0415
  from binaries import training_run  # noqa: PLC0415

  task = task_flags.load(loop_flags.seed())
  settings = loop_flags.settings(task.num_clients)
  process = algorithm_flags.build(
    task.model_fn, seed=settings.seed, num_clients=task.num_clients
  )
  output_flags.connect(algorithm_flags.aggregation())
  try:
    table = training_run.run(
      task,
      process,
      settings,
      title=f"{task.name}: {task.description}\n{algorithm_flags.describe()}",
      folders=output_flags.folders(task_flags.name(), algorithm_flags.name()),
      configuration=_configuration(task.description, settings),
    )
  except tasks.DataError as error:
    raise command_line.UsageError(f"--data_dir: {error}") from error
  print(table)


def _configuration(
  data: str, settings: training_loop.Settings
) -> run_folder.Configuration:
  return {
    "command": {"line": shlex.join(sys.argv)},
    "data": {"description": data},
    "flags": {
      **command_line.flag_values(GROUPS),
      # What these come to where they are not given.
      "clients_per_round": settings.clients_per_round,
      "aggregation": algorithm_flags.aggregation(),
    },
    "hparams": algorithm_flags.hparams(),
    "versions": {
      "python": platform.python_version(),
      **{name: importlib.metadata.version(name) for name in _PACKAGES},
    },
  }


def run() -> NoReturn:
  """Starts the program: the console script `tff-fair-train`."""
  command_line.run(main, description=str(__doc__), groups=(*GROUPS, catalog))


if __name__ == "__main__":
  run()
