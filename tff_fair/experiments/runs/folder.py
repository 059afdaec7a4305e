"""Names the files in the folder of a run, and checks and claims the folder."""

import contextlib
import itertools
import os
import pathlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tff_fair.experiments import progress
from tff_fair.experiments.errors import FolderTakenError, RunError
from tff_fair.experiments.runs import checkpoints, checksums, claim
from tff_fair.experiments.runs.configuration import (
  RESOLVED,
  SPEC,
  Configuration,
  differences,
  has_fewer_rounds,
  is_extended_by,
  problem,
)
from tff_fair.experiments.spec.scores import BY_NAME, Score
from tff_fair.files import atomic, parsing


class RunFolder:
  """The paths of a run's files. Errors begin with the path of the folder."""

  def __init__(self, path: pathlib.Path) -> None:
    self.path = path
    self.config = path / "config.json"
    self.model = path / "model.json"
    self.metrics = path / "metrics.csv"
    self.timing = path / "timing.csv"
    self.costs = path / "costs.csv"
    self.cohorts = path / "cohorts.csv"
    self.evaluations = path / "evaluations.csv"
    self.client_evaluations = path / "client_evaluations.csv"
    self.checkpoints = path / "checkpoints"
    self.best_checkpoint = path / "best_checkpoint"
    self.tape = path / "tape"
    self.updates = path / "updates"
    self.replay = path / "replay.csv"
    self.ceiling = path / "ceiling.json"
    self.tensorboard = path / "tensorboard"
    self.wandb = path / "wandb"
    self.label_correction = path / "label_correction.npz"
    self.label_corrections = path / "label_correction.csv"
    self.local_baseline = path / "local_baseline.npz"
    self.pooled_baseline = path / "pooled_baseline.npz"
    self.clients = path / "clients.csv"
    self.labels = path / "labels.csv"
    self.groups = path / "groups.csv"
    self.fine_tuning = path / "fine_tuning.csv"
    self.curves_plot = path / "curves.png"
    self.summary = path / "summary.json"
    self.pruned = path / "pruned.json"
    self.checksums = path / checksums.FILE
    self.set_aside = path / "set_aside"
    # The configuration to write when a finished run gets fine-tuning results.
    self.next_configuration: Configuration | None = None
    # The descriptor of the folder while `hold_open` holds it open.
    self._descriptor: int | None = None

  def configuration(self) -> Configuration:
    """Returns the configuration that the run began with."""
    saved: Configuration = parsing.parse_json(self.config.read_text("utf-8"))
    return saved

  @property
  def files(self) -> tuple[pathlib.Path, ...]:
    """All files and folders that a run writes."""
    return (
      *(
        path
        for path in vars(self).values()
        if isinstance(path, pathlib.Path) and path != self.path
      ),
      *self._plots,
    )

  def plot_of(self, score: Score) -> pathlib.Path:
    """Returns the path of the plot of a score over clients."""
    return self.path / f"{score.name}_distribution.png"

  @property
  def _plots(self) -> tuple[pathlib.Path, ...]:
    return tuple(map(self.plot_of, BY_NAME.values()))

  @property
  def round_tables(self) -> tuple[pathlib.Path, ...]:
    """The tables to which each round may append rows."""
    return (
      *(self.metrics, self.timing, self.costs, self.cohorts),
      *(self.evaluations, self.client_evaluations),
    )

  @property
  def final_files(self) -> tuple[pathlib.Path, ...]:
    """The files that a lengthened run writes again, the summary first."""
    return (
      self.summary,
      self.local_baseline,
      self.pooled_baseline,
      self.clients,
      self.labels,
      self.groups,
      self.fine_tuning,
      self.curves_plot,
      *self._plots,
    )

  @property
  def recorded_files(self) -> tuple[pathlib.Path, ...]:
    """The files and folders that do not change once the run is finished."""
    passing = {
      *(self.checksums, self.replay, self.ceiling, self.tensorboard),
      *(self.wandb, self.set_aside, self.curves_plot, *self._plots),
    }
    return tuple(path for path in self.files if path not in passing)

  @property
  def is_finished(self) -> bool:
    """Whether the run has ended and written its summary."""
    return self.summary.exists()

  @property
  def is_pruned(self) -> bool:
    """Whether a search ended the run early, because it was not promising."""
    return self.pruned.exists() and not self.is_finished

  def mark_pruned(self) -> None:
    """Records that a search ended the run early, after its last saved round."""
    rounds_done = {"rounds": self.last_saved_round}
    atomic.write(self.pruned, parsing.json_text(rounds_done))

  @property
  def is_in_use(self) -> bool:
    """Whether a program, on any host, holds the claim to the folder."""
    return claim.is_held(self.config)

  @property
  def last_saved_round(self) -> int:
    """The round after which the run can resume; 0 without a saved round."""
    return max(checkpoints.saved_rounds(self.checkpoints), default=0)

  @property
  def is_saved(self) -> bool:
    """Whether the state of any round is saved, even if it is damaged."""
    return self.last_saved_round > 0

  @contextlib.contextmanager
  def hold_open(self) -> Iterator[None]:
    """Holds the folder open, so that `check_place` notices if it is moved."""
    self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
      yield
    finally:
      os.close(self._descriptor)
      self._descriptor = None

  def check_place(self) -> None:
    """Checks that the folder was not moved or removed during the run."""
    if (problem := self.displacement) is not None:
      raise RunError(problem)

  @property
  def displacement(self) -> str | None:
    """A sentence on how the folder was moved or removed; None if it was not."""
    if self._descriptor is None:
      return None
    held = os.fstat(self._descriptor)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
      if os.path.samestat(held, self.path.stat()):
        return None
    found = f"{self.path}: the folder was"
    try:
      place = os.readlink(f"/proc/self/fd/{self._descriptor}")
    except OSError:  # Not on Linux.
      place = None
    nothing = "during the run; nothing was created in its place"
    if place is None:
      return f"{found} moved or removed {nothing}."
    if place.endswith(" (deleted)"):
      return f"{found} removed {nothing}. Repeat the command to start again."
    return (
      f"{found} moved to {place} {nothing}. Move it back, and repeat the "
      "command to resume."
    )

  def move_to_set_aside(self, path: pathlib.Path) -> pathlib.Path:
    """Moves a file of the run into `set_aside`; returns its new place."""
    place = self.set_aside / path.relative_to(self.path)
    names = (place.with_name(f"{place.name}-{n}") for n in itertools.count(2))
    free = next(p for p in itertools.chain([place], names) if not p.exists())
    free.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(path, free)
    atomic.sync(free.parent)
    atomic.sync(path.parent)
    return free

  def remove_leftovers(self) -> None:
    """Removes files that a killed run had not finished writing."""
    places = (self.path, self.checkpoints, self.best_checkpoint, self.tape)
    for folder in places:
      for pattern in ("*_temp[0-9]*", f"{atomic.STAGING}*"):
        _remove(folder.glob(pattern))
    _remove(atomic.unfinished_path(path) for path in self.files)

  def check_free(self, settings: Mapping[str, Any] | None = None) -> None:
    """Checks that the folder is free, or holds a run that may continue.

    A finished run may continue if `settings` add rounds or fine-tuning.
    """
    try:
      is_finished, has_config = self.is_finished, self.config.exists()
      is_over = is_finished and not self._is_extended_by(settings)
      goes_on = has_config and not is_over
      special = [*atomic.special_files(self.path)] if goes_on else []
      below = None if has_config else _run_below(self.path)
    except OSError as error:
      raise _unusable(self.path, error) from error
    if is_over:
      raise FolderTakenError(
        f"{self.path}: holds a finished run; choose another folder, move it "
        "away, or continue it: give a larger total_rounds, or finetune_epochs "
        "if it has none."
      )
    found = [path.name for path in self.files if os.path.lexists(path)]
    if found and not has_config:
      raise FolderTakenError(
        f"{self.path}: contains {found[0]}, but no run that can be resumed; "
        "choose another folder, or move it away."
      )
    if below is not None:
      raise FolderTakenError(
        f"{self.path}: holds other runs, such as {below}, which tables and "
        "pages of this folder would no longer show; name a new folder, or one "
        f"in it, such as {self.path / 'NAME'}."
      )
    for path, kind in special:
      # Runs do not leave special files, and reading one may never end.
      raise RunError(
        f"{self.path}: {path.relative_to(self.path)} is a {kind}, not a file "
        "of a run; nothing was changed. Put the original file back."
      )

  def _is_extended_by(self, settings: Mapping[str, Any] | None) -> bool:
    """Returns whether `settings` add rounds or fine-tuning to the run."""
    if settings is None:
      return False
    try:
      return is_extended_by(self.configuration()[RESOLVED], settings)
    except (FileNotFoundError, LookupError, TypeError, ValueError):
      return False  # The folder does not hold a valid run.

  def check_usable(self, settings: Mapping[str, Any] | None = None) -> None:
    """Checks that the folder is free and writable, before slow work begins."""
    self.check_free(settings)
    self.check_writable()

  def check_writable(self) -> None:
    """Checks that the folder, or its nearest existing parent, is writable."""
    places = [self.path, *self.path.parents]
    place = next(place for place in places if os.path.lexists(place))
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
      raise RunError(
        f"{self.path}: cannot be written to: {place} is not a folder that you "
        "may write to; choose another folder."
      )


