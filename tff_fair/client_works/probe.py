"""The probe, which tells how far a client goes: its effective steps, tau_k.

It is one more weight, which the client optimizer moves beside the model's under
the constant gradient one. Divided by the learning rate, its way is FedNova's
||a_k||_1 for any optimizer.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works import proximal_term
from tff_fair.client_works.local_model import Trainable
from tff_fair.optimizers.learning_rate_decay import Hparams
from tff_fair.types import TensorStructure

# The weight before the first step, a flat tuple as those of models.
START = (np.zeros([], np.float32),)


class Probe(NamedTuple):
  """The probe between two steps.

  Attributes:
    weight: The weight, a flat tuple of one float32[].
    optimizer: The state of the client optimizer for it.
  """

  weight: Trainable
  optimizer: TensorStructure

  @property
  def effective_steps(self) -> tf.Tensor:
    """tau_k, float32[], in the unit that `settings` chose."""
    return -self.weight[0]


def settings(mu: float, hparams: Hparams) -> tuple[Hparams, float | tf.Tensor]:
  """Returns the hyperparameters and the proximal weight of the probe.

  The probe moves in units of the learning rate, which keeps its sums exact; so
  it feels the proximal term times that rate. Where the rate is no
  hyperparameter, the probe moves in the weights' own unit.

  Args:
    mu: The proximal weight.
    hparams: The hyperparameters of the client optimizer this round.
  """
  key = tff.learning.optimizers.LEARNING_RATE_KEY
  if key not in hparams:
    return hparams, mu
  rate = hparams[key]
  probe_hparams = collections.OrderedDict(
    [*hparams.items(), (key, tf.ones_like(rate))]
  )
  if "weight_decay" in hparams:  # AdamW's, which is such a pull too.
    probe_hparams["weight_decay"] *= rate
  return probe_hparams, mu * tf.cast(rate, tf.float32)


def moved(
  probe: Probe, mu: float | tf.Tensor, take_step: Callable[..., Any]
) -> Probe:
  """Returns the probe after a step.

  Args:
    probe: The probe before it.
    mu: Its proximal weight.
    take_step: The `next` of the client optimizer.
  """
  gradient = proximal_term.add_gradient((tf.ones([]),), mu, probe.weight, START)
  optimizer, weight = take_step(probe.optimizer, probe.weight, gradient)
  return Probe(weight, optimizer)
