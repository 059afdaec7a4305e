"""Trains one fair algorithm on one task, and shows how fair the result is.

Without flags: AdaFed on handwritten digits, in less than a minute.
"""

import asyncio
import importlib.metadata
import shlex
import sys
from typing import NoReturn

from binaries import (
  algorithm_flags,
  catalog,
  command_line,
  interruption,
  loop_flags,
  output_flags,
  progress,
  run_folder,
  task_flags,
  training_flags,
  training_loop,
)

_GROUPS = (
  task_flags,
  algorithm_flags,
  training_flags,
  loop_flags,
  output_flags,
  catalog,
)
_PACKAGES = ("numpy", "tensorflow", "tensorflow-federated")


def main() -> None:
  """Trains as the flags say."""
  output_flags.check()
  if catalog.is_wanted():
    print(catalog.text())
    return
  progress.say("Loading TensorFlow Federated ...")
  # Imported late: TensorFlow Federated takes seconds, which a mistyped flag
  # should not.
  import tasks  # noqa: PLC0415
  from binaries import population, release, report  # noqa: PLC0415

  task = task_flags.load(loop_flags.seed())
  settings = loop_flags.settings(task.num_clients)
  process = algorithm_flags.build(
    task.model_fn, seed=settings.seed, num_clients=task.num_clients
  )
  evaluate = population.build_evaluation(task)
  output_flags.connect()
  try:
    population.check_data(task)
    with run_folder.take_folder(
      output_flags.folders(task_flags.name(), algorithm_flags.name()),
      _configuration(task.description),
    ) as folder:
      ...
  except tasks.DataError as error:
    raise command_line.UsageError(f"--data_dir: {error}") from error
