"""How a model serves each client, in numbers with their intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pandas as pd

from tff_fair import metrics
from tff_fair.experiments.analysis import questions, sampling_noise
from tff_fair.experiments.analysis.questions import Question
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.spec.scores import ACCURACY, BY_NAME, Score
from tff_fair.metrics.intervals import Interval

_SMALL = 30  # Test examples, below which an accuracy says little.
_WITH_INTERVAL = ("mean", "std", "worst_10", "jain")
_GLOBAL = "global_"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LastEvaluation:
  """The last evaluation of a model, and what it is about.

  Attributes:
    round_num: Its round; None if there was none.
    clients: One row per client, with the columns of the score, `loss` and
      `num_examples`; none of those that attacked.
    num_attackers: How many clients are left out, because they attacked.
    num_unseen: How many are, because they took no part in training.
    is_of_one: Whether it is about one client alone.
    score: The score of the run.
  """

  round_num: int | None
  clients: pd.DataFrame
  num_attackers: int = 0
  num_unseen: int = 0
  is_of_one: bool = False
  score: Score = ACCURACY


def read(
  run: Run, round_num: int, *, of_global: bool, client_id: int | None
) -> LastEvaluation:
  """Reads the evaluation of a run's model."""
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
    table = tables.seen(table)
  unseen, attackers = everyone - len(table), 0
  if run.clients is not None and "attacker" in run.clients:
    ids = run.clients.loc[run.clients["attacker"], "client_id"]
    attackers = int(table["client_id"].isin(ids).sum())
    table = table[~table["client_id"].isin(ids)]
  if client_id is not None:
    table = table[table["client_id"] == client_id]
  return LastEvaluation(
    round_num=last if len(table) else None,
    clients=table,
    num_attackers=attackers if client_id is None else 0,
    num_unseen=unseen,
    is_of_one=client_id is not None,
    score=run.score,
  )


def paragraphs(
  evaluation: LastEvaluation, round_num: int, question: Question
) -> list[str]:
  """Returns the numbers of an evaluation, in Markdown."""
  if evaluation.round_num is None:
    return ["The run has no evaluation of it: nothing is known."]
  score = evaluation.score
  sentences = []
  if evaluation.round_num != round_num:
    sentences.append(
      f"The last evaluation was after round {evaluation.round_num:,}, before "
      "this model."
    )
  if evaluation.is_of_one:
    return [" ".join([*sentences, _of_one(evaluation.clients, score)])]
  sentences.append(_who(evaluation.clients))
  clients = evaluation.clients[evaluation.clients[score.name].notna()]
  if clients.empty:
    sentences.append(f"None of them has {score.needs}: {score.noun} needs it.")
    return [" ".join(sentences)]
  if left_out := len(evaluation.clients) - len(clients):
    sentences.append(
      f"{left_out:,} of them do not have {score.needs}, and so no "
      f"{score.noun}: the table leaves them out."
    )
  if evaluation.num_attackers:
    sentences.append(
      f"{evaluation.num_attackers:,} clients that attacked are left out."
    )
  if evaluation.num_unseen:
    sentences.append(
      f"{evaluation.num_unseen:,} clients that took no part in training are "
      "not in the table."
    )
  return [
    " ".join(sentences),
    _table(clients, score, question),
    _meaning(clients, score, question),
  ]


def limits(evaluation: LastEvaluation, num_clients: int) -> list[str]:
  """Returns what the numbers do not show, in sentences."""
  if evaluation.round_num is None:
    return []
  examples = evaluation.clients["num_examples"]
  found = [
    "The numbers are about these clients' test data. Other clients may fare "
    "otherwise."
  ]
  left_out = evaluation.num_attackers + evaluation.num_unseen
  others = num_clients - len(examples) - left_out
  if others and not evaluation.is_of_one:
    found.append(
      f"The run did not evaluate {others:,} of its {num_clients:,} clients."
    )
  if num_small := int((examples < _SMALL).sum()):
    whose = (
      "The test data are"
      if evaluation.is_of_one
      else f"{num_small:,} of {len(examples):,} clients have test data of"
    )
    found.append(
      f"{whose} fewer than {_SMALL} examples. So few say little about one "
      "client."
    )
  return found


def _who(clients: pd.DataFrame) -> str:
  examples = clients["num_examples"].astype(int)
  least, most = examples.min(), examples.max()
  each = f"{most:,}" if least == most else f"between {least:,} and {most:,}"
  return (
    f"The run evaluated the model on the test data of {len(clients):,} "
    f"clients, {examples.sum():,} examples together, {each} each. In the table "
    "each client counts once."
  )


