"""Tests of noisy clients, noise levels and new labels."""

import math

import numpy as np
import pytest

from tff_fair.label_correction import relabelling


def test_clients_of_high_dimension_are_noisy():
  dimensions = np.array([2.0, 2.1, 5.0, 1.9, 5.2, np.nan, 2.05])
  assert np.flatnonzero(relabelling.noisy_clients(dimensions)).tolist() == [
    2,
    4,
  ]
  assert not relabelling.noisy_clients(np.array([7.0])).any()
  assert not relabelling.noisy_clients(np.full(5, 3.0)).any()


def test_losses_are_the_cross_entropy():
  probabilities = np.array([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0]], np.float32)
  found = relabelling.losses(probabilities, np.array([1, 1], np.int32))
  np.testing.assert_allclose(found, [-math.log(0.2), 0], rtol=1e-6)
  wrong = relabelling.losses(probabilities, np.array([0, 0], np.int32))
  assert np.isfinite(wrong).all()
  assert wrong[1] > 80
  nothing = relabelling.losses(np.zeros([0, 3]), np.zeros(0, np.int32))
  assert nothing.shape == (0,)


def test_the_noise_level_is_the_share_of_large_losses():
  rng = np.random.default_rng(0)
  example_losses = np.concatenate(
    [rng.normal(0.2, 0.05, 70), rng.normal(3, 0.3, 30)]
  )
  assert relabelling.noise_level(example_losses) == pytest.approx(0.3)
  assert relabelling.noise_level(np.zeros(0)) == 0
  assert relabelling.noise_level(np.ones(9)) == 0


def test_the_proximal_weight_is_twice_beta_times_the_level():
  found = relabelling.proximal_weights(np.array([0.0, 0.3]), 5.0)
  np.testing.assert_allclose(found, [0, 3])
  assert found.dtype == np.float32


def test_suspects_are_the_largest_losses():
  example_losses = np.array([0.1, 5.0, 2.0, np.nan, 2.0, 3.0, 0.2, 0.3])
  found = relabelling.suspects(example_losses, 0.75, 0.5)
  assert np.flatnonzero(found).tolist() == [1, 2, 5]  # Of equals, the first.
  assert relabelling.suspects(np.ones(100), 0.29, 1.0).sum() == 29
  assert not relabelling.suspects(example_losses, 0.0, 1.0).any()
  everyone = relabelling.suspects(example_losses, 1.0, 1.0)
  assert everyone.tolist() == [True] * 3 + [False] + [True] * 4


def test_confident_predictions_become_labels():
  labels = np.array([0, 1, 2, 0, 1], np.int32)
  probabilities = np.array(
    [
      [0.1, 0.8, 0.1],
      [0.5, 0.3, 0.2],
      [0.4, 0.4, 0.2],
      [np.nan, np.nan, np.nan],
      [0.0, 0.0, 1.0],
    ]
  )
  found = relabelling.relabelled(labels, probabilities, 0.5)
  assert found.tolist() == [1, 0, 2, 0, 2]
  assert found.dtype == np.int32
  among = np.array([True, False, True, True, False])
  found = relabelling.relabelled(labels, probabilities, 0.5, among)
  assert found.tolist() == [1, 1, 2, 0, 1]
  nothing = relabelling.relabelled(labels[:0], probabilities[:0], 0.5)
  assert nothing.shape == (0,)


def test_labels_agree_with_a_loop_over_examples():
  rng = np.random.default_rng(3)
  labels = rng.integers(4, size=200).astype(np.int32)
  probabilities = rng.dirichlet(np.full(4, 0.4), 200)
  example_losses = relabelling.losses(probabilities, labels)
  level, share, confidence = 0.4, 0.5, 0.7
  expected = labels.copy()
  by_loss = sorted(
    range(200), key=lambda i: -math.log(probabilities[i][labels[i]])
  )
  for i in by_loss[::-1][: int(200 * level * share)]:
    best = max(range(4), key=lambda c: probabilities[i][c])
    if probabilities[i][best] >= confidence:
      expected[i] = best
  found = relabelling.relabelled(
    labels,
    probabilities,
    confidence,
    relabelling.suspects(example_losses, level, share),
  )
  np.testing.assert_array_equal(found, expected)
  assert (found != labels).sum() > 10
