"""Checks users' optimizers, and finds their hyperparameters."""

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared
from tff_fair.optimizers.learning_rate_decay import Hparams

_RATE = tff.learning.optimizers.LEARNING_RATE_KEY


def check_optimizer(
  name: str, optimizer: tff.learning.optimizers.Optimizer
) -> None:
  """Raises unless `optimizer` is a TFF optimizer with a valid `set_hparams`.

  Args:
    name: The name of the option in the error.
    optimizer: The optimizer.

  Raises:
    TypeError: If it is not a TFF optimizer.
    FieldError: If `set_hparams` does not return the optimizer's state.
  """
  if not isinstance(optimizer, tff.learning.optimizers.Optimizer):
    raise TypeError(
      f"Expected `{name}` to be a tff.learning.optimizers.Optimizer, found "
      f"{type(optimizer).__name__}. Build one with "
      "tff.learning.optimizers.build_sgdm(learning_rate)."
    )
  state = optimizer.initialize(tf.TensorSpec([], tf.float32))
  same = optimizer.set_hparams(state, optimizer.get_hparams(state))
  try:
    tf.nest.assert_same_structure(state, same)
  except (TypeError, ValueError) as error:
    # For example, `set_hparams` of TFF's Adafactor returns no state.
    raise declared.FieldError(
      name,
      f"The `{name}`, {type(optimizer).__name__}, cannot be used: its "
      "set_hparams does not return a state as its initialize does. Take "
      "another one, for instance tff.learning.optimizers.build_adam.",
    ) from error


def server_optimizer_or_default(
  optimizer: tff.learning.optimizers.Optimizer | None,
) -> tff.learning.optimizers.Optimizer:
  """Checks and returns the server optimizer; `None` means SGD of rate 1."""
  if optimizer is None:
    return tff.learning.optimizers.build_sgdm(1.0)
  check_optimizer("server_optimizer", optimizer)
  return optimizer


def hparams_of(optimizer: tff.learning.optimizers.Optimizer) -> Hparams:
  """Returns an optimizer's initial hyperparameters."""
  return optimizer.get_hparams(
    optimizer.initialize(tf.TensorSpec([], tf.float32))
  )


def learning_rate(
  optimizer: tff.learning.optimizers.Optimizer,
) -> float | None:
  """Returns an optimizer's learning rate; `None` if it has none."""
  rate = hparams_of(optimizer).get(_RATE)
  return None if rate is None else float(rate)


def is_plain_sgd(optimizer: tff.learning.optimizers.Optimizer) -> bool:
  """Returns whether an optimizer is TFF's SGD without momentum.

  The step of such an optimizer is its learning rate times the gradient.
  """
  return isinstance(
    optimizer, type(tff.learning.optimizers.build_sgdm(1.0))
  ) and [*hparams_of(optimizer)] == [_RATE]
