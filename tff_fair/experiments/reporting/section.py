"""Sections of the page, and their common parts."""

import dataclasses
from collections.abc import Sequence

from tff_fair.experiments.reporting import tables
from tff_fair.experiments.reporting.markup import Child, Markup, element
from tff_fair.experiments.reporting.methods import Method, TaskRuns


@dataclasses.dataclass(frozen=True)
class Section:
  """A part of the page about a task.

  Attributes:
    title: Its heading.
    body: Its contents; empty if the page leaves it out.
    absence: Why the page leaves it out; follows the title in a sentence.
  """

  title: str
  body: Sequence[Child] = ()
  absence: str = ""

  def markup(self) -> Markup:
    """Returns the section with its heading."""
    return element("section", element("h3", self.title), self.body)


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


def charts(figures: Child, class_: str = "charts") -> Markup:
  """Returns figures beside each other."""
  return element("div", figures, class_=class_)


def note(*children: Child) -> Markup:
  """Returns a remark."""
  return element("p", *children, class_="note")


def without(methods: Sequence[Method], reason: str) -> Markup | None:
  """Returns a remark about methods that are not shown, if there are any."""
  if not methods:
    return None
  return note(
    f"Left out: {', '.join(method.label for method in methods)}; {reason}."
  )


def legend(task: TaskRuns) -> Markup:
  """Returns the methods with their looks, and boxes that hide them.

  It needs no script: the style sheet hides a method without a tick.
  """
  return element(
    "fieldset",
    element("legend", "Methods in the charts"),
    [
      element(
        "label",
        element(
          "input",
          type="checkbox",
          checked=True,
          class_=f"show-m{method.number}",
          autocomplete="off",
        ),
        tables.swatch(method.style),
        element("span", method.label),
      )
      for method in task.methods
    ],
    class_="legend",
  )
