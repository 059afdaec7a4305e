"""Tests of the diagnosis of a run's end, on evaluations made by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from tff_fair.experiments.runs import diagnosis
from tff_fair.experiments.spec.scores import ACCURACY, BY_NAME, RMSE

pytestmark = pytest.mark.pure


def evaluations(losses, means=None, score=ACCURACY, **columns):
  """Returns a table with an evaluation before training and after each round."""
  number = len(losses)
  if means is None:
    means = np.linspace(0.1, 0.8, number)
  spread = np.linspace(0.01, 0.02, number)
  return pd.DataFrame(
    {
      "round": range(number),
      "loss/mean": losses,
      f"{score.name}/mean": means,
      f"{score.name}/std": spread,
      f"{score.name}/min": np.asarray(means) / 2,
      f"{score.name}/max": np.asarray(means) * 1.1,
      **columns,
    }
  )


def kinds(losses, means=None, score=ACCURACY, num_classes=None, **columns):
  table = evaluations(losses, means, score, **columns)
  return [d.kind for d in diagnosis.diagnose(table, score, num_classes)]


def falling(start, end, number=20):
  return list(np.geomspace(start, end, number))


@pytest.mark.parametrize(
  "losses",
  [
    [2.3],
    [2.3, 2.4],
    [2.3, 3.1, 2.9],
    falling(2.3, 0.01),
    [*falling(2.3, 0.5), 1.1, 0.6, 1.2],
    # The losses of a classifier that becomes too sure of itself.
    [*falling(2.3, 0.8), 1.1, 1.4, 1.8, 2.0],
    # One jump after many evaluations; losses near 0.
    [*falling(2.3, 0.2), 2.1],
    [*falling(2.3, 1e-6), 1e-5, 1e-4, 1e-3, 1e-3, 1e-3],
    [1e-7, 1e-5, 1e-4, 1e-3],
    # Losses that may be negative.
    [1.0, -2.0, -3.0, -2.4],
    [-5.0, -5.1, -5.3, -5.2],
    # Noise without progress.
    [0.7, 0.8, 0.6, 0.75, 0.65, 0.9],
  ],
)
def test_good_runs_have_none(losses):
  assert kinds(losses) == []


@pytest.mark.parametrize(
  ("losses", "kind"),
  [
    ([2.3, 1.0, math.inf], "not_finite"),
    ([2.3, 1.0, math.nan], "not_finite"),
    ([2.3, 14.8], "above_initial"),
    ([2.1, 0.7, 0.8, 30, 843], "above_initial"),
    ([*falling(2.3, 0.2), 2000.0], "above_initial"),
    ([*falling(2.3, 0.2), 1.9, 1.8, 2.0], "above_best"),
    ([1.0, -2.0, -3.0, 6.0], "above_initial"),
    ([1.0, -2.0, -3.0, 0.5], "above_best"),
  ],
)
def test_losses_that_end_high(losses, kind):
  (found,) = diagnosis.diagnose(evaluations(losses), ACCURACY)
  assert (found.kind, found.measure) == (kind, "loss")
  assert found.round_num == len(losses) - 1
  np.testing.assert_equal(found.value, losses[-1])
  if kind == "above_best":
    assert found.reference == min(losses)
    assert found.reference_round == int(np.argmin(losses))


def test_the_loss_of_equal_probabilities():
  losses = [60.0, 20.0, 16.0, 15.0, 14.0, 14.0]  # Inputs are large.
  assert kinds(losses) == []
  assert kinds(losses, num_classes=10) == ["worse_than_constant"]
  assert kinds([60.0, 20.0, 4.0], num_classes=10) == []
  # A run that has just begun may have such losses.
  assert kinds(losses[:3], num_classes=10) == []
  worse = ["worse_than_constant"]
  assert kinds([*losses[:3], 22.0], num_classes=10) == worse


def test_a_score_that_is_lost():
  losses = [2.3, 1.0, 1.2, 1.3]
  assert kinds(losses, [0.1, 0.9, 0.85, 0.3]) == ["score_lost"]
  assert kinds(losses, [0.1, 0.9, 0.8, 0.6]) == []
  assert kinds(losses, [0.1, 0.16, 0.1, 0.1]) == []
  auc = BY_NAME["auc"]
  assert kinds(losses, [0.5, 0.9, 0.8, 0.5], score=auc) == ["score_lost"]


def test_a_regression_is_judged_by_r2_over_all_examples():
  errors = [18.0, 12.0, 11.0, 10.0]
  losses = [2.0, 1.0, 0.9, 0.8]

  def of(r2, losses=losses):
    return kinds(losses, errors, score=RMSE, r2_pooled=r2)

  assert of([-1.1, 0.0, 0.1, 0.2]) == []
  assert of([-9.0, -5.0, -3.0, -1.5]) == []
  risen = [2.0, 1.0, 0.9, 1.4]
  assert of([-9.0, -5.0, -3.0, -4.5], risen) == ["worse_than_constant"]
  assert of([math.nan] * 4) == []
  # A run that starts from a trained model may lose a little.
  slightly = [0.01, 0.02, 0.03, 0.04]
  assert of([0.99, 0.98, 0.97, 0.96], slightly) == []
  assert of([0.99, 0.1, 0.1, 0.1], slightly) == ["above_initial"]


def test_predictions_that_are_constant():
  losses = [2.3, 2.2, 2.2]

  def of(values):
    return kinds(losses, **{"constant_prediction/class": values})

  assert of([3.0, math.nan, 3.0]) == ["constant_prediction"]
  assert of([3.0, 3.0, math.nan]) == []


def test_scores_that_never_change():
  def of(mean, number=5, slope=0.1):
    losses = 2.3 - slope * np.arange(number)
    table = evaluations(losses, [mean] * number)
    table["accuracy/std"] = 0.1
    return [d.kind for d in diagnosis.diagnose(table, ACCURACY)]

  assert of(0.1413) == ["unchanged"]
  assert of(0.1413, 4) == []
  assert of(0.1413, 3, 0) == ["unchanged"]
  assert of(0.1413, 2, 0) == []
  assert of(1.0) == []
  assert kinds([2.3] * 5, [0.1413] * 5) == []  # The spread changes.
