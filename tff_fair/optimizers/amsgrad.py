"""AMSGrad: Adam whose second moment never falls.

Reddi, Kale, Kumar, "On the Convergence of Adam and Beyond" (ICLR 2018); at the
server it is FedAMSGrad of Tong, Liang, Bi, "Effective Federated Adaptive
Gradient Methods with Non-IID Decentralized Data" (2020).

  m <- beta_1 m + (1 - beta_1) g
  v <- beta_2 v + (1 - beta_2) g^2
  v_max <- max(v_max, v)
  w <- w - eta sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v_max) + epsilon)

The factor before m corrects the bias of the first steps, t = 1, 2, ..., as
TFF's Adam, Keras and PyTorch do; the paper has eta alone there.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared

_LEARNING_RATE = tff.learning.optimizers.LEARNING_RATE_KEY
_STEP = "step"
_MOMENTS = ("first_moment", "second_moment", "largest_second_moment")


class _AmsGrad(tff.learning.optimizers.Optimizer):
  """See `build_amsgrad`."""

  def __init__(self, **hparams: float) -> None:
    self._hparams = hparams

  def initialize(self, specs: Any) -> Any:
    return collections.OrderedDict(
      [
        *((name, tf.constant(value)) for name, value in self._hparams.items()),
        (_STEP, tf.constant(0, tf.int64)),
        *((name, _zeros(specs)) for name in _MOMENTS),
      ]
    )

  def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
    gradients = tff.learning.optimizers.handle_indexed_slices_gradients(
      gradients
    )
    tff.learning.optimizers.check_weights_gradients_match(weights, gradients)
    step = state[_STEP] + 1
    beta_1, beta_2 = state["beta_1"], state["beta_2"]
    t = tf.cast(step, beta_1.dtype)
    rate = state[_LEARNING_RATE] * tf.sqrt(1 - beta_2**t) / (1 - beta_1**t)
    stepped = [
      # A weight that the loss does not depend on has no gradient.
      (w, *moments)
      if g is None
      else _step(
        w,
        g,
        moments,
        rate=tf.cast(rate, w.dtype),
        beta_1=tf.cast(beta_1, w.dtype),
        beta_2=tf.cast(beta_2, w.dtype),
        epsilon=tf.cast(state["epsilon"], w.dtype),
      )
      for w, g, *moments in zip(
        *map(tf.nest.flatten, (weights, gradients)),
        *(tf.nest.flatten(state[name]) for name in _MOMENTS),
        strict=True,
      )
    ]
    new_state = collections.OrderedDict(state)
    new_state[_STEP] = step
    for place, name in enumerate(_MOMENTS, start=1):
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
  for name, value in (("learning_rate", learning_rate), ("epsilon", epsilon)):
    declared.check_number(name, value, minimum=0, in_float32=True)
  for name, value in (("beta_1", beta_1), ("beta_2", beta_2)):
    declared.check_number(
      name, value, minimum=0, maximum=1, exclude_maximum=True, in_float32=True
    )
  return _AmsGrad(
    **{_LEARNING_RATE: learning_rate},
    beta_1=beta_1,
    beta_2=beta_2,
    epsilon=epsilon,
  )


def _zeros(specs: Any) -> Any:
  return tf.nest.map_structure(
    lambda spec: tf.zeros(spec.shape, spec.dtype), specs
  )


def _step(
  weight: tf.Tensor,
  gradient: tf.Tensor,
  moments: list[tf.Tensor],
  *,
  rate: tf.Tensor,
  beta_1: tf.Tensor,
  beta_2: tf.Tensor,
  epsilon: tf.Tensor,
) -> tuple[tf.Tensor, ...]:
  first, second, largest = moments
  first += (gradient - first) * (1 - beta_1)
  second += (tf.square(gradient) - second) * (1 - beta_2)
  largest = tf.maximum(largest, second)
  weight -= rate * first / (tf.sqrt(largest) + epsilon)
  return weight, first, second, largest
