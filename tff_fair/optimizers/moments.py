"""Builds two optimizers that TFF lacks: Nesterov's SGD and AMSGrad.

SGD with Nesterov's momentum: Sutskever, Martens, Dahl, Hinton, "On the
Importance of Initialization and Momentum in Deep Learning" (ICML 2013), in the
form of Keras and PyTorch,

  v <- momentum v + g
  w <- w - learning_rate (g + momentum v)

AMSGrad, Adam with a second moment that never decreases: Reddi, Kale, Kumar, "On
the Convergence of Adam and Beyond" (ICLR 2018); at the server, this is the
FedAMSGrad of Tong, Liang, Bi, "Effective Federated Adaptive Gradient Methods
with Non-IID Decentralized Data" (2020),

  m <- beta_1 m + (1 - beta_1) g
  v <- beta_2 v + (1 - beta_2) g^2
  v_max <- max(v_max, v)
  w <- w - eta sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v_max) + epsilon)

The factor before m corrects the bias of the first steps, t = 1, 2, ..., as in
TFF's Adam, Keras and PyTorch; the paper has only eta there.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared

_LEARNING_RATE = tff.learning.optimizers.LEARNING_RATE_KEY
_STEP = "step"


class _MomentOptimizer(tff.learning.optimizers.Optimizer):
  """Updates each weight with its gradient and the moments of its gradients."""

  def __init__(
    self,
    step: Callable[..., Sequence[tf.Tensor]],
    moments: Sequence[str],
    *,
    counts_steps: bool = False,
    **hparams: float,
  ) -> None:
    """Stores what differs between the optimizers of this module.

    `step` takes the state, a weight, the weight's gradient and its moments, and
    returns the new weight and moments. `moments` are the names of the moments.
    `counts_steps` adds the number of steps to the state.
    """
    self._step = step
    self._moments = moments
    self._counts_steps = counts_steps
    self._hparams = hparams

  def initialize(self, specs: Any) -> Any:
    state = collections.OrderedDict(
      (name, tf.constant(value)) for name, value in self._hparams.items()
    )
    if self._counts_steps:
      state[_STEP] = tf.constant(0, tf.int64)
    for name in self._moments:
      state[name] = tf.nest.map_structure(
        lambda spec: tf.zeros(spec.shape, spec.dtype), specs
      )
    return state

  def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
    gradients = tff.learning.optimizers.handle_indexed_slices_gradients(
      gradients
    )
    tff.learning.optimizers.check_weights_gradients_match(weights, gradients)
    new_state = collections.OrderedDict(state)
    if self._counts_steps:
      new_state[_STEP] += 1
    stepped = [
      # A weight has no gradient if the loss does not depend on it.
      (w, *moments) if g is None else self._step(new_state, w, g, *moments)
      for w, g, *moments in zip(
        *map(tf.nest.flatten, (weights, gradients)),
        *(tf.nest.flatten(state[name]) for name in self._moments),
        strict=True,
      )
    ]
    for place, name in enumerate(self._moments, start=1):
      new_state[name] = tf.nest.pack_sequence_as(
        state[name], [values[place] for values in stepped]
      )
    return new_state, tf.nest.pack_sequence_as(
      weights, [w for w, *_ in stepped]
    )

  def get_hparams(self, state: Any) -> Any:
    return collections.OrderedDict(
      (name, state[name]) for name in self._hparams
    )

  def set_hparams(self, state: Any, hparams: Any) -> Any:
    return collections.OrderedDict({**state, **hparams})


def _nesterov(
  state: Mapping[str, Any],
  weight: tf.Tensor,
  gradient: tf.Tensor,
  velocity: tf.Tensor,
) -> Sequence[tf.Tensor]:
  rate = tf.cast(state[_LEARNING_RATE], weight.dtype)
  momentum = tf.cast(state["momentum"], weight.dtype)
  velocity = momentum * velocity + gradient
  return weight - rate * (gradient + momentum * velocity), velocity


def _amsgrad(
  state: Mapping[str, Any],
  weight: tf.Tensor,
  gradient: tf.Tensor,
  first: tf.Tensor,
  second: tf.Tensor,
  largest: tf.Tensor,
) -> Sequence[tf.Tensor]:
  betas = [state["beta_1"], state["beta_2"]]
  t = tf.cast(state[_STEP], betas[0].dtype)
  rate = (
    state[_LEARNING_RATE] * tf.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t)
  )
  rate, epsilon, beta_1, beta_2 = (
    tf.cast(x, weight.dtype) for x in (rate, state["epsilon"], *betas)
  )
  first += (gradient - first) * (1 - beta_1)
  second += (tf.square(gradient) - second) * (1 - beta_2)
  largest = tf.maximum(largest, second)
  weight -= rate * first / (tf.sqrt(largest) + epsilon)
  return weight, first, second, largest


def build_nesterov(
  learning_rate: float = 0.01, momentum: float = 0.9
) -> tff.learning.optimizers.Optimizer:
  """Builds SGD with Nesterov's momentum, for clients or the server.

  Args:
    learning_rate: 0 or more.
    momentum: In [0, 1).

  Returns:
    An optimizer with the hyperparameters `learning_rate` and `momentum`.

  Raises:
    TypeError: If an argument is not a number.
    ValueError: If an argument is out of range.
  """
  _check_not_negative(learning_rate=learning_rate)
  _check_shares(momentum=momentum)
  return _MomentOptimizer(
    _nesterov, ["velocity"], learning_rate=learning_rate, momentum=momentum
  )


def build_amsgrad(
  learning_rate: float = 0.001,
  beta_1: float = 0.9,
  beta_2: float = 0.999,
  epsilon: float = 1e-7,
) -> tff.learning.optimizers.Optimizer:
  """Builds AMSGrad, for clients or the server.

  Args:
    learning_rate: eta, 0 or more.
    beta_1: In [0, 1).
    beta_2: In [0, 1).
    epsilon: 0 or more.

  Returns:
    An optimizer with the arguments as its hyperparameters.

  Raises:
    TypeError: If an argument is not a number.
    ValueError: If an argument is out of range.
  """
  _check_not_negative(learning_rate=learning_rate, epsilon=epsilon)
  _check_shares(beta_1=beta_1, beta_2=beta_2)
  return _MomentOptimizer(
    _amsgrad,
    ["first_moment", "second_moment", "largest_second_moment"],
    counts_steps=True,
    learning_rate=learning_rate,
    beta_1=beta_1,
    beta_2=beta_2,
    epsilon=epsilon,
  )


def _check_not_negative(**numbers: float) -> None:
  for name, value in numbers.items():
    declared.check_number(name, value, minimum=0, in_float32=True)


def _check_shares(**numbers: float) -> None:
  for name, value in numbers.items():
    declared.check_number(
      name, value, minimum=0, maximum=1, exclude_maximum=True, in_float32=True
    )