@contextlib.contextmanager
def take_folder(
  paths: Iterable[pathlib.Path],
  configuration: Configuration,
  say: Callable[[str], None] = progress.say,
  *,
  lengthens: bool = False,
) -> Iterator[RunFolder]:
  """Claims the first of `paths` that is free, or holds the same run.

  With `lengthens`, that run may have fewer rounds, or lack fine-tuning.
  """
  with contextlib.ExitStack() as taken:
    for path in paths:
      try:
        folder, is_new = taken.enter_context(
          _take(path, configuration, say, lengthens)
        )
        break
      except FolderTakenError as error:
        last_error = error
      except OSError as error:
        raise _unusable(path, error) from error
    else:
      raise last_error
    try:
      yield folder
    except BaseException:
      if (
        is_new
        and folder.displacement is None
        and not (folder.is_saved or folder.label_correction.exists())
      ):
        # Errors in this cleanup must not hide the error that ended the run.
        with contextlib.suppress(OSError):
          folder.remove_leftovers()
          # Remove config.json last: without it, no run owns the other files.
          _remove(reversed(folder.files))
      raise


@contextlib.contextmanager
def _take(
  path: pathlib.Path,
  configuration: Configuration,
  say: Callable[[str], None],
  lengthens: bool,
) -> Iterator[tuple[RunFolder, bool]]:
  """Claims a folder; yields the folder, and whether it held no run before."""
  folder = RunFolder(path)
  settings = configuration[RESOLVED] if lengthens else None
  folder.check_free(settings)
  with contextlib.ExitStack() as closing:
    for parent in reversed([path, *path.parents]):
      with contextlib.suppress(FileExistsError):
        parent.mkdir()
        closing.callback(_remove_if_empty, parent)
    file = closing.enter_context(folder.config.open("ab+"))
    closing.enter_context(folder.hold_open())
    closing.enter_context(claim.hold(file, path, say))
    file.seek(0)
    # The configuration is empty if the run was killed at its very beginning.
    saved = file.read()
    is_new = not saved and not folder.is_saved
    is_longer = not is_new and folder._is_extended_by(settings)
    if not is_new:
      _check_same(folder, saved, configuration, lengthens=lengthens)
    if is_longer and folder.is_finished:
      before = folder.configuration()[RESOLVED]
      if not has_fewer_rounds(before, configuration[RESOLVED]):
        # Only fine-tuning is added; the earlier results stay until it ends.
        folder.next_configuration = configuration
        is_longer = False
    if is_longer:
      _remove_final_files(folder)
    if is_new or is_longer:
      try:
        atomic.write(folder.config, parsing.json_text(configuration))
      except OSError:
        if is_new:
          folder.config.unlink()  # The new file is still empty.
        raise
      # The new config.json replaces the locked file, and needs its own lock.
      claim.lock(closing.enter_context(folder.config.open("rb")), path)
    yield folder, is_new


