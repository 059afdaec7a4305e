"""The proximal term of local training, mu / 2 ||w - theta||^2."""

from collections.abc import Sequence

import tensorflow as tf


def add_gradient(
  gradients: Sequence[tf.Tensor | None],
  mu: float | tf.Tensor,
  weights: Sequence[tf.Tensor],
  centre: Sequence[tf.Tensor],
) -> tuple[tf.Tensor, ...]:
  """Returns the gradients plus that of the term, mu (w - theta).

  Args:
    gradients: Of the loss, one for each weight; `None` where the loss does not
      depend on it.
    mu: The weight of the term, float32[] if a tensor.
    weights: w.
    centre: theta.
  """
  return tuple(
    mu * (w - theta) + (0.0 if gradient is None else gradient)
    for gradient, w, theta in zip(gradients, weights, centre, strict=True)
  )
