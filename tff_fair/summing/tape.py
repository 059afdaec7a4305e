"""Records rounds on a tape, and applies other rules to recorded rounds.

A tape holds all that a rule may know about a round: the cohort's scalars and
the Gram matrix M of the cohort's updates, in float64. It also holds the choice
of the rule that ran. Another rule can then be applied to the same rounds
without training. With the other rule's coefficients c, the direction is
d = sum_k c_k Delta_k, and the slope for client k is <Delta_k, d> = (M c)_k.
"""

import collections
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.kernels import gram as gram_lib
from tff_fair.summing import memory as memory_lib

PREFIX = "tape_"  # Prefix of the tape's names in a round's measurements.
_REMEMBERED = ("remembered_id", "remembered_age")

# A round of m clients, as arrays by name: the fields of the cohort, and the
# rule's choice: `coefficients` (float64[m], or [m + r] with r remembered
# updates), `slopes` (float64[m]) and `direction_norm` (float64[]). A tape with
# updates also has `updates` (float[m, d]) and `direction` (float[d]), of d
# weights. Clients are in ascending order of their ids.
TapedRound: TypeAlias = Mapping[str, np.ndarray]


def record_rule(
  cohort: types.Cohort, gram: tf.Tensor, coefficients: tf.Tensor
) -> dict[str, tf.Tensor]:
  """Returns the measurements that record a cohort and a rule's choice for it.

  The m clients are in ascending order of ids. `gram` is float64[m, m] and
  `coefficients` is float64[m]; with r remembered updates, m + r replaces m.
  """
  num_clients = tf.size(cohort.client_id)
  slopes = tf.linalg.matvec(gram, coefficients)
  if cohort.squared_norm is None:
    squared_norm = tf.linalg.diag_part(gram)[:num_clients]
    cohort = cohort._replace(squared_norm=squared_norm)
  taped = {
    **cohort._replace(gram=gram)._asdict(),
    "coefficients": coefficients,
    "slopes": slopes[:num_clients],
    "direction_norm": tf.sqrt(
      tf.nn.relu(gram_lib.inner_product(coefficients, slopes))
    ),
  }
  return {f"{PREFIX}{n}": v for n, v in taped.items() if v is not None}


def record_updates(
  client_id: tf.Tensor, updates: tf.Tensor, direction: tf.Tensor
) -> dict[str, tf.Tensor]:
  """Returns the measurements that record the updates and the direction.

  `client_id` is int64[m], `updates` [m, weights], and `direction` [weights].
  """
  order = tf.argsort(client_id, stable=True)
  return {
    f"{PREFIX}updates": tf.gather(updates, order),
    f"{PREFIX}direction": direction,
  }


class ReplayedStep(NamedTuple):
  """The step that a rule would have taken in a round."""

  coefficients: np.ndarray  # float64[clients], c_k of the cohort.
  slopes: np.ndarray  # float64[clients], <Delta_k, d>.
  direction_norm: float  # ||d||.
  # The angle between d and the recorded direction, in degrees; NaN if one of
  # the two is zero.
  angle: float