def _remove_final_files(folder: RunFolder) -> None:
  """Removes the final files of a run that is about to continue."""
  for path in folder.final_files:
    path.unlink(missing_ok=True)
    atomic.sync(folder.path)
  checksums.forget(folder.config)


def _check_same(
  folder: RunFolder,
  text: bytes,
  configuration: Configuration,
  *,
  lengthens: bool,
) -> None:
  path = folder.path
  present = parsing.parse_json(parsing.json_text(configuration))
  found: list[str] = []
  try:
    saved = parsing.parse_json(text)
    if not (wrong := problem(saved)):
      found += differences(saved, present, lengthens=lengthens)
  except (ValueError, TypeError) as error:
    wrong = str(error)
  if wrong:
    raise FolderTakenError(
      f"{path}: its config.json is not of a run: {wrong}; choose another "
      "folder, or move it away."
    )
  if found:
    is_finished = folder.is_finished
    raise FolderTakenError(
      f"{path}: holds {'a finished' if is_finished else 'an unfinished'} run "
      f"with {', '.join(found)}; choose another folder, or "
      f"{'continue' if is_finished else 'finish'} that run with the settings "
      "it has."
    )


def _run_below(path: pathlib.Path) -> pathlib.Path | None:
  """Returns the path of a run one or two levels below a folder, if any."""
  for config in (*path.glob("*/config.json"), *path.glob("*/*/config.json")):
    with contextlib.suppress(OSError, ValueError, TypeError):
      # Other programs also write files named config.json.
      if config.is_file() and SPEC in parsing.parse_json(config.read_bytes()):
        return config.parent
  return None


def _unusable(path: pathlib.Path, error: OSError) -> RunError:
  return RunError(
    f"{path}: cannot be written to: {error.strerror}; choose another folder."
  )


def _remove(paths: Iterable[pathlib.Path]) -> None:
  for path in paths:
    if path.is_dir():
      shutil.rmtree(path)
    else:
      path.unlink(missing_ok=True)


def _remove_if_empty(path: pathlib.Path) -> None:
  with contextlib.suppress(OSError):
    path.rmdir()
