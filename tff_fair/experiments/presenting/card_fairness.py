"""The fairness section of a model card: scores over clients, with intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from tff_fair import metrics
from tff_fair.experiments.analysis import questions, sampling_noise
from tff_fair.experiments.analysis.questions import Question
from tff_fair.experiments.presenting import rendering
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.spec.scores import ACCURACY, BY_NAME, Score

_SMALL = 30  # With fewer test examples, an accuracy is imprecise.
_WITH_INTERVAL = ("mean", "std", "worst_10", "jain")
_GLOBAL = "global_"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LastEvaluation:
  """The last evaluation of a model: a row per client, without attackers."""

  round_num: int | None  # None if there is no evaluation.
  clients: pd.DataFrame
  num_attackers: int = 0
  num_unseen: int = 0
  is_single_client: bool = False
  score: Score = ACCURACY


def read(
  run: Run, round_num: int, *, of_global: bool, client_id: int | None
) -> LastEvaluation:
  """Returns the last evaluation up to `round_num`, of one client or of all.

  `of_global` selects the global model's scores if models are personal.
  """
  table = run.client_evaluations
  table = table[table[ROUND] <= round_num]
  if table.empty:
    return LastEvaluation(round_num=None, clients=table)
  last = int(table[ROUND].max())
  table = table[table[ROUND] == last]
  if of_global:
    names = [n for n in table if f"{_GLOBAL}{n}" not in table]
    table = table[names].rename(columns=lambda n: n.removeprefix(_GLOBAL))
  everyone = len(table)
  if client_id is None:
    table = tables.drop_unseen(table)
  unseen = everyone - len(table)
  attacks = table["client_id"].isin(tables.attackers(run.clients))
  attackers, table = int(attacks.sum()), table[~attacks]
  if client_id is not None:
    table = table[table["client_id"] == client_id]
  return LastEvaluation(
    round_num=last if len(table) else None,
    clients=table,
    num_attackers=attackers if client_id is None else 0,
    num_unseen=unseen,
    is_single_client=client_id is not None,
    score=run.score,
  )


def paragraphs(
  evaluation: LastEvaluation, round_num: int, question: Question
) -> str:
  """Returns the statistics of an evaluation as Markdown paragraphs."""
  score, everyone = evaluation.score, evaluation.clients
  data: dict[str, Any] = {}
  if evaluation.is_single_client and evaluation.round_num is not None:
    data = {"of_one": _single_client_texts(everyone, score)}
  elif evaluation.round_num is not None:
    clients = everyone[everyone[score.name].notna()]
    others = [BY_NAME[name] for name in score.extra_scores]
    data = {
      "left_out": len(everyone) - len(clients),
      "rows": [] if clients.empty else _rows(clients, score, question),
      "beside": {o.noun: _formatter(o)(clients[o.name].mean()) for o in others},
      "loss": f"{clients['loss'].mean():.4g}",
      "about": _about(clients, score, question),
      "noise": _noise(clients, score),
    }
  return rendering.markdown(
    "fairness.md",
    it=evaluation,
    score=score,
    title=score.noun if score.is_accuracy else f"{score.noun}, {score.in_unit}",
    examples=everyone.get("num_examples"),
    question=question.name,
    is_before=evaluation.round_num != round_num,
    **data,
  )


def limits(evaluation: LastEvaluation, num_clients: int) -> list[str]:
  """Returns sentences about the limits of an evaluation's numbers."""
  if evaluation.round_num is None:
    return []
  examples = evaluation.clients["num_examples"]
  found = [
    "The numbers are about these clients' test data. Other clients may fare "
    "differently."
  ]
  left_out = evaluation.num_attackers + evaluation.num_unseen
  others = num_clients - len(examples) - left_out
  if others and not evaluation.is_single_client:
    found.append(
      f"The run did not evaluate {others:,} of its {num_clients:,} clients."
    )
  if num_small := int((examples < _SMALL).sum()):
    whose = (
      "The test data are"
      if evaluation.is_single_client
      else f"{num_small:,} of {len(examples):,} clients "
      f"{'has' if num_small == 1 else 'have'} test data of"
    )
    found.append(
      f"{whose} fewer than {_SMALL} examples. So few examples show little "
      "about one client."
    )
  return found


def _single_client_texts(clients: pd.DataFrame, score: Score) -> dict[str, str]:
  (row,) = clients.to_dict("records")
  found = {"loss": f"{row['loss']:.4g}", "value": "", "interval": ""}
  if not np.isnan(row[score.name]):
    text = _formatter(score)
    found["value"] = text(row[score.name])
    examples = _examples_of_shares(clients, score)
    if examples is not None:
      (low,), (high,) = metrics.wilson_interval(clients[score.name], examples)
      found["interval"] = f"{text(low)} to {text(high)}"
  return found


def _rows(
  clients: pd.DataFrame, score: Score, question: Question
) -> list[tuple[str, str, str]]:
  """Returns titles, values and intervals of statistics over clients."""
  values = clients[score.name].to_numpy(np.float64)
  intervals = score.intervals(
    values,
    _examples_of_shares(clients, score),
    _WITH_INTERVAL,
    of_other_clients=question.name == questions.OTHER_CLIENTS,
  )
  texts: dict[str, Callable[[float], str]] = {
    "jain": "{:.3f}".format,
    "std": _formatter(score, " points"),
  }
  rows = []
  for title, name in {
    "mean": "mean",
    "standard deviation": "std",
    "mean of the worst 10 %": "worst_10",
    "worst client": "min" if score.higher_is_better else "max",
    "Jain's index": "jain",
  }.items():
    text = texts.get(name, _formatter(score))
    value = float(score.statistics[name](values, np.ones_like(values)))
    if not np.isnan(value):  # A ratio is NaN if it is undefined.
      ends = map(text, intervals.get(name, ()))
      rows.append((title, text(value), " to ".join(ends)))
  return rows


def _examples_of_shares(
  clients: pd.DataFrame, score: Score
) -> np.ndarray | None:
  """Returns numbers of examples if scores are shares of examples, else None."""
  values, examples = clients[score.name], clients["num_examples"]
  if score.is_accuracy and metrics.are_shares_of_examples(values, examples):
    return examples.to_numpy(np.float64)
  return None


def _about(clients: pd.DataFrame, score: Score, question: Question) -> str:
  """Returns the population that intervals refer to; "" without intervals."""
  if question.name == questions.OTHER_CLIENTS:
    return "for other clients of the same kind"
  if _examples_of_shares(clients, score) is None:
    return ""
  return "for other test examples of these clients"


def _noise(clients: pd.DataFrame, score: Score) -> dict[str, str]:
  """Returns the sampling noise in scores as text: std and % of the variance."""
  noise = score.is_accuracy and sampling_noise.of_scores(
    clients[score.name], clients["num_examples"]
  )
  if not noise:
    return {}
  std = _formatter(score, " points")(noise["std"])
  return {"std": std, "share": f"{100 * noise['share']:.0f}"}


def _formatter(score: Score, unit: str = "") -> Callable[[float], str]:
  """Returns a formatter of scores; `unit` replaces the sign % of accuracies."""
  if score.is_accuracy:
    return lambda value: f"{score.scale * value:.1f}{unit or score.sign}"
  return score.text
