"""DRFA: distributionally robust federated averaging.

Deng, Kamani, Mahdavi, "Distributionally Robust Federated Averaging" (NeurIPS
2020), with lambda on the simplex of the N clients, 1/N each at first.

  cohort: m clients, drawn by lambda with replacement; d = mean Delta_k
  theta' = the mean of the clients' models after t' of their K local steps,
           t' uniform in 1 ... K and the same for all clients
  second cohort: m clients, uniform without replacement, report f_j(theta')
  lambda <- projection of lambda + gamma K v onto the simplex,
            v_j = (N/m) f_j on the second cohort, 0 elsewhere

Delta_k is client k's update, f_j client j's loss. If only some clients are
eligible, N in v_j is their number. A learning process trains on the cohort that
its caller draws; a client that was drawn twice appears twice in it. If the
option `local_steps` is one number, the state after a round holds theta minus
theta'. The caller completes the round with `theta_at_snapshot` and
`with_losses`, as `tff_fair.experiments` does.
"""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import tensorflow as tf

from tff_fair import declared, rounds, summing, types
from tff_fair.kernels import simplex
from tff_fair.methods import building, rule_state


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrfaRule(types.PopulationRule):
  """Chooses equal coefficients; keeps lambda, float64[N], as `mixture`."""

  lambda_learning_rate: float = declared.value(
    0.1, "Learning rate of the clients' mixture weights, gamma.", minimum=0
  )

  is_measured = True

  def initialize(self) -> Any:
    """See the base class."""
    return collections.OrderedDict(mixture=self.even())

  def coefficients(self, cohort: types.Cohort, state: Any) -> types.RuleOutput:
    """See the base class."""
    ones = tf.ones_like(cohort.weight)
    largest = tf.reduce_max(tf.gather(state["mixture"], self.places(cohort)))
    return types.RuleOutput(
      ones / tf.reduce_sum(ones), state, {"lambda_max": largest}
    )


@building.builder(DrfaRule)
def build_drfa(
  model_fn: rounds.ModelFn,
  rule: DrfaRule,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds DRFA's training; the caller must complete each round.

  See `theta_at_snapshot` and `with_losses` in `tff_fair.methods.drfa`. The
  option `num_clients`, the size of the population, is required: client ids are
  0 to num_clients - 1. If `local_steps` is not one number, there is no
  snapshot.
  """
  takes_snapshot = isinstance(options.get("local_steps"), int)
  return rounds.compose(
    model_fn, rule, takes_snapshot=takes_snapshot, **options
  )


def theta_at_snapshot(before: Any, after: Any) -> Any:
  """Returns theta', as `ModelWeights`, from a round's old and new state."""
  training = after.client_work
  training = training.get("training", training)
  weights = before.global_model_weights
  trainable = [np.asarray(w) for w in weights.trainable]
  ends = np.cumsum([w.size for w in trainable])[:-1]
  moved = np.split(np.asarray(training["snapshot"]), ends)
  return type(weights)(
    [
      w - np.reshape(part, w.shape).astype(w.dtype)
      for w, part in zip(trainable, moved, strict=True)
    ],
    weights.non_trainable,
  )


def estimate_losses(
  losses: np.ndarray, client_ids: Sequence[int], eligible: np.ndarray
) -> np.ndarray:
  """Returns v, float64[N], an unbiased estimate of all clients' losses.

  `losses`, float64[m], are the losses of the clients `client_ids`, a uniform
  sample of the clients that `eligible`, bool[N], marks.
  """
  found = np.zeros(len(eligible))
  found[list(client_ids)] = np.sum(eligible) / len(client_ids) * losses
  return found


def with_losses(
  state: Any,
  losses: np.ndarray,
  client_ids: Sequence[int],
  eligible: np.ndarray,
  *,
  learning_rate: float,
  num_steps: int,
) -> Any:
  """Returns the state of a learning process with the updated lambda.

  Args:
    state: The state after the round.
    losses: float64[m], f_j(theta') of the second cohort.
    client_ids: The ids of the second cohort.
    eligible: bool[N], whether each client may take part; if not, its lambda
      becomes 0.
    learning_rate: gamma, the learning rate of lambda.
    num_steps: K, the number of local steps.
  """
  estimate = estimate_losses(losses, client_ids, eligible)
  mixture = np.array(rule_state.get(state)["mixture"])
  moved = mixture + learning_rate * num_steps * estimate
  mixture[:] = 0
  mixture[eligible] = simplex.project_to_simplex(
    tf.constant(moved[eligible])
  ).numpy()
  return rule_state.with_values(state, mixture=mixture)


@summing.factory_of(DrfaRule)
class DrfaFactory(summing.RuleFactory):
  """Sums client updates with DRFA's coefficients."""
