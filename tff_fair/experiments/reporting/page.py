"""The whole page: one HTML file with its style and script in it.

A content security policy forbids all else: no request leaves the page, and only
its own script runs, even if the name of a run or a method holds a script.
"""

import base64
import hashlib
import pathlib
from collections.abc import Iterator, Sequence

from tff_fair.experiments.reporting import (
  client_section,
  curve_section,
  heat_map,
  improved_section,
  map_sections,
  markup,
  run_section,
  section,
  styles,
  summary_section,
  trade_off_section,
)
from tff_fair.experiments.reporting.markup import Child, Markup, element
from tff_fair.experiments.reporting.methods import TaskRuns
from tff_fair.experiments.reporting.section import Section

_FOLDER = pathlib.Path(__file__).parent
# In this order: later rules replace earlier ones.
_STYLES = ("colors", "text", "tables", "choices", "charts", "media")
_MAX_NAMES = 3  # Of tasks in the title.
# The charts: the legend above them hides methods in all.
_CHARTS = (
  curve_section.build,
  trade_off_section.build,
  client_section.build,
  improved_section.build,
  map_sections.build_coefficients,
  map_sections.build_labels,
)


def build(tasks: Sequence[TaskRuns], title: str | None = None) -> str:
  """Returns the page as HTML, which is well-formed XML below its first line.

  Args:
    tasks: At least one.
    title: Its title; by default it names the tasks.
  """
  if title is None:
    names = list(dict.fromkeys(task.name for task in tasks))
    if len(names) > _MAX_NAMES:
      names = [f"{len(tasks)} tasks"]
    title = f"Fairness on {', '.join(names)}"
  style = "\n".join([*map(_style, _STYLES), *_numbered_styles(tasks)])
  script = (_FOLDER / "sort.js").read_text()
  page = element(
    "html",
    element(
      "head",
      element("meta", charset="utf-8"),
      element(
        "meta",
        http_equiv="Content-Security-Policy",
        content=f"default-src 'none'; img-src data:; "
        f"style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'",
      ),
      element(
        "meta",
        name="viewport",
        content="width=device-width, initial-scale=1",
      ),
      element("meta", name="color-scheme", content="light dark"),
      element("title", title),
      # Browsers ask for an icon otherwise.
      element("link", rel="icon", href="data:,"),
      # The style and the script hold nothing that HTML or XML would escape.
      element("style", Markup(style)),
    ),
    element(
      "body",
      element("header", element("h1", title), element("p", describe(tasks))),
      _contents(tasks) if len(tasks) > 1 else None,
      element("main", [_task(task) for task in tasks]),
      element("script", Markup(script)),
    ),
    lang="en",
  )
  return f"<!DOCTYPE html>\n{page}\n"


def describe(tasks: Sequence[TaskRuns]) -> str:
  """Returns the contents of a page in a few words."""
  num_unfinished = sum(len(task.unfinished) for task in tasks)
  parts = [
    _count(len(tasks), "task"),
    _count(sum(len(task.methods) for task in tasks), "method"),
    _count(sum(len(task.runs) for task in tasks), "finished run"),
  ]
  if num_unfinished:
    parts.append(f"{num_unfinished:,} unfinished")
  return ", ".join(parts)


def _task(task: TaskRuns) -> Markup:
  return element(
    "section",
    element("h2", task.title),
    _data(task),
    _sections(task) if task.methods else None,
    run_section.build(task).markup(),
    id=task.identifier,
    class_="task",
  )


def _data(task: TaskRuns) -> Child:
  run = (task.runs or task.unfinished)[0]
  description = run.config.get("data", {}).get("description")
  parts: list[Child] = []
  if description:
    parts.append(element("p", f"{description}.", class_="lead"))
  if task.unfinished:
    left_out = _count(len(task.unfinished), "unfinished run")
    parts.append(section.note(f"Without {left_out}, listed at the end."))
  return parts


def _sections(task: TaskRuns) -> Markup:
  charts = [build(task) for build in _CHARTS]
  absent = [part for part in charts if not part.body]
  return markup.joined(
    summary_section.build(task).markup(),
    element(
      "div",
      section.legend(task) if len(task.methods) > 1 else None,
      [part.markup() for part in charts if part.body],
    ),
    _absent(absent) if absent else None,
  )


def _absent(parts: Sequence[Section]) -> Markup:
  return element(
    "section",
    element("h3", "Left out"),
    element(
      "ul",
      [element("li", f"{part.title}: {part.absence}.") for part in parts],
      class_="note",
    ),
  )


def _contents(tasks: Sequence[TaskRuns]) -> Markup:
  return element(
    "nav",
    element(
      "ul",
      [
        element("li", element("a", task.title, href=f"#{task.identifier}"))
        for task in tasks
      ],
    ),
    aria_label="Tasks",
  )


def _style(name: str) -> str:
  return (_FOLDER / "style" / f"{name}.css").read_text()


def _numbered_styles(tasks: Sequence[TaskRuns]) -> Iterator[str]:
  """Yields the rules that differ in a number alone."""
  for color in range(styles.NUM_COLORS):
    yield f".c{color}{{--c:var(--c{color})}}"
  for shade in range(1, heat_map.NUM_SHADES + 1):
    yield f".p{shade}{{fill:var(--p{shade})}}"
    yield f".n{shade}{{fill:var(--n{shade})}}"
  for n in range(max(len(task.methods) for task in tasks)):
    # A box without a tick hides its method. While the mouse is on a box, the
    # other methods step back.
    yield f".task:has(.show-m{n}:not(:checked)) .m{n}{{display:none}}"
    yield (
      f".task:has(label:hover>.show-m{n},.show-m{n}:focus-visible) "
      f"figure :is(.series,.band):not(.m{n}){{opacity:.12}}"
    )


def _digest(text: str) -> str:
  digest = hashlib.sha256(text.encode()).digest()
  return f"'sha256-{base64.b64encode(digest).decode()}'"


def _count(number: int, noun: str) -> str:
  return f"{number:,} {noun}{'' if number == 1 else 's'}"
