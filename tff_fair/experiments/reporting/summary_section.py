"""Section: all other measures at the end of the runs, as tables that fold."""

from collections.abc import Sequence

from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.measures import MEASURES, Measure
from tff_fair.experiments.reporting import (
  final_accuracies,
  final_measures,
  section,
  tables,
  tails,
)
from tff_fair.experiments.reporting.markup import Child, Markup
from tff_fair.experiments.reporting.methods import TaskRuns
from tff_fair.experiments.reporting.section import Section

_PERCENTS = (5, 10, 20, 30)
_TAILS = tuple(f"{end}_{q}" for end in ("worst", "best") for q in _PERCENTS)
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
  sizes = "; ".join(f"{q} %: {tails.clients(task, q)}" for q in _PERCENTS)
  return Section(
    "All measures",
    [
      section.note(
        "At the end of each run. The best is not marked here: among so many "
        "measures, some methods would stand out by chance."
      ),
      _table(
        task,
        "Test accuracy over honest clients alone (%)",
        _ACCURACY,
        final_measures.HONEST,
      )
      if has_honest
      else None,
      section.fold(
        "Worst and best clients",
        _table(task, f"Test accuracy over clients (%); {sizes}", _ACCURACY),
      ),
      section.fold(
        "Percentiles and variance",
        _table(task, "Test accuracy over clients (%; variance in %²)", _MORE),
      ),
      section.fold(
        "Uniformity and loss",
        _table(
          task,
          "Uniformity of accuracies, and test loss",
          _UNIFORMITY_AND_LOSS,
        ),
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
      tables.column(
        MEASURES[name],
        [
          final_measures.of_method(method, name, prefix)
          for method in task.methods
        ],
      )
      for name in names
    ],
  )


def _clients(task: TaskRuns) -> Child:
  """Returns a table of each client's accuracy.

  Returns:
    None if there are many clients, or runs have different ones.
  """
  found = {run.path: final_accuracies.of_run(run) for run in task.runs}
  clients = found[task.runs[0].path].index
  if not 0 < len(clients) <= _MAX_CLIENTS or not all(
    accuracies.index.equals(clients) for accuracies in found.values()
  ):
    return None
  columns = []
  for client in clients:
    measure = Measure(task.clients.full(int(client)), True)
    values = [
      measures.over_seeds(measure, [found[r.path][client] for r in method.runs])
      for method in task.methods
    ]
    columns.append(tables.column(measure, values))
  return section.fold(
    "Each client",
    tables.draw("Test accuracy of each client (%)", task.methods, columns),
  )
