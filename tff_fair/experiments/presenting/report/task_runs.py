"""The contents of a report: tasks, the methods tried on each, their runs."""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence

from tff_fair.experiments.analysis import (
  measures,
  questions,
  references,
  run_groups,
)
from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.analysis.questions import Question
from tff_fair.experiments.analysis.run_groups import Group, group
from tff_fair.experiments.presenting.report.frame import LETTER_WIDTH
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.spec.scores import Score

# The style sheet has the colours of Okabe and Ito (2008), which colour-blind
# readers can distinguish. It omits yellow, which is invisible on white.
NUM_COLORS = 7
_DASHES = (None, "7 3", "2 3", "9 3 2 3", "14 4", "9 3 2 3 2 3")
# Paths of markers around the origin, about 8 pixels wide.
MARKERS = (
  "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",  # A circle,
  "M-3.1-3.1h6.2v6.2h-6.2z",  # a square,
  "M0-4.2l4.2 7.4h-8.4z",  # triangles,
  "M0 4.2l-4.2-7.4h8.4z",
  "M0-4.4l4.4 4.4l-4.4 4.4l-4.4-4.4z",  # a diamond,
  "M-1.3-4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",  # a plus,
  "M0-4.4l1.2 2.9h3.2l-2.5 2l1 3.2l-2.9-2l-2.9 2l1-3.2l-2.5-2h3.2z",  # a star.
)


@dataclasses.dataclass(frozen=True)
class Style:
  """The style of a method: its number, colour, dashes and marker."""

  number: int
  color: int
  dashes: str | None
  marker: str

  @property
  def classes(self) -> str:
    """The style sheet's classes for drawings of the method."""
    return f"c{self.color} m{self.number}"


def style(number: int) -> Style:
  """Returns the style of a method by its number; the first 42 styles differ."""
  turn, color = divmod(number, NUM_COLORS)
  marker = MARKERS[(color + turn) % len(MARKERS)]
  return Style(number, color, _DASHES[turn % len(_DASHES)], marker)


_GAP = 8
_MAX_WIDTH = 860  # The width for all names side by side, below a chart.
_MAX_LETTERS = 24


class ClientNames:
  """The names of a task's clients if the runs agree on them, or else ids."""

  def __init__(self, runs: Sequence[Run]) -> None:
    self._names = _names(runs)
    self._short = _cut(self._names)

  @property
  def fit_side_by_side(self) -> bool:
    """Whether there are names, and all of them fit below a chart."""
    widths = [LETTER_WIDTH * len(n) + _GAP for n in self._short.values()]
    return 0 < sum(widths) <= _MAX_WIDTH

  @property
  def width(self) -> int:
    """The width of the longest name in a chart: at least four letters."""
    return LETTER_WIDTH * max([4, *map(len, self._short.values())])

  def short(self, client_id: int) -> str:
    """Returns a client's name, cut if it is long, or its number."""
    return self._short.get(client_id, f"{client_id:,}")

  def full(self, client_id: int) -> str:
    """Returns a client's name, or "Client" and its number."""
    return self._names.get(client_id, f"Client {client_id:,}")


def _names(runs: Sequence[Run]) -> dict[int, str]:
  names: dict[int, str] = {}
  for run in runs:
    if run.clients is None or "client" not in run.clients:
      continue
    for client_id, name in run.client_names.items():
      if names.setdefault(int(client_id), name) != name:
        return {}
  return names if len(set(names.values()) - {""}) == len(names) else {}


def _cut(names: dict[int, str]) -> dict[int, str]:
  short = {k: truncate(name, _MAX_LETTERS) for k, name in names.items()}
  return short if len(set(short.values())) == len(names) else names


def truncate(name: str, max_letters: int) -> str:
  """Returns a name, cut to at most `max_letters` letters."""
  return name if len(name) <= max_letters else f"{name[: max_letters - 1]}…"


