"""What an audit found, in sentences."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tff_fair.experiments import spread_noise
from tff_fair.experiments.auditing import scores
from tff_fair.experiments.scores import Score

_LEVEL = 0.05
_LEAST_P = 0.001
_TAIL = 0.025  # Above the upper end of a 95 % interval.


def sentences(clients: pd.DataFrame, summary: Mapping[str, Any]) -> list[str]:
  """Returns who is worst off, and whether the spread is more than noise.

  Args:
    clients: One row per client, with intervals of accuracies.
    summary: As `summary.summarize` returns it.
  """
  score = scores.of_table(clients)
  told = [_worst(clients, score)]
  if score is not scores.ACCURACY:
    told.append(
      "How much of the spread is the noise of small test sets, nobody can tell "
      f"from each client's {score.noun} alone."
    )
    return told
  if noise := summary[spread_noise.KEY]:
    std = summary["test_accuracy"]["std"]
    told.append(spread_noise.sentence(std, noise))
  told.append(_equality(summary))
  told.append(_below(clients, summary["test_accuracy"]["mean"]))
  return told


def _worst(clients: pd.DataFrame, score: Score) -> str:
  values = clients[score.name]
  worst = values.min() if score.higher_is_better else values.max()
  of_worst = clients[values == worst]
  first = of_worst.iloc[0]
  name = scores.shown_name(first[scores.CLIENT])
  value = f"{score.number(worst)}{score.sign}"
  if len(of_worst) == len(clients):
    return f"All clients have the same {score.noun}: {value}."
  if len(of_worst) > 1:
    return (
      f"Worst off are {len(of_worst):,} clients, one of them "
      f"{name}: their {score.noun} is {value}."
    )
  count = f"{first[scores.COUNT]:,} test examples"
  if score is not scores.ACCURACY:
    return f"Worst off is {name}: its {score.noun} is {value}, over {count}."
  low, high = (first[f"{score.name}_{end}"] for end in ("low", "high"))
  return (
    f"Worst off is {name}: its {score.noun} is {value} of {count}, with the "
    f"95 % interval {score.number(low)} to {score.number(high)}{score.sign}."
  )


def _equality(summary: Mapping[str, Any]) -> str:
  p_value = summary["equality_p_value"]
  shown = f"< {_LEAST_P}" if p_value < _LEAST_P else f"= {p_value:.3f}"
  if p_value < _LEVEL:
    return (
      "The clients differ by more than noise: that is unlikely if all are "
      f"served equally well (p {shown})."
    )
  return (
    "The clients may differ by noise alone: that is no surprise if all are "
    f"served equally well (p {shown})."
  )


def _below(clients: pd.DataFrame, mean: float) -> str:
  below = int((clients["accuracy_high"] < mean).sum())
  expected = _TAIL * len(clients)
  verb, whose = ("is", "its") if below == 1 else ("are", "their")
  return (
    f"{below:,} of {len(clients):,} clients {verb} clearly below the mean of "
    f"{scores.ACCURACY.number(mean)} %: all of {whose} interval is. By chance "
    f"alone, about {expected:,.1f} would be."
  )
