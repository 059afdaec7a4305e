"""Section: rules on the same rounds, as `binaries.replay` compared them.

It is there for runs with a replay.csv alone.
"""

from tff_fair.experiments import replaying
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.reporting import html_tables, section
from tff_fair.experiments.reporting.markup import Child
from tff_fair.experiments.reporting.methods import TaskRuns
from tff_fair.experiments.reporting.section import Section


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
      caption = f"Rules on the rounds of {run.path.name}"
      body.append(html_tables.of_text(caption, replaying.cells(compared)))
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
