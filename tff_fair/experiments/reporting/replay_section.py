"""Section: rules on the same rounds, as `binaries.replay` compared them.

It is there for runs with a replay.csv alone.
"""

from collections.abc import Sequence

from tff_fair.experiments import replaying
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.reporting import html_tables, section
from tff_fair.experiments.reporting.markup import Child, Markup, element
from tff_fair.experiments.reporting.methods import TaskRuns
from tff_fair.experiments.reporting.section import Section
from tff_fair.experiments.runs.run import Run


def build(task: TaskRuns) -> list[Section]:
  """Returns the section, if rules were applied to a run of the task."""
  body: list[Child] = []
  for run in task.runs:
    try:
      replays = run.replays
    except RunError as error:
      body.append(section.note(f"A replay is left out, as damaged: {error}"))
      continue
    if replays is not None and len(replays):
      compared = replaying.compare_replays(replays)
      body.append(_table(run, replaying.cells(compared)))
  if not body:
    return []
  note = section.note(
    "What each rule would have done in the rounds of one run, from the updates "
    "that its clients sent. Harmed: clients whose loss rises to first order. "
    "Worst cosine: between the step and the update of the client that it helps "
    "least. Change of loss: by the step, to first order. Angle: to the step "
    "that the run took. In brackets 95 % intervals over rounds."
  )
  return [Section("Rules on the same rounds", [note, *body])]


def _table(run: Run, lines: Sequence[Sequence[str]]) -> Markup:
  titles, *rows = lines
  caption = f"Rules on the rounds of {run.path.name}"
  return html_tables.scrolling(
    caption,
    element(
      "table",
      element("caption", caption),
      element(
        "thead",
        element(
          "tr",
          element("th", titles[0], scope="col", class_="name"),
          [element("th", title, scope="col") for title in titles[1:]],
        ),
      ),
      element(
        "tbody",
        [
          element(
            "tr",
            element("th", row[0], scope="row", class_="name"),
            [element("td", cell) for cell in row[1:]],
          )
          for row in rows
        ],
      ),
    ),
  )
