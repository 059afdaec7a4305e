"""Tests by a short run of the benchmark that chance is not called certain."""

import numpy as np
import pytest

from benchmarks import false_certainty
from tff_fair.experiments.analysis import questions

NUM_PAIRS = 200
# Bounds of the shares of p < 0.05 and of p < 0.01 among NUM_PAIRS. If 0.05 and
# 0.01 are the true shares, 1 of 1,000 runs exceeds these bounds.
ALLOWED = (0.105, 0.035)


@pytest.mark.parametrize("question", questions.NAMES)
@pytest.mark.parametrize(
  ("num_seeds", "num_clients", "size"),
  [(2, 4, 6), (2, 20, 200), (3, 20, 6), (5, 4, 24)],
)
def test_identical_methods_are_rarely_called_different(
  num_seeds, num_clients, size, question
):
  ((_, found),) = false_certainty.rows(
    NUM_PAIRS, [num_seeds], [num_clients], [size], question=question
  )
  has_single = false_certainty.CLIENT in found
  assert has_single == (question == questions.THESE_CLIENTS)
  for *of_levels, without_width in found.values():
    assert all(np.less_equal(of_levels, ALLOWED))
    assert without_width == 0


def test_a_large_difference_is_found():
  ((_, found),) = false_certainty.rows(40, [5], [30], [20], gain=0.2)
  assert found["mean"][0] >= 0.9
  # With three seeds, a difference for these clients is mostly found in a single
  # comparison, but less often with Holm's correction for five methods.
  ((_, found),) = false_certainty.rows(
    40, [3], [30], [20], gain=0.2, question=questions.THESE_CLIENTS
  )
  beside_one, beside_five, _ = found["mean"]
  assert 0.95 >= beside_one >= 0.6 > beside_five


def test_simulated_accuracies_are_on_the_grid_of_float32():
  methods = false_certainty.draw_methods(np.random.default_rng(0), 3, 5, 6)
  found = [clients for m in methods for (clients,) in m.values()]
  assert len(found) == 3 * len(methods)
  for clients in found:
    correct = np.rint(clients.score * 6)
    rounded = (correct / 6).astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(clients.score, rounded)
    assert clients.num_examples.tolist() == [6] * 5
