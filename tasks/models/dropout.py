"""Dropout that repeats from run to run."""

import tensorflow as tf

from tasks.models import seeds


class RepeatableDropout(tf.keras.layers.Layer):
  """Dropout whose mask is a function of its input and a seed.

  TFF starts the generator of Keras' dropout anew for every client in every
  round: with a seed all of them get the same masks, without one no run repeats.
  Here the input's own bits choose the mask: it changes with every batch and
  model, and a run repeats.
  """

  def __init__(self, rate: float, *, seed: int) -> None:
    super().__init__()
    self._rate = rate
    self._seed = seeds.int32_seeds(seed, 1)[0]

  def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """Zeroes a share `rate` of float32 inputs and scales the others up."""
    if not training:
      return inputs
    # Integers wrap round: the sum is the same in whichever order it is taken.
    fingerprint = tf.reduce_sum(tf.bitcast(inputs, tf.int32))
    keep = self._rate <= tf.random.stateless_uniform(
      tf.shape(inputs), seed=tf.stack([self._seed, fingerprint])
    )
    return tf.where(keep, inputs / (1.0 - self._rate), 0.0)

  def plain(self) -> tf.keras.layers.Dropout:
    """Returns Keras' own dropout, whose masks do not repeat."""
    return tf.keras.layers.Dropout(self._rate, name=self.name)
