"""Trains one fair algorithm on one task, and shows how fair the result is.

Without flags: AdaFed on handwritten digits, in less than a minute.
"""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
import sys
import typing
from typing import NoReturn

from binaries import command_line
from binaries.flags import (
  algorithm_flags,
  attack_flags,
  catalog,
  evaluation_flags,
  loop_flags,
  output_flags,
  sampling_flags,
  task_flags,
  training_flags,
)
from tff_fair.experiments import progress
from tff_fair.experiments.runs import folder as run_folder
from tff_fair.experiments.training import sampling

if typing.TYPE_CHECKING:
  import tasks

GROUPS = (
  task_flags,
  algorithm_flags,
  training_flags,
  sampling_flags,
  loop_flags,
  evaluation_flags,
  attack_flags,
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
  from tff_fair.experiments.training import (
    costs,
    training_run,
  )

  seed = loop_flags.seed()
  task = task_flags.load(seed)
  cohorts = sampling_flags.settings(seed, task.num_clients)
  evaluated = sampling.evaluated_clients(
    seed, task.num_clients, evaluation_flags.num_clients(task.num_clients)
  )
  selection = evaluation_flags.build_selection()
  attack = attack_flags.build(seed, task.num_clients)
  attack_flags.check_evaluated(attack, evaluated)
  process = algorithm_flags.build(
    task.model, seed=seed, num_clients=task.num_clients, attack=attack
  )
  output_flags.connect(algorithm_flags.aggregation())
  try:
    table = training_run.run(
      training_run.Plan(
        task=task,
        process=process,
        settings=loop_flags.settings(),
        cohorts=cohorts,
        costs=costs.build(
          task,
          process,
          aggregation=algorithm_flags.aggregation(),
          loss_at=algorithm_flags.loss_at(),
          epochs=training_flags.epochs(seed),
        ),
        evaluated=evaluated,
        attackers=attack.client_ids if attack else (),
        selection=selection,
        measures_improvement=evaluation_flags.measures_improvement(),
      ),
      title=f"{task.name}: {task.description}\n{algorithm_flags.describe()}",
      folders=output_flags.folders(task_flags.name(), algorithm_flags.name()),
      configuration=_configuration(task),
      flag_defaults=command_line.flag_defaults(GROUPS),
    )
  except tasks.DataError as error:
    raise command_line.UsageError(f"--data_dir: {error}") from error
  print(table)


def _configuration(task: tasks.Task) -> run_folder.Configuration:
  return {
    # As it can be given again, whichever way the program was started.
    "command": {
      "line": shlex.join(["python", "-m", "binaries.train", *sys.argv[1:]])
    },
    "data": {"description": task.description},
    "flags": {
      **command_line.flag_values(GROUPS),
      # What these come to where they are not given.
      "clients_per_round": sampling_flags.clients_per_round(task.num_clients),
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
