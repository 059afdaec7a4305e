"""Sections: coefficients of clients over rounds, and labels of the split."""

from tff_fair.experiments.reporting import coefficients, labels, section
from tff_fair.experiments.reporting.coefficients import Coefficients
from tff_fair.experiments.reporting.methods import TaskRuns
from tff_fair.experiments.reporting.section import Section

# With more methods than this, the maps become coarser: the page stays small.
_FULL_MAPS = 10


def _coefficients(task: TaskRuns) -> list[Coefficients]:
  """Returns the coefficients of the methods that have some."""
  share = min(1.0, (_FULL_MAPS / max(1, len(task.methods))) ** 0.5)
  found = [coefficients.of_method(method, share) for method in task.methods]
  return [of_method for of_method in found if of_method is not None]


def build_coefficients(task: TaskRuns) -> Section:
  """Returns the section: a map for each method, of its first seed."""
  maps = _coefficients(task)
  title = "Coefficients over rounds"
  if not maps:
    return Section(
      title, absence="no run has recorded them (coefficient in cohorts.csv)"
    )
  figures = [
    section.figure(
      coefficients.draw(
        found,
        task.clients,
        f"{task.identifier}-coefficients-{found.method.number}",
      ),
      f"{found.method.label}, seed {found.run.seeds}",
      class_=f"m{found.method.number}",
    )
    for found in maps
  ]
  shown = {found.method.number for found in maps}
  return Section(
    title,
    [
      section.note(
        "The method multiplies each client’s update by its coefficient, a "
        "number without a unit. A row is a client, a column a round. ",
        f"The client with the {task.score.worst_noun} at the end of the run is "
        "on top."
        if all(found.is_ordered for found in maps)
        else "Clients are in the order of their numbers.",
        " A cell is empty where the client took no part. Where clients or "
        "rounds share a cell, it shows their mean. Each map has shades of its "
        "own, with their ends beside them. Where coefficients are near each "
        "other, the shades do not begin at 0.",
      ),
      section.charts(figures),
      section.without(
        [method for method in task.methods if method.number not in shown],
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
    found = labels.of_table(run.labels)
    if found.counts.size and found.counts.sum() > 0:
      num_clients, num_classes = found.counts.shape
      return Section(
        title,
        [
          section.note(
            f"Training labels of the clients with seed {run.seeds.data}. Other "
            "seeds may split the data differently."
          ),
          section.charts(
            section.figure(
              labels.draw(found, task.clients, f"{task.identifier}-labels"),
              f"{num_clients:,} clients, {num_classes:,} classes",
            ),
            class_="charts wide",
          ),
        ],
      )
  return Section(title, absence="no run has counted them (labels.csv)")
