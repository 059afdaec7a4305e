"""A training run from beginning to end, in a folder of its own."""

import asyncio
import pathlib
from collections.abc import Iterable

import tensorflow_federated as tff

import tasks
from binaries import (
  interruption,
  population,
  progress,
  release,
  run_folder,
  run_results,
  training_loop,
)


def run(
  task: tasks.Task,
  process: tff.learning.templates.LearningProcess,
  settings: training_loop.Settings,
  *,
  title: str,
  folders: Iterable[pathlib.Path],
  configuration: run_folder.Configuration,
) -> str:
  """Trains, evaluates and reports; goes on where the same run was interrupted.

  Args:
    task: The clients and the model.
    process: The learning process for the model.
    settings: How long to train, and when to evaluate and save.
    title: What is said of the run when it begins.
    folders: The folders that may take the results; the first that is free does.
    configuration: All that decides the results.

  Returns:
    The fairness table, to be shown.

  Raises:
    Interrupted: If a signal came; its advice says how to go on.
    UsageError: If no folder can be had.
    tasks.DataError: If the data of a client cannot be used.
  """
  population.check_data(task)
  with run_folder.take_folder(folders, configuration) as folder:
    progress.say(title)
    try:
      _train(folder, task, process, settings)
    except interruption.Interrupted as interrupted:
      interrupted.advice = _advice(folder, settings)
      raise
    table = run_results.write(folder, task)
    progress.say(f"{folder.path}: done; it holds all tables and plots.\n")
  return table


def _train(
  folder: run_folder.RunFolder,
  task: tasks.Task,
  process: tff.learning.templates.LearningProcess,
  settings: training_loop.Settings,
) -> None:
  folder.remove_leftovers()
  completed = release.last_saved_round(folder)
  for table in folder.round_tables:
    release.keep_rounds(table, completed)
  progress.say(
    f"{folder.path}: going on after round {completed}."
    if completed
    else f"{folder.path}: a new run."
  )
  with progress.Progress(
    settings.total_rounds, completed_rounds=completed
  ) as report_progress:
    asyncio.run(
      training_loop.train(
        process,
        settings=settings,
        num_clients=task.num_clients,
        train_data=population.client_data(task.train_data),
        evaluate=population.build_evaluation(task, process),
        state_manager=release.open_checkpoints(folder),
        releases=release.open_releases(folder),
        report_progress=report_progress,
      )
    )


def _advice(
  folder: run_folder.RunFolder, settings: training_loop.Settings
) -> str:
  if not folder.is_saved:
    return "No round was complete, nothing is kept."
  return (
    f"{release.last_saved_round(folder)} of {settings.total_rounds} rounds are "
    f"saved in {folder.path}; the same command goes on from there."
  )
