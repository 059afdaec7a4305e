"""Section: the mean score and those of the worst clients as bars.

The form of Figures 1 and 2 of Malekmohammadi and Yu, "Semi-Variance Reduction
for Fair Federated Learning".
"""

from collections.abc import Sequence

import numpy as np

from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.measures import Value
from tff_fair.experiments.reporting import (
  bar_chart,
  final_measures,
  scale,
  section,
  tails,
)
from tff_fair.experiments.reporting.bar_chart import Bar
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import Method, TaskRuns
from tff_fair.experiments.reporting.scale import Scale
from tff_fair.experiments.reporting.section import Section

_TITLE = "Mean and worst clients"
_NAMES = ("mean", "worst_10", "worst_20")


def build(task: TaskRuns) -> Section:
  """Returns the section: a chart for each measure, all to one scale."""
  if len(task.methods) < 2:
    return Section(_TITLE, absence="there is one method alone")
  values = {
    name: [
      final_measures.of_method(method, name, score=task.score)
      for method in task.methods
    ]
    for name in _NAMES
  }
  ends = [
    end
    for name, found in values.items()
    for method, value in zip(task.methods, found, strict=True)
    for end in final_measures.interval(method, task.measures[name], value)
    or (value.mean,)
  ]
  known = [end for end in ends if np.isfinite(end)]
  if not known:
    return Section(_TITLE, absence=f"no run has finite {task.score.plural}")
  limit = task.score.limit
  x = scale.linear(0, min(max(known), limit), bounds=(0, limit))
  return Section(
    _TITLE,
    [
      section.note(
        f"Test {task.score.noun} at the end of the runs.",
        f" Lines over the bars are {final_measures.INTERVALS} over seeds."
        if task.has_seeds
        else None,
      ),
      section.charts(
        [_figure(task, name, x, values[name]) for name in _NAMES],
        class_="charts three",
      ),
    ],
  )


def _figure(
  task: TaskRuns, name: str, x: Scale, values: Sequence[Value]
) -> Markup:
  measure = task.measures[name]
  score = task.score
  bars = [
    _bar(task, name, method, value)
    for method, value in zip(task.methods, values, strict=True)
  ]
  title = f"{measure.title}, {score.noun}"
  chart = bar_chart.draw(
    bars,
    x,
    identifier=f"{task.identifier}-bars-{name.replace('_', '-')}",
    title=title,
    description=f"{', '.join(f'{bar.label} {bar.text}' for bar in bars)}.",
    x_label=f"{score.noun}{score.in_brackets}",
  )
  percent = name.removeprefix("worst_")
  tail = f": {tails.clients(task, int(percent))}" if percent != name else ""
  return section.figure(chart, f"{measure.title}{tail}{score.in_brackets}")


def _bar(task: TaskRuns, name: str, method: Method, value: Value) -> Bar:
  measure = task.measures[name]
  return Bar(
    method.label,
    method.number,
    method.style,
    value.mean,
    final_measures.interval(method, measure, value),
    measures.value_text(measure, value._replace(std=None)),
    final_measures.text(method, measure, value, task.score.sign),
  )
