"""FairFed: weights by how close a client's group gap is to the global gap.

Ezzeldin, Yan, He, Ferrara, Avestimehr, "FairFed: Enabling Group Fairness in
Federated Learning" (AAAI 2023).

  w_k <- max(0, w_k - beta (delta_k - mean_S delta)),  c_k = w_k / sum_S w_j

delta_k = |G - G_k|, where G is the received model's gap between groups of
people over all examples of the cohort S, and G_k the model's gap over client
k's examples. In client k's first round, w_k is its weight p_k. If G or G_k is
undefined, delta_k = |accuracy_k - accuracy|, with the accuracy over S.

The deviations delta_k are part of the state. Runs of `tff_fair.experiments` set
them before each round by `with_deviations`, from gaps on training examples.
Without this call, delta_k keeps its last value, at first 0.

Choices made here: a gap is the largest share of a group minus the smallest, see
`tff_fair.metrics.group_gaps`, whereas the paper has two groups and the signed
difference; the mean is over the clients that are not excluded.
"""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, Unpack

import numpy as np
import tensorflow as tf

from tff_fair import declared, rounds, summing, types
from tff_fair.methods import building, rule_state

_UNSEEN = -1.0  # A client's weight before its first round.


@dataclasses.dataclass(frozen=True, kw_only=True)
class FairFedRule(types.PopulationRule):
  """Chooses FairFed's coefficients; the state has all clients' w and delta."""

  beta: float = declared.value(
    1.0,
    "How much a deviation of 1 reduces a client's weight; 0 keeps the first "
    "weights.",
    minimum=0,
  )

  is_measured = True

  def initialize(self) -> Any:
    """See the base class."""
    zeros = tf.zeros([self.num_clients], tf.float64)
    return collections.OrderedDict(weights=zeros + _UNSEEN, deviations=zeros)

  def coefficients(self, cohort: types.Cohort, state: Any) -> types.RuleOutput:
    """See the base class."""
    places = self.places(cohort)
    before, deviation = (
      tf.gather(state[name], places) for name in ("weights", "deviations")
    )
    before = tf.where(before < 0, cohort.weight, before)
    mean = tf.reduce_mean(deviation)
    after = tf.maximum(before - self.beta * (deviation - mean), 0.0)
    weights = tf.tensor_scatter_nd_update(
      state["weights"], places[:, tf.newaxis], after
    )
    return types.RuleOutput(
      tf.math.divide_no_nan(after, tf.reduce_sum(after)),
      collections.OrderedDict(state, weights=weights),
      {"deviation_mean": mean},
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuredGap(declared.Hyperparameters):
  """The choice of the gap between groups that a run measures."""

  gap: Literal[
    "equal_opportunity",
    "demographic_parity",
    "equalized_odds",
    "accuracy_parity",
  ] = declared.value(
    "equal_opportunity", "The gap between groups that runs measure."
  )


@building.builder(FairFedRule, MeasuredGap)
def build_fairfed(
  model_fn: rounds.ModelFn,
  rule: FairFedRule,
  gap: MeasuredGap,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds FairFed.

  The option `num_clients`, the size of the population, is required: client ids
  are 0 to num_clients - 1.
  """
  del gap  # The caller of the process measures it.
  return rounds.compose(model_fn, rule, **options)


def with_deviations(
  state: Any, client_ids: Sequence[int], deviations: np.ndarray
) -> Any:
  """Returns a process's state with the next cohort's deviations replaced.

  `deviations`, float64[clients], are the delta_k of the clients `client_ids`;
  `tff_fair.metrics.group_gaps.deviations` computes them.
  """
  values = np.array(rule_state.get(state)["deviations"])
  values[list(client_ids)] = deviations
  return rule_state.with_values(state, deviations=values)


@summing.factory_of(FairFedRule)
class FairFedFactory(summing.RuleFactory):
  """Sums client updates with FairFed's coefficients."""
