"""Tests of gaps between groups over weighted clients."""

import numpy as np
import pandas as pd
import pytest

from tff_fair.experiments import RunError
from tff_fair.experiments.analysis import group_measures
from tff_fair.experiments.spec.scores import ACCURACY
from tff_fair.metrics import group_gaps
from tff_fair.metrics.group_gaps import GroupCounts

pytestmark = pytest.mark.pure

CLIENTS, GROUPS = 5, 3


def _counts(seed, least=30):
  """Returns each client's counts, from random labels and predictions."""
  random = np.random.default_rng(seed)
  found = []
  for _ in range(CLIENTS):
    labels, predicted = random.integers(0, 2, (2, GROUPS * least))
    groups = np.repeat(np.arange(GROUPS), least)
    found.append(group_gaps.count(labels, predicted, groups, GROUPS, 1))
  return found


def _clients(counts):
  table = pd.DataFrame(
    {
      "client_id": np.arange(CLIENTS),
      "accuracy": 0.5,
      "loss": 1.0,
      "num_examples": 10,
      **group_measures.columns(counts),
    }
  )
  return group_measures.clients_of(table, ACCURACY)


@pytest.mark.parametrize("name", group_measures.NAMES)
def test_weighted_clients_count_as_often_as_they_weigh(name):
  counts = _counts(0)
  weights = np.array([[1.0] * CLIENTS, [0, 2, 1, 0, 2]])

  statistic = group_measures.find(name, ACCURACY).statistic
  assert statistic is not None
  found = statistic(_clients(counts), weights)

  for value, often in zip(found, weights.astype(int), strict=True):
    drawn = [c for c, n in zip(counts, often, strict=True) for _ in range(n)]
    total = GroupCounts(*(np.sum(v, 0) for v in zip(*drawn, strict=True)))
    assert value == pytest.approx(group_gaps.group_gap(name, total).value)


def test_too_few_examples_are_an_error():
  clients = _clients(_counts(1, least=3))
  statistic = group_measures.find("accuracy_parity", ACCURACY).statistic
  assert statistic is not None

  with pytest.raises(RunError, match="accuracy_parity"):
    statistic(clients, np.ones(CLIENTS))
