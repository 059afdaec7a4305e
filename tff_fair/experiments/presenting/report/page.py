"""Builds and writes the page of a report, from the sections of each task."""

import contextlib
import datetime
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tff_fair.experiments import number_text, progress
from tff_fair.experiments.analysis import questions
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.presenting import ceiling, rendering
from tff_fair.experiments.presenting.report import (
  choice_section,
  client_sections,
  coefficient_section,
  curve_section,
  decision_section,
  final_measures,
  group_section,
  joining_section,
  label_section,
  round_sections,
  run_section,
  search_section,
  task_runs,
  trade_off_section,
  verdict_section,
)
from tff_fair.experiments.presenting.report.task_runs import TaskRuns
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.runs.discovery import FoundRuns, Place
from tff_fair.experiments.runs.run import Run
from tff_fair.files import atomic
from tff_fair.runtime import version

_MAX_NAMES = 3  # The most task names in the title.


def build(
  tasks: Sequence[TaskRuns],
  title: str | None = None,
  *,
  command: str | None = None,
) -> str:
  """Returns the page as HTML, which is well-formed XML below its first line."""
  if title is None:
    names = list(dict.fromkeys(task.name for task in tasks))
    if len(names) > _MAX_NAMES:
      names = [f"{len(tasks)} tasks"]
    title = f"Fairness on {', '.join(names)}"
  numbers = [method.number for task in tasks for method in task.methods]
  return rendering.page(
    "report.html",
    title,
    num_methods=1 + max(numbers, default=0),
    about=describe(tasks),
    tasks=list(map(_parts, tasks)),
    today=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
    version=version.find(),
    command=command,
  )


def describe(tasks: Sequence[TaskRuns]) -> str:
  """Returns the numbers of tasks, methods and runs on a page, as text."""
  runs = [run for task in tasks for run in (*task.runs, *task.unfinished)]
  num_finished = sum(run.is_finished for run in runs)
  parts = [
    number_text.count(len(tasks), "task"),
    number_text.count(sum(len(task.methods) for task in tasks), "method"),
    number_text.count(num_finished, "finished run"),
  ]
  if len(runs) > num_finished:
    parts.append(f"{len(runs) - num_finished:,} unfinished")
  return ", ".join(parts)


def _parts(task: TaskRuns) -> dict[str, Any]:
  """Returns the template values of `report.html` for a task."""
  first = (task.runs or task.unfinished)[0]
  about = {
    "task": task,
    "about": f"{first.config['data']['description']}.",
    "runs": run_section.build(task),
  }
  if not task.methods:
    return {
      **about,
      "decision": None,
      "numbers": [],
      "charts": [],
      "absent": [],
    }
  numbers = [
    choice_section.build(task),
    verdict_section.build(task),
    final_measures.build(task),
    joining_section.build(task),
    joining_section.build_newcomers(task),
    group_section.build(task),
  ]
  charts = [
    client_sections.build_each(task),
    curve_section.build(task),
    trade_off_section.build(task),
    trade_off_section.build_bars(task),
    ceiling.build_section(task),
    client_sections.build(task),
    *round_sections.build_shares(task),
    round_sections.build_losses(task),
    round_sections.build_direction(task),
    round_sections.build_replay(task),
    coefficient_section.build(task),
    label_section.build(task),
    search_section.build(task),
  ]
  sections = (*numbers, *charts)
  return {
    **about,
    "decision": decision_section.build(task),
    "numbers": [section for section in numbers if section.body],
    # The charts share one legend above them.
    "charts": [section for section in charts if section.body],
    "absent": [f"{s.title}: {s.absence}." for s in sections if s.absence],
  }


def report(
  runs: Run | Place | Iterable[Run | Place],
  path: Place,
  *,
  title: str | None = None,
  overwrite: bool = False,
  baseline: str | None = None,
  unfinished: bool = False,
  question: questions.Name | None = None,
  command: str | None = None,
) -> pathlib.Path:
  """Writes a page that compares runs.

  Runs that differ only in their seeds are one method of the page. The page
  works offline, in print and without scripts.

  Args:
    runs: Runs, folders of runs, or folders above them. A run that is given
      twice is shown once.
    path: The HTML file to write. Its folder is created if missing.
    title: Title of the page; by default it names the data.
    overwrite: Whether to replace an existing file.
    baseline: The label or name of the method to compare the others with; by
      default FedAvg, or else the first. If FedAvg weighted by examples and
      FedAvg with equal weights both exist, the better one is the baseline.
    unfinished: Whether to show unfinished runs, too, if they were evaluated
      after a round.
    question: The question that intervals answer, as in `experiments.compare`.
    command: The command that writes the page, for its footer.

  Returns:
    The path of the file.

  Raises:
    RunError: If the file exists already, a folder holds no run, all runs are
      damaged, two runs are the same, or the file cannot be written. Single
      damaged runs are left out, with a message on stderr.
    ValueError: If there are no runs, the baseline is not one of the methods, or
      the question is unknown.
  """
  path = pathlib.Path(path)
  with _reporting_errors():
    atomic.check_free(path, overwrite=overwrite)
  tasks = task_runs.arrange(
    find(runs).runs, unfinished=unfinished, baseline=baseline, question=question
  )
  write(build(tasks, title, command=command), path, overwrite=overwrite)
  return path


def find(
  runs: Run | Place | Iterable[Run | Place], *, verify: bool = False
) -> FoundRuns:
  """Finds the runs of a page; reports runs that are left out or changed."""
  found = discovery.find_intact(runs, verify=verify)
  for line in found.notes:
    progress.say(line)
  if not found.runs:
    raise ValueError(
      "Found no runs, expected at least one; give runs, or folders of runs."
    )
  return found


def write(text: str, path: pathlib.Path, *, overwrite: bool) -> None:
  """Writes a page, and its folder if missing."""
  with (
    _reporting_errors(),
    atomic.replacement(path, overwrite=overwrite) as staged,
  ):
    staged.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def _reporting_errors() -> Iterator[None]:
  """Turns an `OSError` into a `RunError`."""
  try:
    yield
  except OSError as error:
    raise RunError(str(error)) from error
