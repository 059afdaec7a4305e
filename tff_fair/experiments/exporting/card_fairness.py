"""How a model serves each client, in numbers with their intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from tff_fair import metrics
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.metrics.intervals import Interval
from tff_fair.metrics.statistics import STATISTICS

_SMALL = 30  # Test examples, below which an accuracy says little.


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Score:
  """The number that clients are compared by.

  Attributes:
    name: Its column.
    title: How sentences call it.
    statistics: The statistics of `metrics.statistics` by their titles.
    text: Returns a value as text.
    text_of_spread: Returns a standard deviation as text.
    are_shares: Whether it is a share of the test examples.
  """

  name: str
  title: str
  statistics: Mapping[str, str]
  text: Callable[[float], str]
  text_of_spread: Callable[[float], str]
  are_shares: bool


_SCORES = (
  _Score(
    name="accuracy",
    title="accuracy",
    statistics={
      "mean": "mean",
      "standard deviation": "std",
      "mean of the worst 10 %": "worst_10",
      "worst client": "min",
      "Jain's index": "jain",
    },
    text=lambda value: f"{100 * value:.1f} %",
    text_of_spread=lambda value: f"{100 * value:.1f} points",
    are_shares=True,
  ),
  _Score(
    name="rmse",
    title="root mean squared error, in units of the label",
    statistics={
      "mean": "mean",
      "standard deviation": "std",
      "mean of the worst 10 %": "best_10",  # The largest values.
      "worst client": "max",
      "Jain's index": "jain",
    },
    text=lambda value: f"{value:.4g}",
    text_of_spread=lambda value: f"{value:.4g}",
    are_shares=False,
  ),
)
_WITHOUT_INTERVAL = ("min", "max")
_GLOBAL = "global_"
_JAIN, _STD = "jain", "std"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
  """The last evaluation of a model, and what it is about.

  Attributes:
    round_num: Its round; None if there was none.
    clients: One row per client, with the columns of the score, `loss` and
      `num_examples`; none of those that attacked.
    num_attackers: How many clients are left out, because they attacked.
    is_of_one: Whether it is about one client alone.
  """

  round_num: int | None
  clients: pd.DataFrame
  num_attackers: int = 0
  is_of_one: bool = False


def read(
  run: Run, round_num: int, *, of_global: bool, client_id: int | None
) -> Evaluation:
  """Reads the evaluation of a run's model.

  Args:
    run: The run.
    round_num: The round of the model; the last evaluation up to it counts.
    of_global: Whether it is the global model of a run with personal ones.
    client_id: The client that it is about; None is all of them.
  """
  table = run.client_evaluations
  table = table[table[ROUND] <= round_num]
  if table.empty:
    return Evaluation(round_num=None, clients=table)
  last = int(table[ROUND].max())
  table = table[table[ROUND] == last]
  if of_global:
    kept = [n for n in table if f"{_GLOBAL}{n}" not in table]
    table = table[kept].rename(columns=lambda n: n.removeprefix(_GLOBAL))
  attackers = 0
  if run.clients is not None and "attacker" in run.clients:
    ids = run.clients.loc[run.clients["attacker"], "client_id"]
    attackers = int(table["client_id"].isin(ids).sum())
    table = table[~table["client_id"].isin(ids)]
  if client_id is not None:
    table = table[table["client_id"] == client_id]
  return Evaluation(
    round_num=last if len(table) else None,
    clients=table,
    num_attackers=attackers if client_id is None else 0,
    is_of_one=client_id is not None,
  )


def paragraphs(evaluation: Evaluation, round_num: int) -> list[str]:
  """Returns the numbers of an evaluation, in Markdown.

  Args:
    evaluation: The evaluation.
    round_num: The round of the model.
  """
  if evaluation.round_num is None:
    return ["The run has no evaluation of it: nothing is known."]
  score = next(s for s in _SCORES if s.name in evaluation.clients)
  sentences = []
  if evaluation.round_num != round_num:
    sentences.append(
      f"The last evaluation was after round {evaluation.round_num:,}, before "
      "this model."
    )
  if evaluation.is_of_one:
    return [" ".join([*sentences, _of_one(evaluation.clients, score)])]
  sentences.append(_who(evaluation.clients))
  if evaluation.num_attackers:
    sentences.append(
      f"{evaluation.num_attackers:,} clients that attacked are left out."
    )
  return [
    " ".join(sentences),
    _table(evaluation.clients, score),
    _meaning(evaluation.clients, score),
  ]


def limits(evaluation: Evaluation, num_clients: int) -> list[str]:
  """Returns what the numbers do not show, in sentences.

  Args:
    evaluation: The evaluation.
    num_clients: The size of the population.
  """
  if evaluation.round_num is None:
    return []
  examples = evaluation.clients["num_examples"]
  found = [
    "The numbers are about these clients' test data. Other clients may fare "
    "otherwise."
  ]
  others = num_clients - len(examples) - evaluation.num_attackers
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


def _of_one(clients: pd.DataFrame, score: _Score) -> str:
  (row,) = clients.to_dict("records")
  number = int(row["num_examples"])
  text = f"On the client's {number:,} test examples, the {score.title} is "
  text += score.text(row[score.name])
  if interval := _wilson(clients, score):
    text += f" (95 % interval: {_between(score.text, interval)})"
  return f"{text}, the mean loss {row['loss']:.4g}."


def _table(clients: pd.DataFrame, score: _Score) -> str:
  values = clients[score.name].to_numpy(np.float64)
  intervals = _intervals(clients, score)
  lines = [f"| {score.title} | value | 95 % interval |", "|---|---|---|"]
  for title, name in score.statistics.items():
    text = {_JAIN: _index, _STD: score.text_of_spread}.get(name, score.text)
    value = float(STATISTICS[name](values, np.ones_like(values)))
    interval = intervals.get(name)
    shown = _between(text, interval) if interval else ""
    lines.append(f"| {title} | {text(value)} | {shown} |")
  for name, title in {"r2": "mean of R²", "loss": "mean loss"}.items():
    if name in clients:
      lines.append(f"| {title} | {clients[name].mean():.4g} | |")
  return "\n".join(lines)


def _intervals(clients: pd.DataFrame, score: _Score) -> dict[str, Interval]:
  values = clients[score.name].to_numpy(np.float64)
  names = [n for n in score.statistics.values() if n not in _WITHOUT_INTERVAL]
  if score.are_shares:
    found = metrics.fairness_intervals(
      values, _examples_of_shares(clients, score), names
    )
  else:
    found = metrics.bootstrap_intervals(
      {name: STATISTICS[name] for name in names}, values
    )
  return {name: ends for name, ends in found.items() if np.isfinite(ends).all()}


def _examples_of_shares(
  clients: pd.DataFrame, score: _Score
) -> np.ndarray | None:
  """Returns the examples that values are shares of; None if they are not."""
  values, examples = clients[score.name], clients["num_examples"]
  if score.are_shares and metrics.are_shares_of_examples(values, examples):
    return examples.to_numpy(np.float64)
  return None


def _wilson(clients: pd.DataFrame, score: _Score) -> Interval | None:
  """Returns the interval of a single client's accuracy, if there is one."""
  examples = _examples_of_shares(clients, score)
  if examples is None:
    return None
  (low,), (high,) = metrics.wilson_interval(clients[score.name], examples)
  return Interval(float(low), float(high))


def _meaning(clients: pd.DataFrame, score: _Score) -> str:
  sentences = [
    "The intervals say where a value would lie for other clients of the same "
    "kind. Jain's index is 1 where all clients fare the same."
  ]
  examples = _examples_of_shares(clients, score)
  noise = (
    None
    if examples is None
    else metrics.sampling_noise(clients[score.name], examples)
  )
  if noise and noise.share is not None:
    sentences.append(
      f"Test sets of these sizes alone spread equal clients by about "
      f"{score.text_of_spread(noise.std)}: {100 * noise.share:.0f} % of the "
      "variance between clients is such noise."
    )
  return " ".join(sentences)


def _between(text: Callable[[float], str], interval: Interval) -> str:
  return f"{text(interval.low)} to {text(interval.high)}"


def _index(value: float) -> str:
  return f"{value:.3f}"
