"""Section: all other measures at the end of the runs, as tables that fold."""

from collections.abc import Iterator, Sequence

from tff_fair.experiments.comparing import measures
from tff_fair.experiments.reporting import final_measures, html_tables, section
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import TaskRuns
from tff_fair.experiments.reporting.section import Section
from tff_fair.experiments.runs import tables
from tff_fair.experiments.scores import BY_NAME

_PERCENTS = (5, 10, 20, 30)
_TAILS = tuple(f"{end}_{q}" for end in ("worst", "best") for q in _PERCENTS)
_ENDS = ("mean", "std", *_TAILS)
_MORE = (
  *("variance", "min", "percentile_10", "percentile_50"),
  *("percentile_90", "max"),
)
_UNIFORMITY = ("relative_std", "angle", "kl_uniform", "entropy", "jain", "gini")
_BY_EXAMPLES = (
  *("weighted", "weighted_std"),
  *(f"weighted_worst_{q}" for q in _PERCENTS),
)
# Of accuracies alone.
_ERROR = tuple(
  f"{by}{name}"
  for by in ("", "weighted_")
  for name in ("error", "error_relative_std")
)
_LOSS = ("loss", "loss_std", "loss_max")


def build(task: TaskRuns) -> Section:
  """Returns the section: some tables."""
  score = task.score
  shown = [*_of_score(task), *map(_of_other, score.beside)]
  return Section(
    "All measures",
    [
      section.note(
        "At the end of each run. The best is not marked here: among so many "
        "measures, some methods would stand out by chance."
      ),
      _table(
        task,
        f"Test {score.noun} over honest clients alone{score.in_brackets}",
        _ENDS,
        tables.HONEST,
      )
      if any(map(final_measures.has_honest, task.methods))
      else None,
      *(
        section.fold(title, _table(task, caption, names))
        for title, caption, names in shown
        if names
      ),
    ],
  )


def _of_score(task: TaskRuns) -> Iterator[tuple[str, str, Sequence[str]]]:
  """Yields title, caption and measures of each table of the runs' score."""
  score = task.score
  test, unit = f"Test {score.noun}", score.sign.strip()
  sizes = "; ".join(
    f"{q} %: {final_measures.tail_clients(task, q)}" for q in _PERCENTS
  )
  more = f" ({unit}; variance in {unit}²)" if unit else ""
  yield (
    "Worst and best clients",
    f"{test} over clients{score.in_brackets}; {sizes}",
    _ENDS,
  )
  yield "Percentiles and variance", f"{test} over clients{more}", _MORE
  yield (
    "Uniformity and loss",
    f"Uniformity of {score.plural}, and test loss",
    (*_UNIFORMITY, *_LOSS),
  )
  yield (
    "By examples",
    f"{test}, clients weighted by their test examples{score.in_brackets}",
    _BY_EXAMPLES,
  )
  yield (
    "Error",
    f"Test error, which is 100 − {score.noun}{score.in_brackets}",
    [name for name in _ERROR if name in task.measures],
  )


def _of_other(name: str) -> tuple[str, str, Sequence[str]]:
  """Returns the same of a score beside the runs' own."""
  score = BY_NAME[name]
  return (
    score.title,
    f"Test {score.noun} over clients{score.in_brackets}",
    measures.beside_names(score),
  )


def _table(
  task: TaskRuns, caption: str, names: Sequence[str], prefix: str = ""
) -> Markup:
  return html_tables.draw(
    caption,
    task.methods,
    [
      html_tables.column(
        task.measures[name],
        [
          final_measures.of_method(task, method, name, prefix)
          for method in task.methods
        ],
      )
      for name in names
    ],
  )
