"""Sections: coefficients of clients over rounds, and labels of the split."""

from tff_fair.experiments.reporting import coefficients, labels, section
from tff_fair.experiments.reporting.methods import TaskRuns
from tff_fair.experiments.reporting.section import Section

# With more methods than this, the maps become coarser: the page stays small.
_FULL_MAPS = 10


def build_coefficients(task: TaskRuns) -> Section:
  """Returns the section: a map for each method, of its first seed."""
  title = "Coefficients over rounds"
  found = {}
  for method in task.methods:
    for run in method.runs:
      if (table := coefficients.of_run(run)) is not None:
        found[method.number] = run, table
        break
  if not found:
    return Section(
      title, absence="no run has recorded them (coefficient in cohorts.csv)"
    )
  share = min(1.0, (_FULL_MAPS / len(found)) ** 0.5)
  figures, is_ordered = [], True
  for method in task.methods:
    if method.number not in found:
      continue
    run, table = found[method.number]
    is_ordered &= coefficients.client_order(run)[1]
    drawing = coefficients.draw(
      method,
      run,
      table,
      share,
      f"{task.identifier}-coefficients-{method.number}",
    )
    figures.append(
      section.figure(
        drawing,
        f"{method.label}, seed {run.seed}",
        class_=f"m{method.number}",
      )
    )
  return Section(
    title,
    [
      section.note(
        "The method multiplies each client’s update by its coefficient. A row "
        "is a client, a column a round. ",
        "The client with the lowest accuracy at the end of the run is on top."
        if is_ordered
        else "Clients are in the order of their numbers.",
        " A cell is empty where the client took no part. Where clients or "
        "rounds share a cell, it shows their mean.",
      ),
      section.charts(figures),
      section.without(
        [m for m in task.methods if m.number not in found],
        "their runs have no coefficients in cohorts.csv",
      ),
    ],
  )


def build_labels(task: TaskRuns) -> Section:
  """Returns the section: the labels in the first run that has them."""
  title = "Labels of the split"
  for run in task.runs:
    if run.labels is None:
      continue
    counts = labels.counts_of(run.labels)
    if counts.size and counts.sum() > 0:
      return Section(
        title,
        [
          section.note(
            f"Training labels of the clients with seed {run.seed}. Other seeds "
            "may split the data differently."
          ),
          section.charts(
            section.figure(
              labels.draw(counts, f"{task.identifier}-labels"),
              f"{counts.shape[0]:,} clients, {counts.shape[1]:,} classes",
            ),
            class_="charts wide",
          ),
        ],
      )
  return Section(title, absence="no run has counted them (labels.csv)")
