import warnings

import numpy as np
import pytest
from sklearn import linear_model

import tasks
from tests.refusals import rejected
from tests.tasks import several_clients


def _whole(task, client_id):
  return several_clients.arrays(task.train, task.test, clients=[client_id])


def _sizes(task):
  return task.train.num_examples + task.test.num_examples


def _accuracy_on_other_clients(task):
  """Fits a linear model to even clients; returns its accuracy on odd ones."""
  # Takes the same number of examples of each client, so that none dominates.
  even, odd = (
    [
      np.concatenate([_whole(task, k)[part][:50] for k in clients])
      for part in (0, 1)
    ]
    for clients in (
      range(0, task.num_clients, 2),
      range(1, task.num_clients, 2),
    )
  )

  model = linear_model.LogisticRegression(max_iter=100)
  with warnings.catch_warnings(action="ignore"):  # The model need not converge.
    return model.fit(*even).score(*odd)


class TestFedProx:
  def test_population(self):
    task = tasks.load("synthetic")
    assert task.num_clients == 30
    assert task.description.startswith("Synthetic(1, 1) over 30 clients")
    assert _sizes(task).min() >= 50
    # A power law: the largest clients have most of the examples.
    sizes = np.sort(_sizes(task))
    assert sizes[-3:].sum() > sizes[:15].sum()
    x, y = _whole(task, 4)
    assert (x.shape, x.dtype) == ((_sizes(task)[4], 60), np.float32)
    assert y.dtype == np.int32

  def test_features_have_the_variances_of_the_paper(self):
    task = tasks.load("synthetic", seed=1)
    largest = int(np.argmax(_sizes(task)))
    x, _ = _whole(task, largest)
    expected = np.arange(1, 61) ** -1.2
    np.testing.assert_allclose(x.var(axis=0), expected, rtol=0.3)

  def test_beta_moves_the_inputs_and_alpha_the_models(self):
    def spread(**options):
      task = tasks.load("synthetic", num_clients=100, **options)
      means = [_whole(task, k)[0].mean() for k in range(100)]
      return np.std(means)

    assert spread(beta=0.0) < 0.3
    assert 3.0 < spread(beta=4.0) < 5.0

  def test_iid_clients_share_one_model(self):
    task = tasks.load("synthetic", iid=True)
    assert _accuracy_on_other_clients(task) > 0.65
    different = tasks.load("synthetic", alpha=0.0, beta=0.0)
    assert _accuracy_on_other_clients(different) < 0.3


class TestLeafs:
  def test_adafedadams_setup(self):
    task = tasks.load("synthetic", generator="leaf", num_clients=100)
    assert task.num_clients == 100
    sizes = _sizes(task)
    assert sizes.min() >= 5
    assert sizes.max() <= 1000
    totals = [
      _sizes(
        tasks.load("synthetic", generator="leaf", num_clients=100, seed=seed)
      ).sum()
      for seed in range(20)
    ]
    assert 9_000 < np.mean(totals) < 12_000
    np.testing.assert_allclose(
      task.test.num_examples, np.clip(sizes * 0.2, 1, None), atol=0.5
    )

  def test_clients_are_of_one_cluster(self):
    task = tasks.load("synthetic", generator="leaf", num_clients=100)
    assert _accuracy_on_other_clients(task) > 0.6


@pytest.mark.parametrize("generator", ["fedprox", "leaf"])
def test_seed_decides_all(generator):
  options = {"generator": generator, "num_clients": 5}
  first, same, other = (
    tasks.load("synthetic", seed=seed, **options) for seed in (7, 7, 8)
  )
  np.testing.assert_array_equal(_sizes(first), _sizes(same))
  assert not np.array_equal(_sizes(first), _sizes(other))
  for client_id in (4, 0):
    np.testing.assert_equal(
      first.train.load(client_id), same.train.load(client_id)
    )
  assert first.train.load(0)[0][0, 0] != other.train.load(0)[0][0, 0]
  assert first.train.load(0)[0][0, 0] != first.train.load(1)[0][0, 0]


def test_leaf_has_no_iid_version():
  with rejected("iid", "false"):
    tasks.load("synthetic", generator="leaf", iid=True)
