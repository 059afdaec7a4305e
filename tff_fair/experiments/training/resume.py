"""Resumes a run: repairs its records, and trains the remaining rounds."""

import contextlib
import functools
import math
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence

import tasks
from tff_fair import runtime
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.progress import Display, Say
from tff_fair.experiments.runs import (
  checkpoints,
  checksums,
  discovery,
  integrity,
  tape_files,
  trained_model,
)
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import (
  build,
  build_rounds,
  client_data,
  client_evaluation,
  client_updates,
  correction,
  event_files,
  loop,
  plots,
  round_tables,
  saved_states,
  wandb_log,
)
from tff_fair.experiments.training.callbacks import Callbacks, RoundCallback
from tff_fair.experiments.training.early_stopping import StationarityStop
from tff_fair.experiments.training.round_progress import RoundProgress
from tff_fair.experiments.training.saved_states import Checkpoints


def train(
  folder: RunFolder,
  spec: RunSpec,
  parts: build.RunParts,
  display: Display,
  *,
  wandb: str | None = None,
  users: Sequence[RoundCallback] = (),
) -> bool:
  """Trains up to the last round; returns whether a callback pruned the run."""
  folder.check_place()
  sample = build_rounds.sampler(spec, parts)
  schedule = parts.schedule
  if (last := saved_states.stop_round(folder)) is not None:
    schedule = schedule.ending_after(last)
  completed = roll_back(
    folder,
    schedule,
    num_reporting=lambda round_num: (
      None if spec.draws_by_lambda else len(sample(round_num).reporting)
    ),
    num_evaluated=len(parts.evaluated_ids),
    taped_rounds=(spec.tape_rounds or spec.total_rounds) if spec.tape else 0,
    say=display.say,
  )
  folder.pruned.unlink(missing_ok=True)
  if not folder.model.exists():
    _describe_model(folder, spec, parts.task, display.say)
  display.say(
    f"{folder.path}: resuming after round {completed}."
    if completed
    else f"{folder.path}: a new run."
  )
  parts, weights = correction.correct(folder, spec, parts, display.say)
  builtin = _builtin_callbacks(folder, spec, parts, display, wandb)
  if spec.sampling == "power_of_choice":
    builtin.append(sample.last_losses)
  with (
    _open_client_data(spec, parts.task) as data,
    Callbacks(builtin, users, display.say) as callbacks,
  ):
    callbacks.start(discovery.read_run(folder.path))
    schedule = loop.train(
      build_rounds.rounds(
        spec, parts, sample, data.train, weights, callbacks.wants_updates
      ),
      schedule,
      evaluate=client_evaluation.build_evaluation(
        parts, data.test, data.validation
      ),
      states=Checkpoints(
        folder.checkpoints,
        folder.round_tables,
        folder.check_place,
        functools.partial(
          integrity.write_checksums, folder, checksums.Hasher()
        ),
      ),
      callbacks=callbacks,
    )
  if callbacks.verdict == "stop":
    display.say(
      f"{folder.path}: {callbacks.reason}; training ends, and round "
      f"{schedule.total_rounds} is the last."
    )
  return callbacks.verdict == "prune"


def _describe_model(
  folder: RunFolder, spec: RunSpec, task: tasks.Task, say: Say
) -> None:
  architecture = trained_model.Architecture.of_task(
    task,
    lambda error: say(
      f"{folder.path}: the model has parts that its description cannot hold "
      f"({error}), so exports take its code from {spec.model or spec.task}: "
      "keep that, or build the model from Keras' own layers."
    ),
  )
  architecture.write(folder.model)


def prepare_fine_tuning(
  folder: RunFolder, parts: build.RunParts, say: Say
) -> None:
  """Prepares a finished run's folder and callbacks for fine-tuning."""
  say(
    f"{folder.path}: the run is finished; its results stay until the "
    "fine-tuning ends."
  )
  _say_changes(folder, say)
  folder.remove_leftovers()
  if parts.best_tracker is not None:
    parts.best_tracker.on_start(discovery.read_run(folder.path))


def _builtin_callbacks(
  folder: RunFolder,
  spec: RunSpec,
  parts: build.RunParts,
  display: Display,
  wandb: str | None,
) -> list[RoundCallback]:
  """Returns the library's own callbacks for a run, in calling order."""
  best, bound = parts.best_tracker, spec.stop_at_stationarity
  best_states = Checkpoints(folder.best_checkpoint, check=folder.check_place)
  found = [
    None
    if display.is_silent
    else RoundProgress(
      parts.schedule.total_rounds, count=runtime.count_clients
    ),
    None if bound is None else StationarityStop(bound),
    None
    if spec.save_updates is None
    else client_updates.UpdateSaver(folder, spec.save_updates),
    best,
    round_tables.TableWriter(folder),
    event_files.TensorBoard(folder),
    None
    if wandb is None
    else wandb_log.Wandb(folder, spec, wandb, display.say),
    plots.PlotPreloader(),
    saved_states.TapeWriter(folder, spec.tape_rounds or math.inf)
    if spec.tape
    else None,
    None if best is None else saved_states.BestStateSaver(best_states),
  ]
  return [callback for callback in found if callback is not None]


def _open_client_data(
  spec: RunSpec, task: tasks.Task
) -> contextlib.AbstractContextManager[client_data.RunData]:
  if not runtime.workers_can_build_data():
    return client_data.open_datasets(task)
  at_workers = functools.partial(client_data.DataAtWorkers, spec, task)
  return contextlib.nullcontext(
    client_data.RunData(
      at_workers("train"),
      at_workers("test"),
      None if task.validation is None else at_workers("validation"),
    )
  )


