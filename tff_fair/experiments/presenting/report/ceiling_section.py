"""Section: how far the runs end above the least training losses."""

from tff_fair.experiments.analysis import ceiling_records
from tff_fair.experiments.analysis.run_groups import Group
from tff_fair.experiments.presenting import ceiling
from tff_fair.experiments.presenting.report import section
from tff_fair.experiments.presenting.report.task_runs import TaskRuns

_TITLE = "The ceiling"


def build(task: TaskRuns) -> section.Section:
  """Returns the section, which is empty without a ceiling beside a run."""
  found, notes = ceiling_records.read(
    Group(method.label, method.runs) for method in task.methods
  )
  if found is None:
    return section.Section(_TITLE, absence=" ".join(notes).rstrip("."))
  styles = {method.label: method.style for method in task.methods}
  parts = ceiling.parts(found, styles, f"{task.identifier}-ceiling")
  return section.build(_TITLE, "ceiling", task, parts=parts, notes=notes)
