"""The first paragraph about a task, for people who decide: do we join?"""

import statistics
from collections.abc import Sequence

from tff_fair.experiments.analysis import joining
from tff_fair.experiments.presenting import rendering
from tff_fair.experiments.presenting.report.task_runs import (
  MethodRuns,
  TaskRuns,
)
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.texts import sentences

_MOST_NAMES = 5
_MOST_METHODS = 3  # In paragraphs; the table below has all.


def build(task: TaskRuns) -> str | None:
  """Returns the paragraphs; None where no run is finished."""
  finished = [
    method
    for method in task.methods
    if all(run.is_finished for run in method.runs)
  ]
  compared = [m for m in task.with_summary(summaries.JOINING) if m in finished]
  if not compared:
    name = f"test_{task.score.name}"
    finished = [m for m in finished if all(r.of_summary(name) for r in m.runs)]
  if not finished:
    return None
  told = (
    [_of_method(task, method) for method in compared[:_MOST_METHODS]]
    if compared
    else [_without_baselines(task, finished[-1])]
  )
  warnings = [
    f"{method.label}: {sentence}"
    for method in (compared or finished)[:_MOST_METHODS]
    for sentence in sentences.majority(method.runs[0].summary or {})
  ]
  return rendering.html("decision.html", told=told, warnings=warnings)


def _score_of(task: TaskRuns) -> str:
  """Returns the noun of the score, with what it means."""
  meaning = sentences.explanation(task.score)
  return f"{task.score.noun} ({meaning})" if meaning else task.score.noun


def _mean(task: TaskRuns, values: Sequence[float]) -> str:
  score = task.score
  return f"{score.number(statistics.fmean(values))}{score.sign}"


def _seeds(method: MethodRuns) -> str:
  number = len(method.runs)
  return "one run" if number == 1 else f"{number} runs with different seeds"


def _of_method(task: TaskRuns, method: MethodRuns) -> str:
  """Returns what joining brings with a method, over its seeds."""
  found = [run.of_summary(summaries.JOINING) for run in method.runs]
  means = {
    kind: _mean(task, [f[kind] for f in found])
    for kind in ("federated", "local", "pooled")
    if all(kind in f for f in found)
  }
  told = [
    f"With {method.label}, the mean {_score_of(task)} over the clients is "
    f"{means['federated']} in the federation ({_seeds(method)})."
  ]
  if "local" in means:
    told.append(f"Alone, each with its own data, they reach {means['local']}.")
  if "pooled" in means:
    federated, pooled = (
      statistics.fmean(f[kind] for f in found)
      for kind in ("federated", "pooled")
    )
    told.append(
      f"The federation comes to {means['federated']} of the {means['pooled']} "
      "that one model on all data in one place reaches."
      if task.score.is_better(pooled, federated)
      else f"One model on all data in one place reaches {means['pooled']}: the "
      "federation is as good."
    )
  if all("gaining" in f for f in found):
    total = sum(int(found[0][n]) for n in ("gaining", "losing", "undecided"))
    gain, lose, open_ = (
      sentences.how_many([int(f[name]) for f in found], total)
      for name in ("gaining", "losing", "undecided")
    )
    told.append(
      f"{gain} clients gain from joining, {lose} lose, and for {open_} the "
      "test data cannot tell: each was tested with 95 % confidence, allowing "
      "for the number of clients."
    )
    told += [
      *_names(task, method),
      sentences.alone(found[0]) or "",
    ]
  return " ".join(filter(None, told))


def _names(task: TaskRuns, method: MethodRuns) -> list[str]:
  """Returns the few clients that gain and lose in the first run."""
  clients = method.runs[0].clients
  if clients is None or joining.GAIN not in clients:
    return []
  is_sure = clients[joining.P_VALUE] < joining.LEVEL
  told = []
  for words, found in (
    ("gain", clients[is_sure & (clients[joining.GAIN] > 0)]),
    ("lose", clients[is_sure & (clients[joining.GAIN] < 0)]),
  ):
    ids = found["client_id"].tolist()
    if 0 < len(ids) <= _MOST_NAMES:
      names = ", ".join(task.clients.full(int(k)) for k in ids)
      which = " in the first run" if len(method.runs) > 1 else ""
      told.append(f"Those that {words}{which}: {names}.")
  return told


def _without_baselines(task: TaskRuns, method: MethodRuns) -> str:
  """Returns what a method reaches where nothing is there to compare with."""
  found = [run.of_summary(f"test_{task.score.name}") for run in method.runs]
  worst = "min" if task.score.higher_is_better else "max"
  return (
    f"With {method.label}, the mean {_score_of(task)} over the clients is "
    f"{_mean(task, [f['mean'] for f in found])}, and "
    f"{_mean(task, [f[worst] for f in found])} for the one that is served "
    f"worst ({_seeds(method)}). These runs do not say whether joining pays: "
    "--local_baseline trains each client alone to compare with, and "
    "--pooled_baseline one model on all data in one place."
  )