def roll_back(
  folder: RunFolder,
  schedule: loop.Schedule,
  *,
  num_reporting: Callable[[int], int | None],
  num_evaluated: int,
  say: Say,
  taped_rounds: int = 0,
) -> int:
  """Removes records after the last complete round; returns that round's number.

  A state is saved after the rows of its rounds, so only a damaged disk loses
  parts of a saved round. The run then resumes after an earlier complete round,
  and moves the later states to the folder `set_aside`; if no round is complete,
  it stops and changes nothing. If the only state is incomplete, its saving was
  interrupted, and the run starts over.
  """
  rows = {
    table: round_tables.count_rows(table) for table in folder.round_tables
  }
  completed = 0
  doubts: dict[int, str] = {}
  saved = checkpoints.saved_rounds(folder.checkpoints)
  for round_num in reversed(saved):
    doubt = _damage(
      checkpoints.path(folder.checkpoints, round_num)
    ) or _missing_rows(
      folder,
      rows,
      round_num,
      evaluated=schedule.last_evaluation(round_num),
      num_reporting=num_reporting(round_num),
      num_evaluated=num_evaluated,
    )
    if doubt is None and round_num <= taped_rounds:
      doubt = _missing_on_tape(folder, round_num)
    if doubt is None:
      completed = round_num
      break
    doubts[round_num] = doubt
  if doubts and not completed and not _was_saving_the_first(folder, saved):
    raise _no_complete_round_error(folder, doubts)

  kept_best_states: list[pathlib.Path] = []
  lost_best_states: list[pathlib.Path] = []
  for round_num in checkpoints.saved_rounds(folder.best_checkpoint):
    is_kept = round_num <= completed and schedule.evaluates(round_num)
    states = kept_best_states if is_kept else lost_best_states
    states.append(checkpoints.path(folder.best_checkpoint, round_num))
  for state in kept_best_states:
    if (doubt := _damage(state)) is not None:
      say(
        f"{state}: this best state is kept as it is, but {doubt}; it cannot be "
        "exported."
      )
  _say_changes(folder, say)
  # Nothing in the folder has changed up to here. The checksums would report the
  # rows that are removed below, so remove the checksums first.
  folder.checksums.unlink(missing_ok=True)
  folder.remove_leftovers()
  _set_states_aside(folder, doubts, completed, say)
  for state in lost_best_states:
    if doubts:
      folder.move_to_set_aside(state)
    else:
      shutil.rmtree(state)
  of_evaluations = (folder.evaluations, folder.client_evaluations)
  # A run that starts over also repeats the evaluation before training, round 0.
  last_kept = completed or -1
  for table in folder.round_tables:
    is_due = schedule.evaluates if table in of_evaluations else lambda _: True
    round_tables.keep_rounds(table, last_kept, is_due)
  event_files.keep_rounds(folder, last_kept, schedule.evaluates)
  if taped_rounds:
    tape_files.keep_rounds(folder, completed)
  return completed


def _say_changes(folder: RunFolder, say: Say) -> None:
  if found := integrity.changes(folder, verify=folder.is_saved):
    changes = integrity.describe_changes(folder.path, found)
    say(f"{changes} The run resumes all the same.")


def _set_states_aside(
  folder: RunFolder, doubts: Mapping[int, str], completed: int, say: Say
) -> None:
  for round_num, doubt in doubts.items():
    state = checkpoints.path(folder.checkpoints, round_num)
    place = folder.move_to_set_aside(state)
    say(
      f"{folder.path}: round {round_num} was saved, but {doubt}. Its state is "
      f"in {place.relative_to(folder.path)} now, and the run resumes after "
      f"round {completed}."
    )


def _was_saving_the_first(folder: RunFolder, saved: Sequence[int]) -> bool:
  return len(saved) == 1 and not checkpoints.is_complete(
    checkpoints.path(folder.checkpoints, saved[0])
  )


def _no_complete_round_error(
  folder: RunFolder, doubts: Mapping[int, str]
) -> RunError:
  found = "; ".join(
    f"round {round_num} was saved, but {doubt}"
    for round_num, doubt in doubts.items()
  )
  return RunError(
    f"{folder.path}: cannot resume: {found}. Nothing was changed. Put back "
    "what is missing, or start anew in another folder; to start anew in this "
    f"one, move {folder.checkpoints} away."
  )


def _damage(state: pathlib.Path) -> str | None:
  damage = checkpoints.find_damage(state)
  return damage and f"its state is damaged: {damage}"


def _missing_on_tape(folder: RunFolder, round_num: int) -> str | None:
  try:
    found = tape_files.has_round(folder, round_num)
  except RunError as error:
    return f"its tape cannot be read: {error}"
  return None if found else f"{folder.tape.name} lacks round {round_num}"


def _missing_rows(
  folder: RunFolder,
  rows: Mapping[pathlib.Path, Mapping[int, int]],
  saved: int,
  *,
  evaluated: int,
  num_reporting: int | None,
  num_evaluated: int,
) -> str | None:
  """Returns a phrase on a table that lacks rows for round `saved`, or None."""
  for table, round_num, number in (
    *((t, saved, 1) for t in (folder.metrics, folder.timing, folder.costs)),
    (folder.cohorts, saved, num_reporting),
    (folder.evaluations, evaluated, 1),
    (folder.client_evaluations, evaluated, num_evaluated),
  ):
    found = rows[table].get(round_num, 0)
    # If DRFA's lambda draws the clients, their number is not known here.
    if found == number or (number is None and found):
      continue
    if not table.exists():
      return f"{table.name} is missing"
    return f"{table.name} has {found} of the {number} rows of round {round_num}"
  return None
