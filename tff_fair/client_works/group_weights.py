"""Weights examples by group of people; the server learns the weights.

Papadaki, Martinez, Bertran, Sapiro, Rodrigues, "Minimax Demographic Group
Fairness in Federated Learning" (FAccT 2022), Algorithm 1.

  clients minimize (1/n_k) sum_i w_a(i) l_i, with w_a = mu_a / rho_a
  f_a = the received model's mean loss over the cohort's examples of group a
  mu <- projection of mu + gamma f_a onto the simplex, starting from mu = rho

rho_a is group a's share of all examples. The client's data include the group of
each example. For each group, a client sends the sum of losses and the number of
examples; the server needs only their totals over the clients.

A minibatch is split by group, and the model sees one group at a time. So batch
normalization, for example, uses only the batch's examples of the same group.
"""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared
from tff_fair.client_works import batches, local_model
from tff_fair.kernels import simplex
from tff_fair.types import TensorStructure

# The name of mu, float64[groups], in the training's state.
MIXTURE: Final = "mixture"
# The name of the sums of losses and the numbers of examples, [2, groups].
SUMS: Final = "group_sums"
_GROUP: Final = "group"  # The key of the groups in a batch that is a mapping.

_Carry = TypeVar("_Carry")
# The sum of weighted gradients, the sum of losses, the number of examples, and
# the metrics, of the groups so far.
_WeightedSums: TypeAlias = tuple[
  local_model.Trainable, tf.Tensor, tf.Tensor, TensorStructure
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupWeights:
  """The settings of the groups' weights.

  `shares` are the groups' shares of all examples, or their numbers of examples;
  `learning_rate` is gamma.
  """

  shares: Sequence[float]
  learning_rate: float

  def __post_init__(self) -> None:
    """Raises `TypeError` or `FieldError` for an invalid attribute."""
    declared.check_number("group_learning_rate", self.learning_rate, minimum=0)
    try:
      shares = np.asarray(self.shares, np.float64)
    except (OverflowError, TypeError, ValueError):
      shares = np.empty(0)
    is_valid = shares.ndim == 1 and shares.size > 1 and np.all(shares >= 0)
    if not is_valid or not 0 < shares.sum() < np.inf:
      raise declared.FieldError(
        "group_shares",
        "expected the number of examples of each of two or more groups, not "
        "negative and not all 0, such as group_shares=(0.3, 0.7).",
        value=self.shares,
      )

  @property
  def rho(self) -> np.ndarray:
    """The groups' shares of all examples, float64[groups], with sum 1."""
    shares = np.asarray(self.shares, np.float64)
    return shares / shares.sum()

  def example_weights(self, state: Mapping[str, Any]) -> tf.Tensor:
    """Returns w_a, the weight of an example of each group, float64[groups]."""
    return tf.math.divide_no_nan(state[MIXTURE], self.rho)

  def build_next(self, state_type: tff.Type) -> tff.Computation:
    """Builds the computation that updates mu from the groups' losses.

    It maps the state and the sum of the clients' `group_sums` to the next
    state.
    """

    @tff.tensorflow.computation(
      state_type, tff.TensorType(np.float64, [2, len(self.rho)])
    )
    def moved(state: Any, total: tf.Tensor) -> TensorStructure:
      losses = tf.math.divide_no_nan(total[0], total[1])
      ascended = state[MIXTURE] + self.learning_rate * losses
      # A round without examples must not change mu, not even by rounding.
      mixture = tf.where(
        tf.reduce_any(total[1] > 0),
        simplex.project_to_simplex(ascended),
        state[MIXTURE],
      )
      return collections.OrderedDict(state, **{MIXTURE: mixture})

    return moved


def batch_spec(spec: TensorStructure) -> TensorStructure:
  """Adds the group of each example to the spec of a batch `(x, y)`."""
  of_groups = tf.TensorSpec([None], tf.int32)
  if isinstance(spec, Mapping):
    return collections.OrderedDict(spec, **{_GROUP: of_groups})
  return (*spec, of_groups)


def _split(batch: batches.Batch) -> tuple[batches.Batch, tf.Tensor]:
  """Splits a batch `(x, y, group)` into `(x, y)` and the groups, int32[n]."""
  if isinstance(batch, Mapping):
    others = ((n, v) for n, v in batch.items() if n != _GROUP)
    return collections.OrderedDict(others), batch[_GROUP]
  *examples, groups = batch
  return tuple(examples), groups


def _reduce_groups(
  batch: batches.Batch,
  num_groups: int,
  carry: _Carry,
  step: Callable[[_Carry, tf.Tensor, batches.Batch], _Carry],
) -> _Carry:
  """Folds `step` over the groups in a batch, with each group's examples."""
  examples, groups = _split(batch)
  in_range = tf.debugging.Assert(
    tf.reduce_all((groups >= 0) & (groups < num_groups)),
    [f"There are {num_groups} group_shares; a batch has the groups", groups],
  )

  def of_group(group: tf.Tensor, carry: _Carry) -> tuple[tf.Tensor, _Carry]:
    places = tf.where(tf.equal(groups, group))[:, 0]

    def with_examples() -> _Carry:
      return step(
        carry,
        group,
        tf.nest.map_structure(lambda x: tf.gather(x, places), examples),
      )

    return group + 1, tf.cond(tf.size(places) > 0, with_examples, lambda: carry)

  with tf.control_dependencies([in_range] if in_range is not None else []):
    first = tf.constant(0, tf.int32)
  return tf.while_loop(
    lambda group, _: group < num_groups,
    of_group,
    (tf.identity(first), carry),
    parallel_iterations=1,
  )[1]


class WeightedModel(local_model.LocalModel):
  """A model that takes batches with groups, and trains on weighted examples.

  Only the gradients of training are weighted, not losses, metrics or
  evaluations.
  """

  def __init__(self, model: local_model.LocalModel, num_groups: int) -> None:
    self._model, self._num_groups = model, num_groups
    self.weights = tf.ones([num_groups], tf.float64)

  def receive(self, weights: tff.learning.models.ModelWeights) -> None:
    """Sets the model's weights, including non-trainable ones."""
    self._model.receive(weights)

  def empty_metrics(self) -> TensorStructure:
    """Returns the state of the metrics before the first batch."""
    return self._model.empty_metrics()

  def forward(
    self,
    trainable: local_model.Trainable,
    metrics: TensorStructure,
    batch: batches.Batch,
    *,
    training: bool,
  ) -> local_model.ForwardPass:
    """Runs the model on a batch and updates the metrics."""
    return self._model.forward(
      trainable, metrics, _split(batch)[0], training=training
    )

  def watch(
    self, tape: tf.GradientTape, trainable: local_model.Trainable
  ) -> local_model.Trainable:
    """Makes `tape` watch the weights; returns the watched tensors."""
    return self._model.watch(tape, trainable)

  def unfinalized_metrics(self, metrics: TensorStructure) -> TensorStructure:
    """Returns the unfinalized metrics, which a client sends."""
    return self._model.unfinalized_metrics(metrics)

  def finalized_metrics(
    self, metrics: TensorStructure
  ) -> Mapping[str, tf.Tensor]:
    """Returns the values of the metrics, by name."""
    return self._model.finalized_metrics(metrics)

  def gradients(
    self,
    trainable: local_model.Trainable,
    metrics: TensorStructure,
    batch: batches.Batch,
    *,
    training: bool,
    objective: Callable[[tf.Tensor], tf.Tensor] | None = None,
  ) -> tuple[local_model.Gradients, local_model.ForwardPass]:
    """Returns the gradients of a batch's mean loss, and the forward pass.

    In training, each example has the weight of its group, and the returned
    forward pass has no predictions.
    """
    if not training:
      return super().gradients(
        trainable, metrics, batch, training=False, objective=objective
      )

    def step(
      carry: _WeightedSums, group: tf.Tensor, examples: batches.Batch
    ) -> _WeightedSums:
      total, losses, size, metrics = carry
      gradients, output = self._model.gradients(
        trainable, metrics, examples, training=True, objective=objective
      )
      number = tf.cast(output.num_examples, tf.float64)
      factor = self.weights[group] * number
      return (
        tuple(
          t if g is None else t + tf.cast(factor, g.dtype) * g
          for t, g in zip(total, gradients, strict=True)
        ),
        losses + number * tf.cast(output.loss, tf.float64),
        size + output.num_examples,
        output.metrics,
      )

    zero = tf.zeros([], tf.float64)
    nothing = (
      tuple(map(tf.zeros_like, trainable)),
      zero,
      tf.zeros([], tf.int64),
      metrics,
    )
    total, losses, size, metrics = _reduce_groups(
      batch, self._num_groups, nothing, step
    )
    number = tf.cast(size, tf.float64)
    return (
      tuple(tf.math.divide_no_nan(t, tf.cast(number, t.dtype)) for t in total),
      local_model.ForwardPass(
        tf.math.divide_no_nan(losses, number), (), size, metrics
      ),
    )

  def group_sums(
    self,
    trainable: local_model.Trainable,
    data: batches.ClientData,
    batch_size: int | None,
  ) -> tf.Tensor:
    """Sums losses and counts examples by group; returns float64[2, groups]."""

    def of_group(
      sums: tf.Tensor, group: tf.Tensor, examples: batches.Batch
    ) -> tf.Tensor:
      output = self._model.forward(
        trainable, self._model.empty_metrics(), examples, training=False
      )
      number = tf.cast(output.num_examples, tf.float64)
      column = tf.stack([number * tf.cast(output.loss, tf.float64), number])
      here = tf.one_hot(group, self._num_groups, dtype=tf.float64)
      # A product with `here` would be NaN for other groups if the loss is inf.
      return sums + tf.where(here > 0, column[:, tf.newaxis], 0)

    def over_element(sums: tf.Tensor, element: batches.Element) -> tf.Tensor:
      return batches.reduce_slices(
        element[1],
        batch_size,
        sums,
        lambda sums, batch: _reduce_groups(
          batch, self._num_groups, sums, of_group
        ),
      )

    return data.reduce(
      tf.zeros([2, self._num_groups], tf.float64), over_element
    )
