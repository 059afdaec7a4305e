"""Holds clients' results by seed; pairs two methods' results for `paired`."""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tff_fair.experiments.spec.seeds import Seeds as RunSeeds
from tff_fair.metrics.vectors import Vector


class Clients(NamedTuple):
  """The results of K clients in one evaluation of a run."""

  ids: np.ndarray  # int64[K], ascending and distinct.
  score: Vector  # float64[K], like `loss` and `num_examples`.
  loss: Vector  # May be NaN or infinite.
  num_examples: Vector  # Above 0.
  extra_columns: Mapping[str, Vector] = MappingProxyType({})

  def subset(self, ids: np.ndarray) -> "Clients":
    """Returns the results of the clients in `ids`."""
    if np.array_equal(self.ids, ids):
      return self  # `paired.memoize` recognizes only the same object.
    chosen = np.isin(self.ids, ids)
    if chosen.all():
      return self
    return Clients(
      self.ids[chosen],
      self.score[chosen],
      self.loss[chosen],
      self.num_examples[chosen],
      {name: values[chosen] for name, values in self.extra_columns.items()},
    )


# A measure: a function of K clients and their weights, float64[..., K], that
# returns float64[...].
Statistic = Callable[[Clients, Vector], Vector]
# A method's evaluations by seed. A measure's value for a seed is its mean over
# the seed's evaluations.
ResultsBySeed = Mapping[RunSeeds, Sequence[Clients]]


def subset(method: ResultsBySeed, ids: Sequence[int]) -> ResultsBySeed:
  """Returns the results of the clients in `ids`; drops seeds that have none."""
  chosen = {
    seed: [evaluation.subset(np.array(ids)) for evaluation in evaluations]
    for seed, evaluations in method.items()
  }
  return {
    s: found for s, found in chosen.items() if all(e.ids.size for e in found)
  }


class Pair(NamedTuple):
  """Evaluations of two methods for one seed, with the same clients."""

  ids: np.ndarray
  method: Sequence[Clients]
  baseline: Sequence[Clients]

  def values(
    self, statistic: Statistic, weights: Vector
  ) -> tuple[Vector, Vector]:
    """Returns both methods' means of `statistic` over their evaluations."""
    method, baseline = (
      np.mean([statistic(e, weights) for e in evaluations], 0)
      for evaluations in (self.method, self.baseline)
    )
    return method, baseline


def are_identical(method: ResultsBySeed, baseline: ResultsBySeed) -> bool:
  """Returns whether two methods give common clients equal scores and losses."""
  found = pairs(method, baseline)
  return bool(found) and all(
    np.array_equal(one.score, other.score, equal_nan=True)
    and np.array_equal(one.loss, other.loss, equal_nan=True)
    for pair in found
    for one, other in zip(pair.method, pair.baseline, strict=True)
  )


def _common(ids: np.ndarray, others: np.ndarray) -> np.ndarray:
  """Returns the common ids of two ascending arrays, which are usually equal."""
  if np.array_equal(ids, others):
    return ids
  return np.intersect1d(ids, others)


def pairs(method: ResultsBySeed, baseline: ResultsBySeed) -> list[Pair]:
  """Returns the paired results of two methods, one pair per common seed."""
  found = []
  for seed in sorted(method.keys() & baseline.keys()):
    every = [*method[seed], *baseline[seed]]
    ids = functools.reduce(_common, [e.ids for e in every])
    if ids.size:
      one, other = (
        [e.subset(ids) for e in evaluations]
        for evaluations in (method[seed], baseline[seed])
      )
      found.append(Pair(ids, one, other))
  return found
