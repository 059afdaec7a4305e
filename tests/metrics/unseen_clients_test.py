import math

import numpy as np
import pytest
import scipy.special

from tff_fair.metrics import unseen_client_bound

_FEDERATIONS = 3000
_CONFIDENCE = 0.9


def alike(rng, shape):
  return rng.beta(12, 4, shape)


def in_two_groups(rng, shape):
  """Draws accuracies; those of a quarter of the clients are far lower."""
  return np.where(rng.random(shape) < 0.25, 0.2, rng.beta(30, 3, shape))


def equal(rng, shape):
  del rng
  return np.full(shape, 0.7)


# Maps a population to a function that draws clients, and to P(X >= x).
_POPULATIONS = {
  "alike": (alike, lambda x: 1 - scipy.special.betainc(12, 4, x)),
  "two groups": (
    in_two_groups,
    lambda x: 0.25 * (x <= 0.2) + 0.75 * (1 - scipy.special.betainc(30, 3, x)),
  ),
  "equal": (equal, lambda x: 1.0 * (x <= 0.7)),
}


@pytest.mark.parametrize("is_measured", [False, True])
@pytest.mark.parametrize(("num_clients", "share"), [(10, 0.7), (30, 0.8)])
@pytest.mark.parametrize("name", _POPULATIONS)
def test_holds_with_its_confidence(name, num_clients, share, is_measured):
  check_confidence(name, num_clients, share, is_measured)


@pytest.mark.long
@pytest.mark.parametrize("is_measured", [False, True])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("name", _POPULATIONS)
def test_holds_with_its_confidence_for_many_clients(name, share, is_measured):
  check_confidence(name, 100, share, is_measured)


def check_confidence(name, num_clients, share, is_measured):
  draw, reach = _POPULATIONS[name]
  rng = np.random.default_rng(num_clients)
  scores = draw(rng, (_FEDERATIONS, num_clients))
  count = rng.integers(3, 40, scores.shape)
  measured = rng.binomial(count, scores) / count if is_measured else scores
  bounds = np.array(
    [
      unseen_client_bound(
        row, share, _CONFIDENCE, examples if is_measured else None
      )
      for row, examples in zip(measured, count, strict=True)
    ]
  )
  slack = 3 * math.sqrt(_CONFIDENCE * (1 - _CONFIDENCE) / _FEDERATIONS)
  assert np.mean(reach(bounds) >= share) >= _CONFIDENCE - slack


def test_uncorrected_scores_would_promise_too_much():
  rng = np.random.default_rng(0)
  scores = in_two_groups(rng, (500, 100))
  measured = rng.binomial(10, scores) / 10
  reach = _POPULATIONS["two groups"][1]
  raw, corrected = (
    [unseen_client_bound(row, 0.8, 0.9, examples) for row in measured]
    for examples in (None, np.full(100, 10))
  )
  assert np.mean(reach(np.array(raw)) >= 0.8) < 0.9
  assert np.mean(reach(np.array(corrected)) >= 0.8) >= 0.9


@pytest.mark.parametrize(
  ("num_clients", "share", "confidence", "rank"),
  [
    (59, 0.95, 0.95, 1),  # Wilks' 59: 1 - 0.95^59 = 0.9515.
    (58, 0.95, 0.95, 0),
    (93, 0.95, 0.95, 2),
    (14, 0.8, 0.95, 1),
    (13, 0.8, 0.95, 0),
  ],
)
def test_ranks_are_those_of_tolerance_limits(
  num_clients, share, confidence, rank
):
  scores = np.random.default_rng(1).permutation(num_clients) + 1.0
  bound = unseen_client_bound(scores, share, confidence)
  assert bound == rank if rank else math.isnan(bound)


def test_more_examples_come_nearer_to_the_scores():
  scores = np.linspace(0.5, 1.0, 101)
  bounds = [
    unseen_client_bound(scores, 0.8, 0.95, np.full(101, 100 * size))
    for size in (1, 10, 1000)
  ]
  assert bounds == sorted(bounds)
  assert bounds[-1] <= unseen_client_bound(scores, 0.8, 0.95)


def test_clients_that_have_nothing_right_promise_nothing():
  assert unseen_client_bound(np.zeros(50), 0.8, 0.95, np.full(50, 3)) == 0


@pytest.mark.parametrize(
  "arguments",
  [
    ([0.5], 0.0, 0.9),
    ([0.5], 0.8, 1.0),
    ([0.5, math.nan], 0.8, 0.9),
    ([], 0.8, 0.9),
    ([1.5], 0.8, 0.9, [3]),
    ([0.5], 0.8, 0.9, [3, 4]),
  ],
)
def test_wrong_arguments_are_refused(arguments):
  with pytest.raises(ValueError, match="Expected"):
    unseen_client_bound(*arguments)
