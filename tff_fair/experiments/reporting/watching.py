"""Renews the page of runs that go on.

A round takes seconds and a page may, too: after each page the watch rests nine
times as long as the page took, so that it uses a tenth of one core at most.
"""

import collections
import dataclasses
import math
import os
import pathlib
import time
from collections.abc import Callable, Collection, Sequence

from tasks.formats import data_files as staging
from tff_fair.declared import FieldError
from tff_fair.experiments import interruption
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.reporting import document, page, task_runs
from tff_fair.experiments.reporting.task_runs import TaskRuns
from tff_fair.experiments.runs import finding
from tff_fair.experiments.runs.finding import Place
from tff_fair.experiments.runs.run import Run

_SECONDS = 5.0  # Between two looks at the runs, at least.
_REST = 9  # Times as long as the last page took.
_PATIENCE = 2  # How often a run may look damaged before the watch says so.
_READ = (".csv", ".json")  # The files of runs that a page may show.

_Files = dict[str, tuple[int, int]]


def watch(
  folders: Sequence[Place],
  path: Place,
  *,
  title: str | None = None,
  overwrite: bool = False,
  baseline: str | None = None,
  question: str | None = None,
  command: str | None = None,
  tell: Callable[[str], None],
) -> None:
  """Writes the page of some runs, and again whenever they have changed.

  The page also shows runs that are not finished, and loads itself anew. The
  watch ends once all runs are finished, those included that a sweep has yet to
  start. At the end, also by Ctrl-C, the page stops loading itself anew.

  Args:
    folders: Folders of runs, or folders above them.
    path: The HTML file to write.
    title: Title of the page; by default it names the data.
    overwrite: Whether to replace a file that is there already.
    baseline: As for `page.report`. As long as no run of it was evaluated,
      another method takes its place.
    question: As for `page.report`.
    command: The command that watches, for the foot of the page.
    tell: Gets a sentence after each page, and when something is wrong.

  Raises:
    RunError: If the file is there already, or another program changed it. At
      the beginning, also if a folder holds no run nor a sweep that has runs to
      start, or all runs are damaged; the page leaves out a few damaged ones.
    FieldError: If the baseline is not one of the methods at the end.
    tasks.data_error.DataError: If the file cannot be written.
    KeyboardInterrupt: If Ctrl-C ended the watch.
  """
  path = pathlib.Path(path)
  page.check_path(path, overwrite=overwrite)
  shown = _Page(path, title, baseline, question, command, overwrite)
  try:
    _follow(shown, folders, tell)
  except KeyboardInterrupt:
    shown.finish()
    raise


def _follow(
  shown: "_Page", folders: Sequence[Place], tell: Callable[[str], None]
) -> None:
  """Renews a page until all runs are finished."""
  seen: _Files | None = None
  pause = _SECONDS
  troubles: collections.Counter[str] = collections.Counter()
  damaged = _damage(folders)
  for sentence in sorted(damaged):
    tell(sentence)
  while True:
    found: _Files | None = _files(folders)
    if found != seen:
      start = time.monotonic()
      try:
        with interruption.deferred():
          is_over = shown.renew(folders, pause, damaged)
        tell(shown.description)
        if is_over:
          return
        troubles.clear()
      except RunError as error:
        # A run that begins or ends may be half written for a moment, and a
        # sweep takes a while to start its first run.
        is_first = seen is None and not troubles
        if shown.is_lost() or (is_first and not finding.num_planned(folders)):
          raise
        troubles[str(error)] += 1
        if troubles[str(error)] == _PATIENCE:
          tell(str(error))
          damaged.add(str(error))
        found = None  # Damage that lasts changes no file.
      seen = found
      pause = max(_SECONDS, _REST * (time.monotonic() - start))
    time.sleep(pause)


def _damage(folders: Sequence[Place]) -> set[str]:
  """Returns sentences about runs that are damaged among others."""
  try:
    return set(finding.find_whole(folders).notes)
  except RunError:
    return set()  # There is no run, or no whole one: the first page tells.


@dataclasses.dataclass
class _Page:
  """The page of a watch.

  Attributes:
    path: The HTML file.
    title: As for `watch`; so are `baseline`,
      `question`, `command` and `overwrite`.
    description: Its contents in a few words.
  """

  path: pathlib.Path
  title: str | None
  baseline: str | None
  question: str | None
  command: str | None
  overwrite: bool
  description: str = ""
  _refresh_seconds: int = 0
  _text: str = ""
  _written: tuple[int, int] | None = None

  def renew(
    self, folders: Sequence[Place], pause: float, damaged: Collection[str]
  ) -> bool:
    """Writes the page as the runs are now.

    Args:
      folders: The folders of the runs.
      pause: Seconds until the next look at them.
      damaged: Sentences about the runs to leave out, as damaged for good.

    Returns:
      Whether all other runs are finished.

    Raises:
      RunError: If another run is damaged.
    """
    found = finding.find_whole(folders)
    runs = found.runs
    for sentence in found.notes:
      if sentence not in damaged:
        raise RunError(sentence)
    num_planned = finding.num_planned(folders)
    is_over = (
      all(run.is_finished or run.is_pruned for run in runs) and not num_planned
    )
    tasks = self._arrange(runs, is_over=is_over)
    self._refresh_seconds = math.ceil(pause)
    refresh = None if is_over else self._refresh_seconds
    self._text = page.build(
      tasks, self.title, command=self.command, refresh_seconds=refresh
    )
    self._write(self._text)
    self.description = f"{self.path}: {page.describe(tasks)}"
    if num_planned:
      self.description += f", {num_planned:,} not started"
    return is_over

  def finish(self) -> None:
    """Writes the page as it was last, but it does not load itself anew."""
    if self._text and not self.is_lost():
      refresh = document.refresh(self._refresh_seconds)
      self._write(self._text.replace(refresh, "", 1))

  def is_lost(self) -> bool:
    """Returns whether another program changed the file."""
    return self._written is not None and self._state() not in (
      None,
      self._written,
    )

  def _arrange(self, runs: Sequence[Run], *, is_over: bool) -> list[TaskRuns]:
    try:
      return task_runs.arrange(
        runs,
        unfinished=True,
        baseline=self.baseline,
        question=self.question,
      )
    except FieldError:
      if is_over:
        raise
      # Its runs may be yet to come.
      return task_runs.arrange(runs, unfinished=True, question=self.question)

  def _write(self, text: str) -> None:
    if self.is_lost():
      raise RunError(
        f"{self.path}: another program changed it; the watch leaves it as it "
        "is and ends. Name another file."
      )
    overwrite = self.overwrite or self._written is not None
    with staging.replacement(self.path, overwrite=overwrite) as staged:
      staged.write_text(text, encoding="utf-8")
    self._written = self._state()

  def _state(self) -> tuple[int, int] | None:
    try:
      found = self.path.stat()
    except FileNotFoundError:
      return None
    return found.st_ino, found.st_mtime_ns


def _files(folders: Sequence[Place]) -> _Files:
  """Returns the times of change and the sizes of the files of runs."""
  found: _Files = {}
  for folder in folders:
    for place, _, names in os.walk(folder):
      for name in names:
        if name.endswith(_READ):
          path = os.path.join(place, name)
          try:
            status = os.stat(path)
          except FileNotFoundError:
            continue
          found[path] = status.st_mtime_ns, status.st_size
  return found
