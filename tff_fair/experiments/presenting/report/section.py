"""Sections of the page, and their common parts."""

import dataclasses
from collections.abc import Container, Iterable, Sequence

from tff_fair.experiments.presenting.report import html_tables, markup
from tff_fair.experiments.presenting.report.markup import Child, Markup, element
from tff_fair.experiments.presenting.report.task_runs import TaskRuns


@dataclasses.dataclass(frozen=True)
class Section:
  """A part of the page about a task.

  Attributes:
    title: Its heading.
    body: Its contents; empty if the page leaves it out.
    absence: Why the page leaves it out; follows the title in a sentence. Empty
      where the page says nothing of it.
  """

  title: str
  body: Sequence[Child] = ()
  absence: str = ""

  def identifier(self, task: TaskRuns) -> str:
    """Returns the name of its place on the page."""
    return f"{task.identifier}-{self.title.lower().replace(' ', '-')}"

  def markup(self, task: TaskRuns) -> Markup:
    """Returns the section with its heading."""
    return element(
      "section",
      element("h3", self.title),
      self.body,
      id=self.identifier(task),
    )


def figure(
  drawing: Markup, title: Child, *notes: Child, class_: str | None = None
) -> Markup:
  """Returns a chart below its title and above notes."""
  return element(
    "figure",
    element("figcaption", element("strong", title)),
    drawing,
    element("p", notes, class_="note") if notes else None,
    class_=class_,
  )


def fold(summary: Child, *children: Child, is_open: bool = False) -> Markup:
  """Returns what a click on its summary unfolds; print has all of it."""
  return element("details", element("summary", summary), children, open=is_open)


def charts(figures: Child, class_: str = "charts") -> Markup:
  """Returns figures beside each other."""
  return element("div", figures, class_=class_)


def note(*children: Child) -> Markup:
  """Returns a remark."""
  return element("p", *children, class_="note")


def bullets(items: Iterable[Child], class_: str | None = None) -> Markup | None:
  """Returns a list; None if it has no items."""
  shown = [element("li", item) for item in items]
  return element("ul", shown, class_=class_) if shown else None


def without(
  task: TaskRuns, shown: Container[int], reason: str
) -> Markup | None:
  """Returns a remark about the methods that are not shown, if there are any."""
  absent = [m.label for m in task.methods if m.number not in shown]
  return note(f"Left out: {', '.join(absent)}; {reason}.") if absent else None


def legend(task: TaskRuns) -> Markup:
  """Returns the methods with their looks, and controls for the charts.

  A box without a tick hides its method; the method whose name is pressed stands
  out. It needs no script: the style sheet reads the controls.
  """
  name = f"{task.identifier}-chosen"
  return element(
    "fieldset",
    element("legend", "Methods in the charts"),
    # The label alone is to be seen.
    radio(name, f"{name}-none", "unseen", "all alike", checked=True),
    [
      element(
        "span",
        element(
          "input",
          type="checkbox",
          checked=True,
          class_=f"show-m{method.number}",
          aria_label=f"Show {method.label}",
          autocomplete="off",
        ),
        radio(
          name,
          f"{name}-{method.number}",
          f"unseen choose-m{method.number}",
          html_tables.swatch(method.style),
          element("span", method.label),
          checked=False,
        ),
        class_=f"entry entry-m{method.number}",
      )
      for method in task.methods
    ],
    class_="legend",
  )


def radio(
  name: str, identifier: str, class_: str, *words: Child, checked: bool
) -> Markup:
  """Returns a radio button and its label."""
  return markup.joined(
    element(
      "input",
      type="radio",
      name=name,
      id=identifier,
      class_=class_,
      checked=checked,
      autocomplete="off",
    ),
    element("label", words, for_=identifier),
  )
