"""Tests of the comparison of two models over the same clients."""

import math

import numpy as np
import pandas as pd
import pytest

from tff_fair.metrics import compare_clients, compare_errors, share_not_worse


@pytest.mark.parametrize("num_clients", [1, 2, 17, 400])
def test_agrees_with_a_loop_over_clients(num_clients):
  rng = np.random.default_rng(num_clients)
  baseline, other = rng.uniform(size=(2, num_clients))
  mean = math.fsum(baseline) / num_clients
  pairs = list(zip(baseline, other, strict=True))
  low = [b - a for a, b in pairs if a < mean]
  high = [b - a for a, b in pairs if a >= mean]
  assert compare_clients(baseline, other) == pytest.approx(
    {
      "suffering_share": len(low) / num_clients,
      "suffering_improved_share": sum(c > 0 for c in low) / (len(low) or 1),
      "suffering_mean_change": sum(low) / (len(low) or 1),
      "well_performing_share": len(high) / num_clients,
      "well_performing_degraded_share": sum(c < 0 for c in high) / len(high),
      "well_performing_mean_change": sum(high) / len(high),
      "mean_change": sum(low + high) / num_clients,
    },
    rel=1e-12,
    abs=1e-12,
  )


# In floats, the plain mean of 0.1, 0.1 and 0.1 is above 0.1.
@pytest.mark.parametrize("baseline", [[0.1] * 3, [0.7] * 3, [0.0] * 2, [1.0]])
def test_no_client_suffers_among_equals(baseline):
  change = pytest.approx(0.5 - baseline[0])
  assert compare_clients(baseline, [0.5] * len(baseline)) == {
    "suffering_share": 0.0,
    "suffering_improved_share": 0.0,
    "suffering_mean_change": 0.0,
    "well_performing_share": 1.0,
    "well_performing_degraded_share": float(baseline[0] > 0.5),
    "well_performing_mean_change": change,
    "mean_change": change,
  }


# In float32, 0.03 is one rounding error below the mean of 0.01, 0.03 and 0.05.
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("middle", [0.03, 0.2, 0.5])
def test_a_client_at_the_mean_is_well_performing(middle, dtype):
  accuracies = np.array([middle - 0.02, middle, middle + 0.02], dtype)
  comparison = compare_clients(accuracies, accuracies)
  assert comparison["suffering_share"] == pytest.approx(1 / 3)


def test_the_same_accuracies_in_float32_are_no_change():
  baseline = np.linspace(0.01, 0.99, 99)
  comparison = compare_clients(baseline, baseline.astype(np.float32))
  assert comparison["suffering_share"] == pytest.approx(49 / 99)
  assert comparison["suffering_improved_share"] == 0.0
  assert comparison["well_performing_degraded_share"] == 0.0


def test_takes_series_by_position():
  baseline = pd.Series([0.2, 0.8], index=["b", "a"])
  other = pd.Series([0.4, 0.8], index=["x", "y"])
  assert compare_clients(baseline, other)["suffering_improved_share"] == 1.0


@pytest.mark.parametrize(
  ("baseline", "other", "message"),
  [
    ([], [], "baseline "),
    ([0.5], [], "other "),
    ([0.5], [0.5, 0.6], "1 .*baseline.* 2 .*other"),
    ([0.5], [math.nan], "other .*nan .*0"),
    ([50.0], [0.5], "baseline .*50.0 .*0"),
    ([[0.5]], [[0.5]], "rank 1"),
  ],
)
def test_bad_accuracies_are_refused(baseline, other, message):
  with pytest.raises(ValueError, match=message):
    compare_clients(baseline, other)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
  ("before", "after", "share"),
  [
    ([1.0, 2.0, 3.0, 4.0], [1.0, 1.5, 3.5, 4.0], 0.75),
    ([1.0], [np.nextafter(1.0, 2.0)], 0.0),
    # A loss that becomes NaN or infinite counts as higher.
    ([1.0] * 4, [NAN, INF, -INF, 0.5], 0.25),
    # Clients whose baseline loss is not finite are left out.
    ([NAN, INF, -INF, 1.0, 1.0], [0.0, 0.0, 0.0, 0.5, 2.0], 0.5),
    ([NAN], [1.0], NAN),
    (np.float32([1.0, 2.0]), pd.Series([0.5, 3.0], index=[1, 0]), 0.5),
  ],
)
def test_the_share_that_is_not_worse(before, after, share):
  found = share_not_worse(before, after)
  assert found == pytest.approx(share, abs=0, nan_ok=True)


@pytest.mark.parametrize(
  ("before", "after", "message"),
  [
    ([], [], "before "),
    ([1.0], [], "after "),
    ([1.0, 2.0], [1.0], "2 .*before.* 1 .*after"),
    (1.0, 1.0, "rank 1"),
  ],
)
def test_bad_losses_are_refused(before, after, message):
  with pytest.raises(ValueError, match=message):
    share_not_worse(before, after)


def test_errors_by_hand():
  baseline = [90.0, 70, 50, 30, 10]  # Mean 50.
  other = [80.0, 80, 40, 40, 40]
  assert compare_errors(baseline, other) == pytest.approx(
    {
      "suffering_share": 2 / 5,
      "suffering_improved_share": 1 / 2,
      "suffering_mean_change": 0.0,
      "well_performing_share": 3 / 5,
      "well_performing_degraded_share": 2 / 3,
      "well_performing_mean_change": 10.0,
      "mean_change": 6.0,
    }
  )


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_errors_that_differ_by_rounding_are_equal(scale):
  errors = scale * np.array([0.1, 0.2, 0.3])
  comparison = compare_errors(errors, errors.astype(np.float32))
  assert comparison["suffering_share"] == pytest.approx(1 / 3)
  assert comparison["suffering_improved_share"] == 0
  assert comparison["well_performing_degraded_share"] == 0
  worse = compare_errors(errors, errors * (1 + 1e-6))
  assert worse["well_performing_degraded_share"] == 1


def test_a_model_that_diverged_degrades_everybody_else():
  inf = math.inf
  comparison = compare_errors([1.0, 3.0, inf], [inf, inf, inf])
  assert comparison["well_performing_degraded_share"] == 1
  assert comparison["suffering_share"] == pytest.approx(1 / 3)
  assert comparison["suffering_improved_share"] == 0
  assert math.isnan(comparison["mean_change"])


@pytest.mark.parametrize("errors", [[-1.0, 1.0], [math.nan, 1.0], [1.0]])
def test_bad_errors_are_no_comparison(errors):
  with pytest.raises(ValueError, match="baseline"):
    compare_errors(errors, [1.0, 2.0])
