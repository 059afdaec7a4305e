"""Section: all other measures at the end of the runs, as tables that fold."""

from collections.abc import Sequence

from tff_fair.experiments.comparing import measures
from tff_fair.experiments.reporting import final_measures, html_tables, section
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import TaskRuns
from tff_fair.experiments.reporting.section import Section
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
  has_honest = any(map(final_measures.has_honest, task.methods))
  sizes = "; ".join(
    f"{q} %: {final_measures.tail_clients(task, q)}" for q in _PERCENTS
  )
  score = task.score
  squared = f"; variance in {score.sign.strip()}²" if score.sign else ""
  more = f" ({score.sign.strip()}{squared})" if score.sign else ""
  error = [name for name in _ERROR if name in task.measures]
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
        final_measures.HONEST,
      )
      if has_honest
      else None,
      section.fold(
        "Worst and best clients",
        _table(
          task,
          f"Test {score.noun} over clients{score.in_brackets}; {sizes}",
          _ENDS,
        ),
      ),
      section.fold(
        "Percentiles and variance",
        _table(task, f"Test {score.noun} over clients{more}", _MORE),
      ),
      section.fold(
        "Uniformity and loss",
        _table(
          task,
          f"Uniformity of {score.plural}, and test loss",
          (*_UNIFORMITY, *_LOSS),
        ),
      ),
      section.fold(
        "By examples",
        _table(
          task,
          f"Test {score.noun}, clients weighted by their test examples"
          f"{score.in_brackets}",
          _BY_EXAMPLES,
        ),
      ),
      section.fold(
        "Error",
        _table(
          task,
          f"Test error, which is 100 − {score.noun}{score.in_brackets}",
          error,
        ),
      )
      if error
      else None,
      *(
        section.fold(
          other.title,
          _table(
            task,
            f"Test {other.noun} over clients{other.in_brackets}",
            measures.beside_names(other),
          ),
        )
        for other in (BY_NAME[name] for name in score.beside)
      ),
    ],
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
          final_measures.of_method(method, name, prefix, task.score)
          for method in task.methods
        ],
      )
      for name in names
    ],
  )
