"""SGD with Nesterov's momentum.

Sutskever, Martens, Dahl, Hinton, "On the Importance of Initialization and
Momentum in Deep Learning" (ICML 2013), in the form of Keras and PyTorch:

  v <- momentum v + g
  w <- w - learning_rate (g + momentum v)
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared

_LEARNING_RATE = tff.learning.optimizers.LEARNING_RATE_KEY
_MOMENTUM = "momentum"
_VELOCITY = "velocity"


class _Nesterov(tff.learning.optimizers.Optimizer):
  """See `build_nesterov`."""

  def __init__(self, learning_rate: float, momentum: float) -> None:
    self._hparams = {_LEARNING_RATE: learning_rate, _MOMENTUM: momentum}

  def initialize(self, specs: Any) -> Any:
    velocity = tf.nest.map_structure(
      lambda spec: tf.zeros(spec.shape, spec.dtype), specs
    )
    return collections.OrderedDict(
      [
        *((name, tf.constant(value)) for name, value in self._hparams.items()),
        (_VELOCITY, velocity),
      ]
    )

  def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
    gradients = tff.learning.optimizers.handle_indexed_slices_gradients(
      gradients
    )
    tff.learning.optimizers.check_weights_gradients_match(weights, gradients)
    rate, momentum = state[_LEARNING_RATE], state[_MOMENTUM]
    stepped = [
      # A weight that the loss does not depend on has no gradient.
      (v, w)
      if g is None
      else _step(v, w, g, tf.cast(rate, w.dtype), tf.cast(momentum, w.dtype))
      for v, w, g in zip(
        tf.nest.flatten(state[_VELOCITY]),
        tf.nest.flatten(weights),
        tf.nest.flatten(gradients),
        strict=True,
      )
    ]
    new_state = collections.OrderedDict(state)
    new_state[_VELOCITY] = tf.nest.pack_sequence_as(
      state[_VELOCITY], [v for v, _ in stepped]
    )
    return new_state, tf.nest.pack_sequence_as(weights, [w for _, w in stepped])

  def get_hparams(self, state: Any) -> Any:
    return collections.OrderedDict(
      (name, state[name]) for name in self._hparams
    )

  def set_hparams(self, state: Any, hparams: Any) -> Any:
    return collections.OrderedDict({**state, **hparams})


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
  declared.check_number(
    "learning_rate", learning_rate, minimum=0, in_float32=True
  )
  declared.check_number(
    "momentum",
    momentum,
    minimum=0,
    maximum=1,
    exclude_maximum=True,
    in_float32=True,
  )
  return _Nesterov(learning_rate, momentum)


def _step(
  velocity: tf.Tensor,
  weight: tf.Tensor,
  gradient: tf.Tensor,
  rate: tf.Tensor,
  momentum: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
  velocity = momentum * velocity + gradient
  return velocity, weight - rate * (gradient + momentum * velocity)
