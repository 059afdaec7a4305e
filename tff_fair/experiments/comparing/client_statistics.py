"""Measures of weighted clients that are more than a statistic of their scores.

A statistic T takes scores s_k and weights w_k, which are 1, or how often a
bootstrap drew client k. Of these, `tff_fair.metrics.statistics` has the
definitions. Here are, for n_k test examples of client k and accuracies a_k:

  by examples   T(s, w n)     client k counts n_k times
  error         T(1 - a, w)   the share of examples that the model gets wrong
  loss, R^2     T(losses, w), T(R^2, w)

Where all clients have as many examples, each measure by examples equals the one
by clients; `tff_fair.metrics.fairness_summary` tells what their tails are.
"""

import functools
import math
from collections.abc import Mapping

import numpy as np

from tff_fair.experiments.comparing.client_results import Clients, Statistic
from tff_fair.experiments.scores import ACCURACY, R2, Score
from tff_fair.metrics import statistics, vectors
from tff_fair.metrics.statistics import STATISTICS, TAIL_PERCENTS
from tff_fair.metrics.vectors import Vector

_BY_EXAMPLES = ("std", *(f"worst_{q}" for q in TAIL_PERCENTS))
_OF_ERROR = {"error": "mean", "error_relative_std": "relative_std"}
# The table of evaluations has no column of them: they need each client.
WITHOUT_COLUMN = frozenset(
  [*(f"weighted_{name}" for name in (*_BY_EXAMPLES, *_OF_ERROR)), *_OF_ERROR]
)


def of_score(name: str, score: Score) -> Statistic:
  """Returns a statistic of the scores by its name."""
  statistic = score.statistics[name]
  return lambda clients, weights: statistic(clients.score, weights)


def beside_score(score: Score) -> Mapping[str, Statistic]:
  """Returns the measures beside the statistics of a score, by name."""
  found: dict[str, Statistic] = {
    "weighted": _weighted,
    **{
      f"weighted_{name}": functools.partial(_by_examples, of_score(name, score))
      for name in _BY_EXAMPLES
    },
  }
  if score.name == ACCURACY.name:
    of_error = {
      name: functools.partial(_of_error, STATISTICS[statistic])
      for name, statistic in _OF_ERROR.items()
    }
    found |= of_error
    found |= {
      f"weighted_{name}": functools.partial(_by_examples, statistic)
      for name, statistic in of_error.items()
    }
  found |= {"loss": _loss, "loss_std": _loss_std, "loss_max": _loss_max}
  if R2 in score.beside:
    found |= {
      "r2": functools.partial(_of_r2, "mean"),
      "r2_median": functools.partial(_of_r2, "percentile_50"),
      "r2_min": functools.partial(_of_r2, "min"),
    }
  return found


def _weighted(clients: Clients, weights: Vector) -> Vector:
  return vectors.mean(clients.score, weights * clients.num_examples)


def _by_examples(
  statistic: Statistic, clients: Clients, weights: Vector
) -> Vector:
  return statistic(clients, _of_mean_1(weights * clients.num_examples))


def _of_error(
  statistic: statistics.Statistic, clients: Clients, weights: Vector
) -> Vector:
  return statistic(1 - clients.score, weights)


def _loss(clients: Clients, weights: Vector) -> Vector:
  return vectors.mean(clients.loss, weights)


def _loss_std(clients: Clients, weights: Vector) -> Vector:
  deviation = clients.loss - _loss(clients, weights)[..., None]
  return np.sqrt(vectors.mean(np.square(deviation), weights))


def _loss_max(clients: Clients, weights: Vector) -> Vector:
  return np.asarray(np.where(weights > 0, clients.loss, -np.inf).max(-1))


def _of_r2(name: str, clients: Clients, weights: Vector) -> Vector:
  """Returns a statistic of R² over the clients that have it."""
  if clients.r2 is None or not (known := ~np.isnan(clients.r2)).any():
    return np.full(weights.shape[:-1], math.nan)
  return STATISTICS[name](clients.r2[known], _of_mean_1(weights[..., known]))


def _of_mean_1(weights: Vector) -> Vector:
  """Returns weights as statistics of weighted clients take them."""
  return np.asarray(weights / weights.mean(-1, keepdims=True))
