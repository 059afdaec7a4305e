import numpy as np

from tests.experiments.comparing.made_results import clients
from tff_fair.experiments import seeds
from tff_fair.experiments.comparing import client_results


def of_seed(seed):
  return seeds.Seeds(seed, seed, seed)


def test_pairs_have_the_seeds_and_clients_that_all_evaluations_have():
  method = {
    of_seed(2): [clients([0.3, 0.3], ids=[7, 8])],
    of_seed(0): [
      clients([0.9, 0.5, 0.7], ids=[1, 2, 5]),
      clients([0.1], ids=[5]),
    ],
    of_seed(1): [clients([0.1])],
  }
  baseline = {
    of_seed(2): [clients([0.2, 0.1], ids=[8, 9])],
    of_seed(0): [clients([0.4, 0.5], ids=[2, 5])],
    of_seed(3): [clients([0.1])],
  }
  first, second = client_results.pairs(method, baseline)
  assert (first.ids.tolist(), second.ids.tolist()) == ([5], [8])
  assert [e.score.tolist() for e in first.method] == [[0.7], [0.1]]
  assert [e.score.tolist() for e in second.baseline] == [[0.2]]
  values = first.values(lambda e, w: (w * e.score).sum(-1), np.ones((3, 1)))
  np.testing.assert_allclose(values, [[0.4] * 3, [0.5] * 3])


def test_seeds_without_any_of_some_clients_are_left_out():
  method = {
    of_seed(0): [clients([0.1, 0.2])],
    of_seed(1): [clients([0.3], ids=[9])],
  }
  found = client_results.only(method, [1])
  assert [e.score.tolist() for e in found[of_seed(0)]] == [[0.2]]
  assert found.keys() == {of_seed(0)}
  # Results with all of them stay the same object, which measures remember.
  first = of_seed(0)
  assert client_results.only(method, [0, 1])[first][0] is method[first][0]