class Replay:
  """Applies a rule to recorded rounds, one after the other.

  The rule runs in TFF's default context, so that numbers round as in training.
  """

  def __init__(self, rule: types.Rule) -> None:
    """Initializes the rule's state, as before the first round."""
    self._rule = rule
    self._compute: tff.Computation | None = None
    self._state: Any = tff.tensorflow.computation(rule.initialize)()
    self._memory: memory_lib.Memory | None = None
    # Whether the tape must have updates, because the rule remembers them.
    self.needs_updates = rule.remembered_rounds > 0
    # Whether the rule's choice depends on earlier rounds.
    self.has_state = self.needs_updates or bool(tf.nest.flatten(self._state))

  def next(self, taped: TapedRound) -> ReplayedStep | None:
    """Applies the rule to the next round; `None` for an empty cohort."""
    if not taped["client_id"].size:
      return None
    if self.needs_updates:
      return self._next_with_memory(taped)
    gram = gram_of_cohort(taped)
    coefficients = self._apply({**taped, "gram": gram})
    slopes = gram @ coefficients
    norm = float(np.sqrt(max(coefficients @ slopes, 0.0)))
    return ReplayedStep(
      coefficients,
      slopes,
      norm,
      _angle(
        coefficients @ taped["slopes"], norm, float(taped["direction_norm"])
      ),
    )

  def _apply(self, known: TapedRound) -> np.ndarray:
    """Returns the coefficients for a cohort, and advances the rule's state."""
    cohort = collections.OrderedDict(
      (name, known[name])
      for name in types.Cohort._fields
      if name in known and (self.needs_updates or name not in _REMEMBERED)
    )
    if self._compute is None:
      self._compute = _computation(self._rule, cohort)
    coefficients, self._state = self._compute(cohort, self._state)
    return np.asarray(coefficients)

  def _next_with_memory(self, taped: TapedRound) -> ReplayedStep:
    """Does the same as `next` for a rule that remembers earlier updates."""
    updates = tf.constant(taped["updates"])
    memory = self._memory or memory_lib.empty(
      self._rule.remembered_rounds,
      tf.TensorSpec(updates.shape[1:], updates.dtype),
    )
    remembered = [of_round.updates for of_round in memory.cohorts]
    ids, ages = memory_lib.ids_and_ages(memory)
    if _has_remembered(taped, ids.numpy(), ages.numpy()):
      # A matrix computed again on this machine might be rounded differently.
      gram = tf.constant(taped["gram"])
    else:
      gram = memory_lib.gram_with(
        memory, gram_lib.inner_products([updates], remembered)
      )
    known = {
      "gram": gram.numpy(),
      "remembered_id": ids.numpy(),
      "remembered_age": ages.numpy(),
    }
    coefficients = self._apply({**taped, **known})
    combined = gram_lib.combine_rows(
      tf.constant(coefficients), [updates, *remembered]
    )
    client_id = tf.constant(taped["client_id"])
    self._memory = memory_lib.remember(
      memory, memory_lib.RememberedCohort(client_id, updates), gram
    )
    num_clients = taped["client_id"].size
    slopes = known["gram"] @ coefficients
    direction = combined.numpy().astype(np.float64)
    taken = taped["direction"].astype(np.float64)
    norm = float(np.linalg.norm(direction))
    return ReplayedStep(
      coefficients[:num_clients],
      slopes[:num_clients],
      norm,
      _angle(np.vdot(direction, taken), norm, float(np.linalg.norm(taken))),
    )


def _computation(rule: types.Rule, cohort: TapedRound) -> tff.Computation:
  """Builds a computation of (coefficients, new state) from cohort and state."""
  compute = tff.tensorflow.computation
  cohort_type = collections.OrderedDict(
    (name, tff.TensorType(array.dtype.type, [None] * array.ndim))
    for name, array in cohort.items()
  )

  @compute(cohort_type, compute(rule.initialize).type_signature.result)
  def apply(fields: Any, state: Any) -> Any:
    output = rule.coefficients(types.Cohort(**fields), state)
    return output.coefficients, output.state

  return apply


def gram_of_cohort(taped: TapedRound) -> np.ndarray:
  """Returns the Gram matrix of a round's cohort, [clients, clients]."""
  num_clients = taped["client_id"].size
  return taped["gram"][:num_clients, :num_clients]


def _has_remembered(
  taped: TapedRound, ids: np.ndarray, ages: np.ndarray
) -> bool:
  """Returns whether the taped rule remembered updates of these ids and ages."""
  return np.array_equal(taped.get("remembered_id", []), ids) and np.array_equal(
    taped.get("remembered_age", []), ages
  )


def _angle(inner: float, norm: float, other: float) -> float:
  """Returns the angle between two vectors in degrees; NaN if one is zero.

  `inner` is their inner product; `norm` and `other` are their norms.
  """
  if not (norm > 0 and other > 0):
    return float("nan")
  cosine = np.clip(inner / (norm * other), -1.0, 1.0)
  return float(np.degrees(np.arccos(cosine)))
