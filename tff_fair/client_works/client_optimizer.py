"""Runs the client optimizer on the model's weights and on a probe.

The optimizer updates the model's weights, which the proximal term
mu / 2 ||w - theta||^2 pulls back to theta. It also updates the probe, an extra
weight whose gradient is always one. The distance that the probe moves, divided
by the learning rate, is the client's number of effective steps, tau_k; this is
FedNova's ||a_k||_1 for any optimizer.

TFF's clients initialize their optimizer in each round, with a momentum of zero.
Here, an optimizer may also continue from its state in the client's last round,
as in AdaFedAdam's published code (github.com/li-ju666/adafedadam):

  a <- rho a + g,  w <- w - eta a

where the client's momentum a is kept from one round to the next.
A client's row in the table of states then has the states for the weights and
for the probe, so that the probe still measures the effective steps. The current
round's hyperparameters replace those in the row.
"""

import collections
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared
from tff_fair.client_works import client_table
from tff_fair.client_works.local_model import Trainable
from tff_fair.kernels import stacking
from tff_fair.optimizers.learning_rate_decay import Hparams
from tff_fair.types import TensorStructure

# The probe's weight before the first step, a flat tuple like models' weights.
PROBE_START = (np.zeros([], np.float32),)


class OptimizerStates(NamedTuple):
  """The client optimizer's states for the weights and for the probe."""

  model: TensorStructure
  probe: TensorStructure


def initial_states(
  optimizer: tff.learning.optimizers.Optimizer, weights: Trainable
) -> OptimizerStates:
  """Returns an optimizer's initial states for `weights` and `PROBE_START`."""
  return OptimizerStates(
    initial_state(optimizer, weights), initial_state(optimizer, PROBE_START)
  )


def initial_state(
  optimizer: tff.learning.optimizers.Optimizer, weights: Trainable
) -> TensorStructure:
  """Returns an optimizer's initial state for `weights`."""
  return optimizer.initialize(stacking.specs_of(tuple(weights)))


def add_proximal_gradient(
  gradients: Sequence[tf.Tensor | None],
  mu: float | tf.Tensor,
  weights: Sequence[tf.Tensor],
  centre: Sequence[tf.Tensor],
) -> tuple[tf.Tensor, ...]:
  """Adds the gradient of the proximal term, mu (w - theta), to gradients.

  `weights` is w and `centre` is theta. A gradient is `None` if the loss does
  not depend on its weight.
  """
  return tuple(
    mu * (w - theta) + (0.0 if gradient is None else gradient)
    for gradient, w, theta in zip(gradients, weights, centre, strict=True)
  )


class Probe(NamedTuple):
  """The probe's weight, a tuple of one float32[], and its optimizer state."""

  weight: Trainable
  optimizer: TensorStructure

  @property
  def effective_steps(self) -> tf.Tensor:
    """The distance the probe has moved, float32[]; see `probe_settings`."""
    return -self.weight[0]


def probe_settings(
  mu: float, hparams: Hparams
) -> tuple[Hparams, float | tf.Tensor]:
  """Returns the optimizer's hyperparameters and proximal weight for the probe.

  The probe moves in units of the learning rate: plain SGD moves it by exactly 1
  per step. So the learning rate for the probe is 1, and its proximal weight is
  mu times the rate for the model's weights. If the learning rate is not a
  hyperparameter, the probe moves in the same unit as the weights.
  """
  key = tff.learning.optimizers.LEARNING_RATE_KEY
  if key not in hparams:
    return hparams, mu
  rate = hparams[key]
  probe_hparams = collections.OrderedDict(
    [*hparams.items(), (key, tf.ones_like(rate))]
  )
  if "weight_decay" in hparams:  # AdamW's decay acts like mu.
    probe_hparams["weight_decay"] *= rate
  return probe_hparams, mu * tf.cast(rate, tf.float32)


def step_probe(
  probe: Probe, mu: float | tf.Tensor, take_step: Callable[..., Any]
) -> Probe:
  """Returns the probe after one step of the client optimizer, `take_step`."""
  gradient = add_proximal_gradient(
    (tf.ones([]),), mu, probe.weight, PROBE_START
  )
  optimizer, weight = take_step(probe.optimizer, probe.weight, gradient)
  return Probe(weight, optimizer)


def columns(
  weights_type: Any, optimizer: tff.learning.optimizers.Optimizer
) -> client_table.Columns:
  """Returns the columns of the table that keeps optimizer states.

  Raises `FieldError` if the states are empty, or if they are not all floats.
  """
  specs = tff.types.type_to_tf_tensor_specs(weights_type.trainable)
  with tf.Graph().as_default():
    theta = tuple(stacking.zeros(tf.nest.flatten(specs)))
    states = initial_states(optimizer, theta)
    hparams = tf.nest.flatten(optimizer.get_hparams(states.model))
    leaves = [*map(tf.convert_to_tensor, tf.nest.flatten(states))]
    kept = len(tf.nest.flatten(states.model)) - len(hparams)
    if not kept or not all(leaf.dtype.is_floating for leaf in leaves):
      raise declared.FieldError(
        "keeps_optimizer_state",
        "Expected a client_optimizer with a momentum to keep, such as "
        "tff.learning.optimizers.build_sgdm(learning_rate, momentum), found "
        f"{type(optimizer).__name__} with "
        + ("a state that counts steps." if kept else "nothing to keep."),
      )
    return client_table.Columns(
      "state", stacking.row_spec(stacking.specs_of(leaves))
    )
