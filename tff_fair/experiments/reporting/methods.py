"""The contents of a report: tasks, the methods tried on each, their runs."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from tff_fair import typed_values
from tff_fair.experiments.comparing import common_score, measures
from tff_fair.experiments.comparing.groups import group
from tff_fair.experiments.comparing.measures import Measure
from tff_fair.experiments.reporting import styles
from tff_fair.experiments.reporting.client_names import ClientNames
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.scores import Score
from tff_fair.experiments.spec_text import TASK_OPTION


@dataclasses.dataclass(frozen=True)
class Method:
  """Runs that differ in their seeds alone.

  Attributes:
    label: The method, and the settings that set it apart on the page.
    number: Its number within the task.
    runs: At least one.
  """

  label: str
  number: int
  runs: tuple[Run, ...]

  @property
  def style(self) -> styles.Style:
    """The look of its lines and markers."""
    return styles.style(self.number)


@dataclasses.dataclass(frozen=True)
class TaskRuns:
  """The runs on one task, with the same split of the data and model.

  Attributes:
    identifier: Unique on the page.
    name: Name of the task.
    title: Its name, and options in which tasks of that name differ.
    methods: Those with runs to show.
    unfinished: Runs that are not shown, because they are not finished.
  """

  identifier: str
  name: str
  title: str
  methods: tuple[Method, ...]
  unfinished: tuple[Run, ...]

  @property
  def runs(self) -> list[Run]:
    """The runs to show."""
    return [run for method in self.methods for run in method.runs]

  @functools.cached_property
  def score(self) -> Score:
    """The number by which clients are compared, with its decimals.

    Raises:
      RunError: If runs have different ones.
    """
    return common_score.of_runs(self.runs or self.unfinished)

  @property
  def measures(self) -> Mapping[str, Measure]:
    """The measures of the runs by name."""
    return measures.of(self.score)

  @functools.cached_property
  def clients(self) -> ClientNames:
    """What the clients are called."""
    return ClientNames(self.runs)

  @property
  def has_seeds(self) -> bool:
    """Whether there is a method with several runs."""
    return any(len(method.runs) > 1 for method in self.methods)


def arrange(runs: Sequence[Run], *, unfinished: bool = False) -> list[TaskRuns]:
  """Sorts runs by task and method.

  Args:
    runs: Any runs.
    unfinished: Whether to show unfinished runs, too, once they were evaluated
      after a round.

  Returns:
    The tasks, as they first occur.

  Raises:
    RunError: If two runs to show are the same, seed included.
  """
  of_tasks: dict[tuple[str, ...], list[Run]] = {}
  for run in runs:
    of_tasks.setdefault((run.task, *_options(run)), []).append(run)
  return [
    _task(
      f"t{number}",
      _title(members[0], list(of_tasks.values())),
      [run for run in members if _is_shown(run, unfinished)],
      members,
    )
    for number, members in enumerate(of_tasks.values())
  ]


def _is_shown(run: Run, unfinished: bool) -> bool:
  return run.is_finished or (unfinished and (run.evaluations[ROUND] > 0).any())


def _task(
  identifier: str, title: str, shown: Sequence[Run], members: Sequence[Run]
) -> TaskRuns:
  return TaskRuns(
    identifier,
    members[0].task,
    title,
    tuple(Method(g.label, n, g.runs) for n, g in enumerate(group(shown))),
    tuple(run for run in members if run not in shown),
  )


def _options(run: Run) -> list[str]:
  return sorted(
    f"{name.removeprefix(TASK_OPTION)}={typed_values.text(value)}"
    for name, value in run.settings.items()
    if name.startswith(TASK_OPTION)
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
