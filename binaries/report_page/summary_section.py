"""Section: the measures at the end of the runs, as tables."""

from collections.abc import Sequence

from binaries.report_page import final_accuracies, measures, section, tables
from binaries.report_page.markup import Markup
from binaries.report_page.measures import Measure
from binaries.report_page.methods import TaskRuns
from binaries.report_page.section import Section

_MAX_CLIENTS = 10  # A column for each has room.


def build(task: TaskRuns) -> Section:
  """Returns the section: two or three tables."""
  return Section(
    "Summary",
    [
      section.note(
        "At the end of each run, on the clients’ test data; each client counts "
        "once.",
        " Mean ± sample standard deviation over seeds."
        if task.has_seeds
        else None,
        " The best value of a column is bold, the second best underlined."
        if len(task.methods) > 1
        else None,
      ),
      _table(task, "Test accuracy over clients (%)", measures.ACCURACY),
      _table(
        task, "More of test accuracy over clients (%)", measures.MORE_ACCURACY
      ),
      _table(
        task,
        "Uniformity of accuracies, and test loss",
        measures.UNIFORMITY_AND_LOSS,
      ),
      _clients(task),
    ],
  )


def _table(task: TaskRuns, caption: str, columns: Sequence[Measure]) -> Markup:
  return tables.draw(
    caption,
    task.methods,
    [
      (
        column.title,
        [column.of_method(method) for method in task.methods],
        column.more_is_better,
      )
      for column in columns
    ],
  )


def _clients(task: TaskRuns) -> Markup | None:
  """Returns a table of the clients' accuracies if they are few and the same."""
  found = {run.path: final_accuracies.of_run(run) for run in task.runs}
  names = {run.path: final_accuracies.names(run) for run in task.runs}
  first = task.runs[0].path
  clients = found[first].index
  if not 0 < len(clients) <= _MAX_CLIENTS or not all(
    found[path].index.equals(clients) and names[path].equals(names[first])
    for path in found
  ):
    return None
  columns = [
    (
      names[first].get(client, str(client)),
      [
        measures.over_seeds([100 * found[r.path][client] for r in method.runs])
        for method in task.methods
      ],
      True,
    )
    for client in clients
  ]
  return tables.draw("Test accuracy of each client (%)", task.methods, columns)
