import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from tasks import cuts

_LABELS = np.random.Generator(np.random.PCG64(7)).integers(0, 10, 1000)

_CUTS: dict[str, Callable[[cuts.Seed], list[np.ndarray]]] = {
  "iid": lambda seed: cuts.iid(1000, 30, seed),
  "label_shards": lambda seed: cuts.label_shards(_LABELS, 30, 2, seed),
  "dirichlet": lambda seed: cuts.dirichlet(_LABELS, 30, 0.5, seed, min_size=10),
  "dirichlet, skewed": lambda seed: cuts.dirichlet(_LABELS, 30, 1e-6, seed),
  "dirichlet_per_client": lambda seed: cuts.dirichlet_per_client(
    _LABELS, 30, 0.5, seed
  ),
  "dirichlet_per_client, skewed": lambda seed: cuts.dirichlet_per_client(
    _LABELS, 30, 1e-6, seed
  ),
  "power_law": lambda seed: cuts.power_law(1000, 30, 1.0, seed),
  "few_labels": lambda seed: cuts.few_labels(_LABELS, 30, 5, seed),
  "in_proportion": lambda seed: cuts.in_proportion(
    _CUTS["label_shards"](0), _LABELS, _LABELS, seed
  ),
  "train_test_split": lambda seed: list(
    cuts.train_test_split(np.arange(1000), 0.2, seed)
  ),
}


def _assert_cover(parts, num_examples):
  np.testing.assert_array_equal(
    np.sort(np.concatenate(parts)), np.arange(num_examples)
  )


def _same(parts, others):
  return all(map(np.array_equal, parts, others))


@pytest.mark.parametrize("cut", _CUTS.values(), ids=_CUTS)
class TestEveryCut:
  @pytest.mark.parametrize("seed", [0, 1, 2**40, (3, 4)])
  def test_covers_every_example_exactly_once(self, cut, seed):
    _assert_cover(cut(seed), 1000)

  def test_gives_positions(self, cut):
    assert all(part.dtype == np.int64 for part in cut(0))

  def test_depends_on_its_seed_alone(self, cut):
    np.random.seed(1)
    first = cut(5)
    np.random.seed(2)
    assert _same(first, cut(5))
    assert not _same(first, cut(6))
    assert not _same(cut((5, 0)), cut((5, 1)))


@pytest.mark.parametrize(
  ("name", "digest"),
  [
    ("iid", "a0d6d7e33085a8d0"),
    ("label_shards", "647a389b1066e7bd"),
    ("dirichlet", "a242df96065c03b0"),
    ("train_test_split", "bb93e8a4af6e8226"),
    ("dirichlet_per_client", "64930ff4a01b5f11"),
    ("power_law", "ced46468ebe80392"),
    ("few_labels", "8aa5e0d5f7fa2383"),
    ("in_proportion", "3701ef3c6f48526c"),
  ],
)
def test_the_cut_does_not_change(name, digest):
  parts = _CUTS[name](0)
  joined = np.concatenate([[len(part), *part] for part in parts])
  found = hashlib.sha256(joined.astype("<i8").tobytes()).hexdigest()
  assert found[:16] == digest