_FILE = "file"  # The option of tasks whose data are a user's file.


@dataclasses.dataclass(frozen=True)
class Method:
  """Runs that differ only in their seeds; each label has its own number."""

  label: str
  number: int
  runs: tuple[Run, ...]

  @property
  def style(self) -> Style:
    """The style of the method's lines and markers."""
    return style(self.number)


@dataclasses.dataclass(frozen=True)
class TaskRuns:
  """The runs on one task with the same task options."""

  identifier: str
  name: str
  title: str
  methods: tuple[Method, ...]  # The baselines come first.
  unfinished: tuple[Run, ...]  # These runs are not shown.
  question: Question  # The question that intervals answer.
  num_baselines: int = 1

  @property
  def baselines(self) -> tuple[Method, ...]:
    """The candidate baselines: for each measure, the best one is chosen."""
    return self.methods[: self.num_baselines]

  @property
  def runs(self) -> list[Run]:
    """The shown runs, method by method."""
    return [run for method in self.methods for run in method.runs]

  @functools.cached_property
  def score(self) -> Score:
    """The score by which clients are compared, with enough decimals."""
    return run_groups.common_score(self.runs or self.unfinished)

  @property
  def measures(self) -> Mapping[str, Measure]:
    """The measures of the runs by name."""
    return measures.by_name(self.score)

  @functools.cached_property
  def clients(self) -> ClientNames:
    """The names of the clients."""
    return ClientNames(self.runs)

  def with_summary(self, key: str) -> list[Method]:
    """Returns the methods whose runs all have `key` in their summaries."""
    return [m for m in self.methods if all(r.of_summary(key) for r in m.runs)]

  @property
  def has_seeds(self) -> bool:
    """Whether any method has several runs."""
    return any(len(method.runs) > 1 for method in self.methods)


def arrange(
  runs: Sequence[Run],
  *,
  unfinished: bool = False,
  baseline: str | None = None,
  question: str | None = None,
) -> list[TaskRuns]:
  """Groups runs by task and method, in order of occurrence, baselines first."""
  by_data: dict[tuple[object, ...], list[Run]] = {}
  for run in runs:
    by_data.setdefault(run_groups.data_key(run), []).append(run)
  of_tasks = list(by_data.values())
  shown = [
    [
      run
      for run in members
      if run.is_finished or (unfinished and (run.evaluations[ROUND] > 0).any())
    ]
    for members in of_tasks
  ]
  methods = [_baselines_first(group(of_task), baseline) for of_task in shown]
  # A method has the same style in all tasks.
  labels = list(dict.fromkeys(g.label for found, _ in methods for g in found))
  return [
    TaskRuns(
      f"t{number}",
      _name(members[0]),
      _title(members[0], of_tasks),
      tuple(Method(g.label, labels.index(g.label), g.runs) for g in found),
      tuple(run for run in members if run not in of_task),
      questions.resolve(question, of_task),
      num_baselines,
    )
    for number, (members, of_task, (found, num_baselines)) in enumerate(
      zip(of_tasks, shown, methods, strict=True)
    )
  ]


def _baselines_first(
  groups: Sequence[Group], name: str | None
) -> tuple[list[Group], int]:
  """Returns the groups, the baselines first, and the number of baselines."""
  if not groups:
    return [], 0
  first = (
    references.find_default(groups)
    if name is None
    else references.find(groups, name)
  )
  return [*first, *(g for g in groups if g not in first)], len(first)


def _name(run: Run) -> str:
  file = run.task_options.get(_FILE)
  return run.task if file is None else pathlib.PurePath(file).name


def _title(run: Run, tasks: Sequence[Sequence[Run]]) -> str:
  """Returns the name of a task with the options that distinguish it."""
  name = _name(run)
  others = [other for other, *_ in tasks if _name(other) == name]
  return ", ".join(
    [name, *sorted(run_groups.distinguishing_options(run, others))]
  )
