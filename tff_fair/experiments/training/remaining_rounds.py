"""The rounds of a run that are left: its folder and plan, put into the loop."""

import contextlib
from collections.abc import Callable, Sequence

import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.experiments import progress as progress_report
from tff_fair.experiments.correcting import stages
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.progress import Say
from tff_fair.experiments.runs import architecture, finding
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import ROUND
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import (
  assembly,
  client_data,
  data_at_workers,
  loop,
  population,
  release,
  resumption,
  rounds,
  sampling,
)
from tff_fair.experiments.training.selection import Selection
from tff_fair.rounds import own_rows


def train(
  folder: RunFolder,
  spec: RunSpec,
  plan: assembly.Plan,
  say: Say,
  progress: bool,
  also: Sequence[tff.program.ReleaseManager],
  pruning: loop.Pruning | None,
) -> None:
  """Trains up to the last round, unless a selection or pruning ends it before.

  Args:
    folder: The folder of the run, which gets all that comes of it.
    spec: The run.
    plan: Its parts.
    say: Takes a line about the run.
    progress: Whether to show how the rounds get on.
    also: Further places for the evaluations.
    pruning: Ends a run of a search early, if it promises too little.

  Raises:
    RunError: If what the folder has of earlier rounds is damaged.
    Interrupted: If a signal came; the last round is saved.
  """
  sample = sampling.Sampler(plan.cohorts, plan.task.train.num_examples)
  schedule = loop.Schedule(
    spec.total_rounds,
    spec.evaluation_interval,
    spec.rounds_per_checkpoint,
  )
  completed = _go_back(folder, plan, schedule, sample, say)
  folder.pruned.unlink(missing_ok=True)
  if pruning is not None:
    _recall_clients(folder, pruning)
  best_manager = None
  if plan.selection is not None:
    recall_evaluations(folder, plan.selection)
    best_manager = release.open_best_checkpoints(folder)
  if not folder.model.exists():
    architecture.Architecture.of_task(plan.task).write(folder.model)
  say(
    f"{folder.path}: going on after round {completed}."
    if completed
    else f"{folder.path}: a new run."
  )
  plan, weights = stages.correct(folder, spec, plan, say)
  with (
    _data(spec, plan) as (train_data, test_data),
    progress_report.follow(
      spec.total_rounds,
      completed_rounds=completed,
      count=runtime.count_clients,
      is_silent=not progress,
    ) as report_progress,
  ):
    loop.train(
      _rounds(spec, plan, sample, train_data, report_progress, weights),
      schedule,
      evaluate=_evaluation(plan, test_data, report_progress),
      state_manager=release.open_checkpoints(folder),
      releases=release.open_releases(folder, also),
      report_progress=report_progress,
      selection=plan.selection,
      best_manager=best_manager,
      pruning=pruning,
    )
  if plan.selection is not None and plan.selection.is_exhausted:
    say(
      f"{folder.path}: {plan.selection.num_without_improvement} evaluations in "
      f"a row have not improved {_column(plan.selection)}; that is enough."
    )


def _go_back(
  folder: RunFolder,
  plan: assembly.Plan,
  schedule: loop.Schedule,
  sample: sampling.Sampler,
  say: Say,
) -> int:
  """Returns the last whole round, and removes what is left of later ones."""
  return resumption.go_back(
    folder,
    total_rounds=schedule.total_rounds,
    rounds_per_evaluation=schedule.rounds_per_evaluation,
    num_reporting=lambda round_num: len(sample(round_num).reporting),
    num_evaluated=len(plan.evaluated),
    say=say,
  )


def _data(
  spec: RunSpec, plan: assembly.Plan
) -> contextlib.AbstractContextManager[
  tuple[data_at_workers.Clients, data_at_workers.Clients]
]:
  """Opens the training and the test data of a run's clients."""
  if plan.worker_data is None and runtime.builds_data():
    return contextlib.nullcontext(data_at_workers.halves(spec, plan.task))
  return client_data.opened(plan.task, plan.worker_data)


def _rounds(
  spec: RunSpec,
  plan: assembly.Plan,
  sample: sampling.Sampler,
  train_data: data_at_workers.Clients,
  follower: progress_report.Follower,
  initial_weights: tff.learning.models.ModelWeights | None,
) -> rounds.Rounds:
  """Returns the rounds of a run, which the follower tells of."""

  def prepare(round_num: int) -> None:
    if round_num <= spec.total_rounds:
      train_data.prepare(sample(round_num).reporting)

  process: rounds.Process = plan.process
  if plan.next_of_own is not None:
    process = own_rows.OwnRowsProcess(
      plan.process, plan.next_of_own, spec.clients_per_part
    )
  return rounds.Rounds(
    process=process,
    sample=sample,
    train_data=train_data,
    costs=plan.costs,
    losses=population.build_losses(plan.task, train_data, plan.cache)
    if spec.measure_improvement
    else None,
    prepare=prepare,
    watch=follower.watch,
    num_examples=plan.task.train.num_examples,
    tell=follower.note,
    initial_weights=initial_weights,
  )


def _evaluation(
  plan: assembly.Plan,
  test_data: data_at_workers.Clients,
  follower: progress_report.Follower,
) -> Callable[[rounds.State], loop.Evaluation]:
  """Returns the evaluation of a run, which the follower tells of."""
  evaluate = population.build_evaluation(
    plan.task,
    plan.process,
    test_data=test_data,
    client_ids=plan.evaluated,
    attackers=plan.attackers,
    cache=plan.cache,
  )
  # The global model is evaluated, too.
  has_personal = population.has_personal_models(plan.process)
  passes = 2 if has_personal else 1

  def watched(state: rounds.State) -> loop.Evaluation:
    with follower.watch("evaluation", len(plan.evaluated), passes):
      return evaluate(state)

  return watched


def recall_evaluations(folder: RunFolder, selection: Selection) -> None:
  """Tells a selection the evaluations that the folder of a run has.

  Args:
    folder: The folder.
    selection: The selection, which knows none yet.

  Raises:
    RunError: If their table lacks what the selection follows.
  """
  rows = finding.open_run(folder.path).evaluations
  column = _column(selection)
  if column not in rows and len(rows):
    raise RunError(f"{folder.evaluations}: has no column {column!r}.")
  for row in rows.to_dict("records"):
    if row[ROUND] > 0:
      selection.add(int(row[ROUND]), {selection.criterion: row[column]})


def _column(selection: Selection) -> str:
  """Returns the column of evaluations that a selection follows."""
  return f"{selection.score.name}/{selection.criterion}"


def _recall_clients(folder: RunFolder, pruning: loop.Pruning) -> None:
  """Tells a pruning the evaluations that the folder of a run has."""
  rows = finding.open_run(folder.path).client_evaluations
  for round_num, clients in rows[rows[ROUND] > 0].groupby(ROUND):
    pruning.add(int(round_num), {n: clients[n].to_numpy() for n in clients})
