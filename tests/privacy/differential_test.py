"""Tests of clipping, against NumPy in float64 and on hostile updates."""

import numpy as np
import pytest
import tensorflow as tf

from tff_fair.privacy import differential

CLIP = 0.3


def clipped(update, factor=1.0):
  return [
    np.asarray(layer)
    for layer in differential.scale_and_clip(
      update, tf.constant(factor, tf.float64), CLIP
    )
  ]


def norm(layers):
  return np.sqrt(sum(np.sum(np.square(x, dtype=np.float64)) for x in layers))


@pytest.mark.parametrize("factor", [0.0, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-3, 1.0, 1e30, 3e38])
def test_no_update_is_longer_than_the_clip(scale, factor):
  rng = np.random.default_rng(0)
  update = [
    (rng.uniform(-1, 1, size=shape) * scale).astype(np.float32)
    for shape in ((3, 2), (4,), ())
  ]
  found = clipped(update, factor)
  longest = factor * norm(update)
  expected = min(1.0, CLIP / longest) if longest else 1.0
  for layer, before in zip(found, update, strict=True):
    assert layer.dtype == before.dtype
    np.testing.assert_allclose(
      layer,
      factor * expected * before.astype(np.float64),
      rtol=1e-6,
      atol=1e-37,
    )
  assert norm(found) <= CLIP * (1 + 1e-6)


def test_noise_is_divided_with_the_sum():
  settings = differential.dp(2.0, 5, CLIP)
  zeros = tf.zeros([40_000], tf.float32)
  (first,), (second,) = (
    differential.noisy_mean((zeros + 1,), settings) for _ in range(2)
  )
  for found in (first.numpy(), second.numpy()):
    assert found.dtype == np.float32
    assert found.mean() == pytest.approx(1 / 5, abs=0.005)
    assert found.std() == pytest.approx(2.0 * CLIP / 5, rel=0.03)
  assert not np.array_equal(first, second)
  without = differential.noisy_mean((zeros + 1,), differential.dp(0, 5, CLIP))
  np.testing.assert_allclose(tf.nest.flatten(without)[0], 1 / 5)
