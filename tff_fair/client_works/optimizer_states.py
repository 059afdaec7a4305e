"""The states of a client optimizer: for the weights, and for the probe."""

from typing import NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works import probe
from tff_fair.client_works.local_model import Trainable
from tff_fair.types import TensorStructure


class OptimizerStates(NamedTuple):
  """The states of a client optimizer.

  Attributes:
    model: Its state for the trainable weights.
    probe: Its state for the probe of the effective steps.
  """

  model: TensorStructure
  probe: TensorStructure


def initial_states(
  optimizer: tff.learning.optimizers.Optimizer, weights: Trainable
) -> OptimizerStates:
  """Returns the states of an optimizer that starts anew.

  Args:
    optimizer: The client optimizer.
    weights: Those it moves, a flat tuple.
  """
  return OptimizerStates(
    initial_state(optimizer, weights), initial_state(optimizer, probe.START)
  )


def initial_state(
  optimizer: tff.learning.optimizers.Optimizer, weights: Trainable
) -> TensorStructure:
  """Returns the state of an optimizer that starts anew.

  Args:
    optimizer: The client optimizer.
    weights: Those it moves, a flat tuple.
  """
  return optimizer.initialize(
    tuple(tf.TensorSpec(w.shape, w.dtype) for w in weights)
  )
