"""Seeds of layers: initial weights that depend on one number alone.

TFF builds a model inside graphs that run in another process; only initializers
that carry their own seed give the same weights there, run after run.
"""

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

# More than any model here has layers.
_MAX_LAYERS = 64


def glorot_uniform(seed: int) -> Iterator[tf.keras.initializers.Initializer]:
  """Yields an initializer for each layer in turn (Glorot and Bengio, 2010)."""
  for layer_seed in int32_seeds(seed, _MAX_LAYERS):
    yield tf.keras.initializers.GlorotUniform(layer_seed)


def he_normal(seed: int) -> Iterator[tf.keras.initializers.Initializer]:
  """Yields an initializer for each layer in turn (He et al., 2015)."""
  for layer_seed in int32_seeds(seed, _MAX_LAYERS):
    yield tf.keras.initializers.HeNormal(layer_seed)


def int32_seeds(seed: int, count: int) -> list[int]:
  """Returns seeds that no other `seed` gives, each in 0 ... 2^31 - 1."""
  # Hashed, so that layer 1 under seed 0 is not layer 0 under seed 1.
  words = np.random.SeedSequence(seed).generate_state(count, np.uint32)
  return [int(word >> 1) for word in words]


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
  """Gives a seed to all that has none, and leaves others' draws as they were.

  Keras draws the seeds of layers from Python's generator. TensorFlow has
  no function that reads its own seed, so the new one stays.
  """
  of_python, of_numpy = random.getstate(), np.random.get_state()
  tf.keras.utils.set_random_seed(int32_seeds(seed, 1)[0])
  try:
    yield
  finally:
    random.setstate(of_python)
    np.random.set_state(of_numpy)