def _of_one(clients: pd.DataFrame, score: Score) -> str:
  (row,) = clients.to_dict("records")
  number = int(row["num_examples"])
  if np.isnan(row[score.name]):
    return (
      f"The client's {number:,} test examples do not have {score.needs}, and "
      f"so no {score.noun}; the mean loss is {row['loss']:.4g}."
    )
  text = f"On the client's {number:,} test examples, the {_title(score)} is "
  text += _text(score)(row[score.name])
  examples = _examples_of_shares(clients, score)
  if examples is not None:
    (low,), (high,) = metrics.wilson_interval(clients[score.name], examples)
    interval = Interval(float(low), float(high))
    text += f" (95 % interval: {_between(_text(score), interval)})"
  return f"{text}, the mean loss {row['loss']:.4g}."


def _table(clients: pd.DataFrame, score: Score, question: Question) -> str:
  values = clients[score.name].to_numpy(np.float64)
  intervals = score.intervals(
    values,
    _examples_of_shares(clients, score),
    _WITH_INTERVAL,
    of_other_clients=question.name == questions.OTHER_CLIENTS,
  )
  texts: dict[str, Callable[[float], str]] = {
    "jain": "{:.3f}".format,
    "std": _text_of_spread(score),
  }
  lines = [f"| {_title(score)} | value | 95 % interval |", "|---|---|---|"]
  for title, name in {
    "mean": "mean",
    "standard deviation": "std",
    "mean of the worst 10 %": "worst_10",
    "worst client": "min" if score.higher_is_better else "max",
    "Jain's index": "jain",
  }.items():
    text = texts.get(name, _text(score))
    value = float(score.statistics[name](values, np.ones_like(values)))
    if np.isnan(value):  # A ratio to a mean of values below 0, too.
      continue
    interval = intervals.get(name)
    shown = _between(text, interval) if interval else ""
    lines.append(f"| {title} | {text(value)} | {shown} |")
  for name in score.beside:
    other = BY_NAME[name]
    mean = clients[name].astype(float).mean()
    lines.append(f"| mean of {other.noun} | {_text(other)(mean)} | |")
  lines.append(f"| mean loss | {clients['loss'].mean():.4g} | |")
  return "\n".join(lines)


def _examples_of_shares(
  clients: pd.DataFrame, score: Score
) -> np.ndarray | None:
  """Returns the examples that values are shares of; None if they are not."""
  values, examples = clients[score.name], clients["num_examples"]
  if _is_accuracy(score) and metrics.are_shares_of_examples(values, examples):
    return examples.to_numpy(np.float64)
  return None


def _meaning(clients: pd.DataFrame, score: Score, question: Question) -> str:
  if question.name == questions.OTHER_CLIENTS:
    about = "for other clients of the same kind"
  elif _examples_of_shares(clients, score) is None:
    about = ""
  else:
    about = "for other test examples of these clients"
  sentences = [
    f"The intervals say where a value would lie {about} "
    f"(question={question.name})."
    if about
    else "The values are those of these clients, without intervals "
    f"(question={question.name}); question={questions.OTHER_CLIENTS} has some."
  ]
  if score.lowest == 0:
    sentences.append("Jain's index is 1 where all clients fare the same.")
  if _is_accuracy(score) and (
    noise := sampling_noise.of_clients(
      clients[score.name], clients["num_examples"]
    )
  ):
    sentences.append(
      "Test sets of these sizes alone spread equal clients by about "
      f"{_text_of_spread(score)(noise['std'])}: {100 * noise['share']:.0f} % "
      "of the variance between clients is such noise."
    )
  return " ".join(sentences)


def _is_accuracy(score: Score) -> bool:
  return score.name == ACCURACY.name


def _title(score: Score) -> str:
  return score.noun if _is_accuracy(score) else f"{score.noun}, {score.in_unit}"


def _text(score: Score) -> Callable[[float], str]:
  """Returns a function from a value to text."""
  if _is_accuracy(score):
    return lambda value: f"{score.scale * value:.1f}{score.sign}"
  return score.text


def _text_of_spread(score: Score) -> Callable[[float], str]:
  """Returns a function from a standard deviation to text."""
  if _is_accuracy(score):
    return lambda value: f"{score.scale * value:.1f} points"
  return score.text


def _between(text: Callable[[float], str], interval: Interval) -> str:
  return f"{text(interval.low)} to {text(interval.high)}"
