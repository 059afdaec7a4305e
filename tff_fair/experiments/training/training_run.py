"""A training run from beginning to end, in a folder of its own."""

import asyncio
import dataclasses
import errno
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import tensorflow_federated as tff

import tasks
from tff_fair.experiments import interruption, progress
from tff_fair.experiments.errors import RunError as UsageError
from tff_fair.experiments.runs import folder as run_folder
from tff_fair.experiments.training import loop as training_loop
from tff_fair.experiments.training import (
  population,
  release,
  resumption,
  rounds,
  sampling,
)
from tff_fair.experiments.training import results as run_results
from tff_fair.experiments.training.selection import Selection

_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
  """What a run does.

  Attributes:
    task: The clients and the model.
    process: The learning process for the model.
    settings: How long to train, and when to evaluate and save.
    cohorts: How the clients of a round are drawn.
    costs: Returns what a round costs, from the state before it and its cohort.
    evaluated: int64[n], the clients that are evaluated, in ascending order.
    attackers: The clients that attack.
    selection: Finds the best evaluation; `None` if nobody asks.
    measures_improvement: Whether the losses of the cohort are taken before and
      after each round.
  """

  task: tasks.Task
  process: tff.learning.templates.LearningProcess
  settings: training_loop.Settings
  cohorts: sampling.Sampling
  costs: Callable[[Any, sampling.Cohort], Mapping[str, int]]
  evaluated: np.ndarray
  attackers: Sequence[int]
  selection: Selection | None
  measures_improvement: bool


def run(
  plan: Plan,
  *,
  title: str,
  folders: Iterable[pathlib.Path],
  configuration: run_folder.Configuration,
  flag_defaults: Mapping[str, Any],
) -> str:
  """Trains, evaluates and reports; goes on where the same run was interrupted.

  Args:
    plan: What to do.
    title: What is said of the run when it begins.
    folders: The folders that may take the results; the first that is free does.
    configuration: All that decides the results.
    flag_defaults: What the flags in it are where they are not given.

  Returns:
    The fairness table, to be shown.

  Raises:
    Interrupted: If a signal came; its advice says how to go on.
    UsageError: If no folder can be had, or there is no room in it.
    tasks.DataError: If the data of a client cannot be used.
  """
  population.check_data(plan.task)
  with run_folder.take_folder(
    folders, configuration, flag_defaults=flag_defaults
  ) as folder:
    progress.say(title)
    try:
      _train(folder, plan)
      table = run_results.write(
        folder, plan.task, selection=plan.selection, attackers=plan.attackers
      )
    except interruption.Interrupted as interrupted:
      interrupted.advice = _advice(folder, plan.settings)
      raise
    except Exception as error:
      # TensorFlow has errors of its own for it, of several kinds.
      if not (full := [text for text in _FULL if text in str(error)]):
        raise
      raise UsageError(
        f"--output_dir={folder.path}: {full[0]}; make room. "
        f"{_advice(folder, plan.settings)}"
      ) from error
    progress.say(f"{folder.path}: done; it holds all tables and plots.\n")
  return table


def _train(folder: run_folder.RunFolder, plan: Plan) -> None:
  task, process, settings = plan.task, plan.process, plan.settings
  train_data = population.client_data(task.train_data)
  sample = sampling.Sampler(plan.cohorts, task.train.num_examples)
  folder.remove_leftovers()
  completed = resumption.go_back(
    folder,
    settings,
    num_reporting=lambda round_num: len(sample(round_num).reporting),
    num_evaluated=len(plan.evaluated),
  )
  best_manager = None
  if plan.selection is not None:
    _remember_evaluations(folder, plan.selection)
    best_manager = release.open_best_checkpoints(folder)
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
        rounds.Rounds(
          process,
          sample=sample,
          train_data=train_data,
          costs=plan.costs,
          losses=population.build_losses(task, train_data)
          if plan.measures_improvement
          else None,
        ),
        settings=settings,
        evaluate=population.build_evaluation(
          task,
          process,
          client_ids=plan.evaluated,
          attackers=plan.attackers,
        ),
        state_manager=release.open_checkpoints(folder),
        releases=release.open_releases(folder),
        report_progress=report_progress,
        selection=plan.selection,
        best_manager=best_manager,
      )
    )
  if plan.selection is not None and plan.selection.is_exhausted:
    progress.say(
      f"{folder.path}: {plan.selection.num_without_improvement} evaluations in "
      f"a row have not improved accuracy/{plan.selection.criterion}; that is "
      "enough."
    )


def _remember_evaluations(
  folder: run_folder.RunFolder, selection: Selection
) -> None:
  if folder.evaluations.exists():
    rows = pd.read_csv(folder.evaluations, float_precision="round_trip")
    values = rows[f"accuracy/{selection.criterion}"]
    for round_num, value in zip(rows["round"], values, strict=True):
      selection.add(int(round_num), {selection.criterion: value})


def _advice(
  folder: run_folder.RunFolder, settings: training_loop.Settings
) -> str:
  if not folder.is_saved:
    return "No round was complete, nothing is kept."
  return (
    f"{release.last_saved_round(folder)} of {settings.total_rounds} rounds are "
    f"saved in {folder.path}; the same command goes on from there."
  )
