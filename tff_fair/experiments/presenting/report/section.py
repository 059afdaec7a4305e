"""Sections of the page: each has a title and a rendered template."""

import dataclasses
from typing import Any

from tff_fair.experiments.presenting import rendering
from tff_fair.experiments.presenting.report.task_runs import TaskRuns


@dataclasses.dataclass(frozen=True)
class Section:
  """A section about a task, or the reason for its absence."""

  title: str
  body: str = ""  # If empty, the page leaves the section out.
  absence: str = ""  # Why the section is left out.

  def identifier(self, task: TaskRuns) -> str:
    """Returns the section's id on the page."""
    return f"{task.identifier}-{self.title.lower().replace(' ', '-')}"

  def markup(self, task: TaskRuns) -> str:
    """Returns the section with its heading."""
    return rendering.html("section.html", it=self, id=self.identifier(task))


def build(title: str, template: str, task: TaskRuns, **data: Any) -> Section:
  """Returns a section, rendered by a template."""
  body = rendering.html(
    f"sections/{template}.html", task=task, score=task.score, **data
  )
  return Section(title, body)
