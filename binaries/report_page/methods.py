"""What a report is about: tasks, the methods tried on each, their runs."""

import dataclasses
from collections.abc import Sequence

from binaries import run_groups
from binaries import runs as run_folders
from binaries.report_page import styles
from binaries.runs import Run


@dataclasses.dataclass(frozen=True)
class Method:
  """Finished runs that differ in the seed alone.

  Attributes:
    label: The method, and what sets it apart from others on the page.
    number: Its number within the task.
    runs: At least one.
  """

  label: str
  number: int
  runs: tuple[Run, ...]

  @property
  def style(self) -> styles.Style:
    """How it is drawn."""
    return styles.style(self.number)


@dataclasses.dataclass(frozen=True)
class TaskRuns:
  """The runs on one task: the same data, cut in the same way, and model.

  Attributes:
    identifier: Unique on the page.
    name: Name of the task.
    title: Its name, and options in which tasks of that name differ.
    methods: Those with finished runs.
    unfinished: Runs that have not come to their end.
  """

  identifier: str
  name: str
  title: str
  methods: tuple[Method, ...]
  unfinished: tuple[Run, ...]

  @property
  def runs(self) -> list[Run]:
    """The finished runs."""
    return [run for method in self.methods for run in method.runs]

  @property
  def has_seeds(self) -> bool:
    """Whether there is a method with several runs."""
    return any(len(method.runs) > 1 for method in self.methods)


def arrange(runs: Sequence[Run]) -> list[TaskRuns]:
  """Sorts runs by task and method.

  Args:
    runs: Any runs.

  Returns:
    The tasks, as they first occur.

  Raises:
    UsageError: If two finished runs are the same, seed included.
  """
  of_tasks: dict[tuple[str, ...], list[Run]] = {}
  for run in runs:
    of_tasks.setdefault((run.task, *_options(run)), []).append(run)
  return [
    _task(f"t{number}", _title(members[0], list(of_tasks.values())), members)
    for number, members in enumerate(of_tasks.values())
  ]


def _task(identifier: str, title: str, members: Sequence[Run]) -> TaskRuns:
  groups = run_groups.group([run for run in members if run.is_finished])
  return TaskRuns(
    identifier,
    members[0].task,
    title,
    tuple(Method(g.label, n, g.runs) for n, g in enumerate(groups)),
    tuple(run for run in members if not run.is_finished),
  )


def _options(run: Run) -> list[str]:
  return sorted(
    f"{name.removeprefix(run_folders.TASK_OPTION)}="
    f"{run_folders.value_text(value)}"
    for name, value in run.settings.items()
    if name.startswith(run_folders.TASK_OPTION)
  )


def _title(run: Run, tasks: Sequence[Sequence[Run]]) -> str:
  """Returns the name of a task with the options that set it apart."""
  others = [_options(other[0]) for other in tasks if other[0].task == run.task]
  own = [
    option
    for option in _options(run)
    if not all(option in options for options in others)
  ]
  return ", ".join([run.task, *own])
