"""Section: the measures at the end of the runs, as tables."""

from collections.abc import Sequence

from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.measures import MEASURES, Measure
from tff_fair.experiments.reporting import (
  final_accuracies,
  final_measures,
  section,
  tables,
)
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import TaskRuns
from tff_fair.experiments.reporting.section import Section

_TAILS = tuple(
  f"{end}_{q}" for end in ("worst", "best") for q in (5, 10, 20, 30)
)
_ACCURACY = ("mean", "std", *_TAILS)
_MORE = (
  *("weighted", "variance", "min", "percentile_10", "percentile_50"),
  *("percentile_90", "max"),
)
_UNIFORMITY_AND_LOSS = (
  *("relative_std", "angle", "kl_uniform", "entropy", "jain", "loss"),
  *("loss_std", "loss_max"),
)
_MAX_CLIENTS = 10  # A column for each has room.


def build(task: TaskRuns) -> Section:
  """Returns the section: some tables."""
  has_honest = any(map(final_measures.has_honest, task.methods))
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
      _table(task, "Test accuracy over clients (%)", _ACCURACY),
      _table(
        task,
        "Test accuracy over honest clients alone (%)",
        _ACCURACY,
        final_measures.HONEST,
      )
      if has_honest
      else None,
      _table(
        task, "More of test accuracy over clients (%; variance in %²)", _MORE
      ),
      _table(
        task, "Uniformity of accuracies, and test loss", _UNIFORMITY_AND_LOSS
      ),
      _clients(task),
    ],
  )


def _table(
  task: TaskRuns, caption: str, names: Sequence[str], prefix: str = ""
) -> Markup:
  return tables.draw(
    caption,
    task.methods,
    [
      (
        MEASURES[name],
        [
          final_measures.of_method(method, name, prefix)
          for method in task.methods
        ],
      )
      for name in names
    ],
  )


def _clients(task: TaskRuns) -> Markup | None:
  """Returns a table of each client's accuracy.

  Returns:
    None if there are many clients, or runs have different ones.
  """
  found = {run.path: final_accuracies.of_run(run) for run in task.runs}
  names = {run.path: final_accuracies.names(run) for run in task.runs}
  first = task.runs[0].path
  clients = found[first].index
  if not 0 < len(clients) <= _MAX_CLIENTS or not all(
    found[path].index.equals(clients) and names[path].equals(names[first])
    for path in found
  ):
    return None
  columns = []
  for client in clients:
    measure = Measure(names[first].get(client, str(client)), True)
    values = [
      measures.over_seeds(measure, [found[r.path][client] for r in method.runs])
      for method in task.methods
    ]
    columns.append((measure, values))
  return tables.draw("Test accuracy of each client (%)", task.methods, columns)
