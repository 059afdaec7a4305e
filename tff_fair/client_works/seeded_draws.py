"""Draws that a seed decides, with the client, the round or the epoch alone.

So a client draws the same in whatever order clients run, and wherever.
"""

import tensorflow as tf


def shuffled(size: tf.Tensor, seed: int, *salts: tf.Tensor) -> tf.Tensor:
  """Returns a permutation of range(size) that depends on seed and salts alone.

  Args:
    size: int32[].
    seed: Any Python integer; its lowest 64 bits count.
    *salts: Integer scalars, for instance client, round and epoch.

  Returns:
    int32[size].
  """
  return tf.random.experimental.stateless_shuffle(
    tf.range(size), seed=_stateless_seed(seed, *salts)
  )


def drawn_between(
  least: int, most: int, seed: int, *salts: tf.Tensor
) -> tf.Tensor:
  """Returns a number that depends on seed and salts alone.

  Args:
    least: The least number.
    most: The greatest; all numbers between are equally likely.
    seed: Any Python integer; its lowest 64 bits count.
    *salts: Integer scalars, for instance client and round.

  Returns:
    int64[].
  """
  return tf.random.stateless_uniform(
    [], _stateless_seed(seed, *salts), least, most + 1, tf.int64
  )


def _stateless_seed(seed: int, *salts: tf.Tensor) -> tf.Tensor:
  state = tf.constant(
    [_signed(seed & 0xFFFFFFFF), _signed(seed >> 32 & 0xFFFFFFFF)], tf.int32
  )
  for salt in salts:
    low, high = tf.unstack(tf.bitcast(tf.cast(salt, tf.int64), tf.int32))
    state = tf.random.experimental.stateless_fold_in(state, low)
    state = tf.random.experimental.stateless_fold_in(state, high)
  return state


def _signed(word: int) -> int:
  return word - 2**32 if word >= 2**31 else word
