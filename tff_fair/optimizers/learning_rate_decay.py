"""Decays a learning rate from round to round, at clients or at the server.

exponential   eta_t = eta r^s
inverse_time  eta_t = eta / (1 + r s)

In round t, s = floor(t / n): the rate decays every n rounds; by default n = 1.
"""

import collections
import dataclasses
import math
from collections.abc import Mapping
from typing import TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared

# The hyperparameters of a TFF optimizer, by name.
Hparams: TypeAlias = Mapping[str, tf.Tensor]

KINDS = ("exponential", "inverse_time")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningRateDecay:
  """The decay of a learning rate, by the module's formulas."""

  r: float  # In (0, 1] for exponential decay, 0 or more for inverse time.
  kind: str  # "exponential" or "inverse_time".
  rounds: int = 1  # n: the rate decays every n rounds.
  option: str = "learning_rate_decay"  # The option to name in errors.

  def apply(self, hparams: Hparams, round_num: tf.Tensor) -> Hparams:
    """Returns `hparams` with the learning rate of round `round_num`, int64[].

    Raises `FieldError` if `hparams` do not include a learning rate.
    """
    key = tff.learning.optimizers.LEARNING_RATE_KEY
    if key not in hparams:
      raise declared.FieldError(
        self.option,
        f"An optimizer with the hyperparameter {key} is needed for its decay; "
        f"this one has {', '.join(hparams) or 'none'}.",
      )
    # If the rate decays in every round, the graph needs no division.
    steps = round_num if self.rounds == 1 else round_num // self.rounds
    r, s = tf.constant(self.r, tf.float32), tf.cast(steps, tf.float32)
    factor = tf.pow(r, s) if self.kind == "exponential" else 1.0 / (1.0 + r * s)
    rate = tf.convert_to_tensor(hparams[key])
    decayed = rate * tf.cast(factor, rate.dtype)
    return collections.OrderedDict([*hparams.items(), (key, decayed)])


def build(
  name: str, r: float | None, kind: str, rounds: int = 1
) -> LearningRateDecay | None:
  """Builds the decay that three options set; returns None if `r` is None.

  The options are called `name`, with the value `r`, `<name>_kind`, with the
  value `kind`, and `<name>_rounds`, with the value `rounds`. Raises `TypeError`
  or `FieldError` for an invalid value.
  """
  declared.check_choice(f"{name}_kind", kind, KINDS)
  declared.check_integer(f"{name}_rounds", rounds, minimum=1)
  if r is None:
    return None
  exponential = kind == "exponential"
  declared.check_number(
    name,
    r,
    minimum=0,
    maximum=1 if exponential else math.inf,
    exclude_minimum=exponential,
    in_float32=True,
  )
  return LearningRateDecay(r=r, kind=kind, rounds=rounds, option=name)
