"""Tests of seeded random draws."""

import numpy as np
import pytest
import tensorflow as tf

from tff_fair.client_works import training_settings

pytestmark = pytest.mark.pure


def shuffled(size, seed, *salts):
  return training_settings.permutation(
    tf.constant(size), seed, *(tf.constant(s, tf.int64) for s in salts)
  ).numpy()


@pytest.mark.parametrize("size", [0, 1, 2, 100])
@pytest.mark.parametrize("seed", [0, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 2**90])
def test_shuffled_is_a_permutation(size, seed):
  places = shuffled(size, seed, 2**40 + 1, -1, 0)
  assert places.dtype == np.int32
  np.testing.assert_array_equal(np.sort(places), np.arange(size))


def test_shuffled_depends_on_seed_and_all_salts():
  settings = [
    (seed, client, round_num, epoch)
    for seed in (0, 1, 2**32)
    for client in (0, 5, 2**40, -5)
    for round_num in (0, 1)
    for epoch in (0, 1)
  ]
  orders = {tuple(shuffled(50, *setting)) for setting in settings}
  assert len(orders) == len(settings)
  again = {tuple(shuffled(50, *setting)) for setting in settings}
  assert again == orders


def test_places_are_about_equally_likely():
  firsts = [shuffled(4, 7, i)[0] for i in range(800)]
  counts = np.bincount(firsts, minlength=4)
  # Allows five standard deviations.
  assert np.all(np.abs(counts - 200) < 5 * np.sqrt(800 * 0.25 * 0.75))


def test_draws_cover_all_of_64_bits():
  found = [
    int(
      training_settings.num_epochs(
        training_settings.TrainingSettings(
          local_epochs=(1, 10**6), local_epochs_seed=seed
        ),
        np.int64(client_id),
        0,
      )
    )
    for seed in (0, 1, 2**40)
    for client_id in (0, 2**40, -(2**63))
  ]
  assert len(set(found)) == len(found)
