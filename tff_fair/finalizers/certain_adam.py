"""Builds AdaFedAdam's server step: Adam that depends on a round's certainty.

Ju, Zhang, Toor, Hellander, "Accelerating Fair Federated Learning: Adaptive
Federated Adam" (2024), Algorithm 1; the round has direction g and certainty C:

  beta_{t,i} = beta_i^C
  m <- (1 - beta_{t,1}) g + beta_{t,1} m
  v <- (1 - beta_{t,2}) g^2 + beta_{t,2} v
  c_i <- c_i beta_{t,i}, starting from 1
  theta <- theta - C learning_rate m / (1 - c_1) / (sqrt(v / (1 - c_2)) + eps)

The last line of the paper's algorithm has eta, but its text and the line above
define eta_t = C eta: this module uses eta_t. With a constant C = 1 it is Adam.

For a small C, beta_{t,i} and c_i are close to 1, and their differences from 1
matter. So expm1 computes 1 - beta_{t,i}, and the state stores 1 - c_i instead
of c_i. 1 - c_i is the moment that a direction of constant value 1 would have.
"""

import collections
import dataclasses
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared
from tff_fair.finalizers import server_steps
from tff_fair.kernels import stacking
from tff_fair.optimizers.learning_rate_decay import Hparams, LearningRateDecay
from tff_fair.types import RoundUpdate, TensorStructure

# By name: `hparams`, the moments and the factors 1 - c_i of the module.
State: TypeAlias = collections.OrderedDict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CertainAdamSettings(declared.Hyperparameters):
  """The hyperparameters of AdaFedAdam's server step, and of plain Adam's."""

  learning_rate: float = declared.value(
    0.001,
    "The learning rate of the server step.",
    minimum=0,
    exclude_minimum=True,
    in_float32=True,
  )
  beta1: float = declared.value(
    0.9,
    "Decay of the first moment.",
    minimum=0,
    maximum=1,
    exclude_maximum=True,
    in_float32=True,
  )
  beta2: float = declared.value(
    0.999,
    "Decay of the second moment.",
    minimum=0,
    maximum=1,
    exclude_maximum=True,
    in_float32=True,
  )
  epsilon: float = declared.value(
    1e-8,
    "Added to the root of the second moment.",
    minimum=0,
    exclude_minimum=True,
    in_float32=True,
  )


def build_certain_adam(
  settings: CertainAdamSettings,
  weights_type: tff.Type,
  decay: LearningRateDecay | None = None,
) -> tff.learning.templates.FinalizerProcess:
  """Builds the finalizer that takes AdaFedAdam's server step.

  Args:
    settings: The initial hyperparameters. The state holds the current ones, so
      that they can be changed between rounds.
    weights_type: The type of `tff.learning.models.ModelWeights`, W.
    decay: The decay of the learning rate; `None` for a constant rate.

  Returns:
    A finalizer with the types of `server_steps.build_finalizer`. It takes the
    scalar `certainty`, float32[]. Its state holds the hyperparameters, the
    moments and the factors 1 - c_i.
  """

  def initialize() -> State:
    specs = tff.types.type_to_tf_tensor_specs(weights_type.trainable)
    return initial_state(settings, specs)

  def step(
    state: State, trainable: TensorStructure, round_update: RoundUpdate
  ) -> tuple[State, TensorStructure]:
    certainty = round_update.scalars["certainty"]
    return take_step(state, trainable, round_update.update, certainty)

  def set_hparams(state: State, hparams: Hparams) -> State:
    return collections.OrderedDict([*state.items(), ("hparams", hparams)])

  return server_steps.build_finalizer(
    weights_type,
    server_steps.ServerStep(
      initialize, step, lambda state: state["hparams"], set_hparams
    ),
    scalars=collections.OrderedDict(certainty=np.float32),
    decay=decay,
  )


def initial_state(
  settings: CertainAdamSettings, specs: TensorStructure
) -> State:
  """Returns the state before the first round."""
  return collections.OrderedDict(
    hparams=collections.OrderedDict(
      (name, tf.constant(value, tf.float32))
      for name, value in dataclasses.asdict(settings).items()
    ),
    first_moment=stacking.zeros(specs),
    second_moment=stacking.zeros(specs),
    bias_correction1=tf.zeros([], tf.float32),
    bias_correction2=tf.zeros([], tf.float32),
  )


def take_step(
  state: State,
  trainable: TensorStructure,
  update: TensorStructure,
  certainty: tf.Tensor,
) -> tuple[State, TensorStructure]:
  """Returns the state and the trainable weights after a round.

  `update` is the direction g, and `certainty` is C, float32[].
  """
  hparams = state["hparams"]
  shares1 = _shares(hparams["beta1"], certainty)
  shares2 = _shares(hparams["beta2"], certainty)
  first = tf.nest.map_structure(
    lambda m, g: _mix(shares1, m, g), state["first_moment"], update
  )
  second = tf.nest.map_structure(
    lambda v, g: _mix(shares2, v, tf.square(g)),
    state["second_moment"],
    update,
  )
  one = tf.ones_like(certainty)
  correction1 = _mix(shares1, state["bias_correction1"], one)
  correction2 = _mix(shares2, state["bias_correction2"], one)
  rate = certainty * hparams["learning_rate"] / correction1
  new_trainable = tf.nest.map_structure(
    lambda w, m, v: w - _step(rate, m, v, correction2, hparams["epsilon"]),
    trainable,
    first,
    second,
  )
  new_state = collections.OrderedDict(
    hparams=hparams,
    first_moment=first,
    second_moment=second,
    bias_correction1=correction1,
    bias_correction2=correction2,
  )
  return new_state, new_trainable


def _shares(
  beta: tf.Tensor, certainty: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns beta^C and 1 - beta^C, each computed as exactly as possible."""
  exponent = tf.math.xlogy(certainty, beta)
  return tf.exp(exponent), -tf.math.expm1(exponent)


def _mix(
  shares: tuple[tf.Tensor, tf.Tensor], moment: tf.Tensor, new: tf.Tensor
) -> tf.Tensor:
  kept, added = (tf.cast(share, moment.dtype) for share in shares)
  return kept * moment + added * new


def _step(
  rate: tf.Tensor,
  first: tf.Tensor,
  second: tf.Tensor,
  correction: tf.Tensor,
  epsilon: tf.Tensor,
) -> tf.Tensor:
  rate, correction, epsilon = (
    tf.cast(scalar, first.dtype) for scalar in (rate, correction, epsilon)
  )
  return rate * first / (tf.sqrt(second / correction) + epsilon)
