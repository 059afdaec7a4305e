"""Tests that image bytes become floats by the scalings of other programs."""

import numpy as np
import pytest

from tasks.central import partitioned_task

# More images than are summed in one block, with a channel that hardly varies
# and one that never does.
IMAGES = np.random.Generator(np.random.PCG64(0)).integers(
  0, 256, (5000, 3, 5, 4), np.uint8
)
IMAGES[..., 1] = 200 + IMAGES[..., 1] % 2
IMAGES[..., 2] = 255
IMAGES[..., 3] //= 3
IMAGES[:2000, ..., 3] += 100


def _scaled(kind: partitioned_task.Pixels) -> np.ndarray:
  mean, deviation = partitioned_task.pixel_scaling(IMAGES, kind)
  assert mean.dtype == deviation.dtype == np.float32
  return (IMAGES - mean.astype(np.float64)) / deviation


def test_unit():
  np.testing.assert_allclose(_scaled("unit"), IMAGES / 255.0)


@pytest.mark.parametrize(
  ("kind", "deviation"),
  [
    ("standardized", np.std(IMAGES, axis=0, dtype=np.float64)),
    ("per_channel", np.std(IMAGES, axis=(1, 2), dtype=np.float64).mean(axis=0)),
  ],
)
def test_standardized(kind, deviation):
  axes = (0,) if kind == "standardized" else (0, 1, 2)
  expected = (IMAGES - IMAGES.mean(axis=axes)) / (deviation + 1e-3)
  np.testing.assert_allclose(_scaled(kind), expected, atol=2e-4)


def test_spread_between_images_is_not_that_of_a_channel():
  # In channel 3, images differ in brightness, which per_channel ignores.
  _, deviation = partitioned_task.pixel_scaling(IMAGES, "per_channel")
  assert deviation[3] < 0.5 * IMAGES[..., 3].std()


@pytest.mark.parametrize("kind", ["standardized", "per_channel"])
def test_what_never_changes_becomes_zero(kind):
  assert not np.any(_scaled(kind)[..., 2])


@pytest.mark.parametrize("kind", ["unit", "standardized", "per_channel"])
def test_one_image(kind):
  mean, deviation = partitioned_task.pixel_scaling(IMAGES[:1], kind)
  assert np.isfinite((IMAGES[0] - mean) / deviation).all()
  assert np.all(deviation > 0)
