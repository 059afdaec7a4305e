"""The start of a task's report: whether clients gain from joining."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from tff_fair.experiments import number_text
from tff_fair.experiments.analysis import joining_gains
from tff_fair.experiments.presenting import rendering
from tff_fair.experiments.presenting.report import joining_section
from tff_fair.experiments.presenting.report.task_runs import Method, TaskRuns
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.texts import sentences
from tff_fair.metrics.intervals import LEVEL

_MOST_NAMES = 5
_MOST_METHODS = 5  # The most methods whose clients are named.
_MOST_WARNED = 3
_COUNTS = ("gaining", "losing", "undecided")


def build(task: TaskRuns) -> str | None:
  """Returns the start of a task's report as HTML; None without final scores."""
  finished = [m for m in task.methods if all(r.is_finished for r in m.runs)]
  compared = [m for m in task.with_summary(summaries.JOINING) if m in finished]
  if not compared:
    name = f"test_{task.score.name}"
    finished = [m for m in finished if all(r.of_summary(name) for r in m.runs)]
  shown = compared or finished
  if not shown:
    return None
  seeds = {len(method.runs) for method in shown}
  if compared:
    data = _joining(task, compared)
  else:
    data = _single_method_scores(task, finished[-1])
  return rendering.html(
    "decision.html",
    score=task.score,
    meaning=sentences.explanation(task.score),
    num_methods=len(shown),
    runs=_of_seeds(min(seeds), max(seeds)),
    has_one_seed=1 in seeds,
    warnings=[
      f"{method.label}: {sentence}"
      for method in shown[:_MOST_WARNED]
      for sentence in sentences.majority(method.runs[0].summary or {})
    ],
    **data,
  )


def _of_seeds(least: int, most: int) -> str:
  if most == 1:
    return "one run"
  number = most if least == most else f"{least} to {most}"
  return f"{number} runs with other seeds"


def _joining(task: TaskRuns, methods: Sequence[Method]) -> dict[str, Any]:
  of_methods = [
    [r.of_summary(summaries.JOINING) for r in m.runs] for m in methods
  ]
  found = [f for of_method in of_methods for f in of_method]
  means = {
    kind: [statistics.fmean(f[kind] for f in runs) for runs in of_methods]
    for kind in ("federated", joining_gains.LOCAL, joining_gains.POOLED)
    if all(kind in f for f in found)
  }
  pooled = means.get(joining_gains.POOLED, ())
  counts: dict[str, list[int]] = {}
  if all("gaining" in f for f in found):
    counts = {name: [int(f[name]) for f in found] for name in _COUNTS}
  total = sum(values[0] for values in counts.values())
  is_better = task.score.is_better
  return {
    "table": joining_section.of_methods(task, methods),
    "means": {kind: _range(task, values) for kind, values in means.items()},
    "is_pooled_better": any(map(is_better, pooled, means["federated"])),
    "total": total,
    "counts": {n: number_text.how_many(v, total) for n, v in counts.items()},
    "most": {name: max(values) for name, values in counts.items()},
    "least": {name: min(values) for name, values in counts.items()},
    "names": [*_names(task, methods)],
    "alone": sentences.local_training(found[0]),
  }


def _range(task: TaskRuns, values: Sequence[float]) -> str:
  """Returns the range of scores, such as "57.00 to 64.00 %" or "57.00 %"."""
  ends = min(values), max(values)
  texts = dict.fromkeys(map(task.score.number, ends))
  return f"{' to '.join(texts)}{task.score.sign}"


def _names(task: TaskRuns, methods: Sequence[Method]) -> Iterator[str]:
  """Yields sentences that name clients with a significant gain or loss."""
  shown = methods[:_MOST_METHODS]
  found: dict[str, list[str]] = {}
  for method in shown:
    clients = method.runs[0].clients
    if clients is None or joining_gains.GAIN not in clients:
      continue
    sure = clients[clients[joining_gains.P_VALUE] < LEVEL]
    for verb, sign in (("gain", 1), ("lose", -1)):
      is_so = sign * sure[joining_gains.GAIN] > 0
      ids = sure.loc[is_so, "client_id"].tolist()
      if 0 < len(ids) <= _MOST_NAMES:
        names = ", ".join(task.clients.full(int(k)) for k in ids)
        ending = "s" if len(ids) == 1 else ""
        found.setdefault(f"{names} {verb}{ending}", []).append(method.label)
  which = " in the first run" if len(shown[0].runs) > 1 else ""
  for words, labels in found.items():
    is_each = len(labels) == len(shown) > 1
    method_names = "each method" if is_each else ", ".join(labels)
    yield f"With {method_names}, {words}{which}."


def _single_method_scores(task: TaskRuns, method: Method) -> dict[str, Any]:
  """Returns template values for runs without known gains from joining."""
  found = [run.of_summary(f"test_{task.score.name}") for run in method.runs]
  worst = "min" if task.score.higher_is_better else "max"
  mean, of_worst = (
    _range(task, [statistics.fmean(f[name] for f in found)])
    for name in ("mean", worst)
  )
  return {"table": None, "label": method.label, "mean": mean, "worst": of_worst}
