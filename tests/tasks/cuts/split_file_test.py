import numpy as np
import pytest

from tasks import cuts
from tests.refusals import refused

_LABELS = np.array([0, 1, 2, 0, 1, 2, 0], np.int32)


def _split():
  return cuts.ClientSplit(
    client_names=("é", "b"),
    train=(np.array([6, 0]), np.array([2])),
    test=(np.array([1]), np.array([5, 3])),
    description="by hand",
  )


@pytest.fixture
def path(tmp_path):
  path = tmp_path / "my splits" / "split.npz"
  cuts.save_split(path, _split(), _LABELS)
  return path


def _rewrite(path, **changes):
  with np.load(path) as arrays:
    contents = {**arrays, **changes}
  np.savez(path, **{k: v for k, v in contents.items() if v is not None})


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, ">i4"])
def test_comes_back_as_it_was(path, dtype):
  found = cuts.load_split(path, _LABELS.astype(dtype))
  expected = _split()
  assert found.client_names == expected.client_names
  assert found.description == expected.description
  for half in ("train", "test"):
    for part, same in zip(
      getattr(found, half), getattr(expected, half), strict=True
    ):
      np.testing.assert_array_equal(part, same)
      assert part.dtype == np.int64


def test_same_split_same_bytes(path, tmp_path):
  cuts.save_split(tmp_path / "again.npz", _split(), _LABELS)
  assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_overwrites_nothing(path):
  before = path.read_bytes()
  with refused("split.npz", "exists already"):
    cuts.save_split(path, _split(), _LABELS)
  assert path.read_bytes() == before
  assert list(path.parent.iterdir()) == [path]


def test_names_that_are_not_utf_8_stay_different(path):
  names = [name.encode("latin-1") for name in ("Müller", "Möller")]
  np.savez(path, client=np.array(names))
  found = cuts.load_clients(path)
  assert found is not None
  assert found.clients[0] != found.clients[1]


def test_rejects_other_data(path):
  with refused(path, 7, 6):
    cuts.load_split(path, _LABELS[:6])
  with refused(path, "fingerprint"):
    cuts.load_split(path, _LABELS[::-1])


@pytest.mark.parametrize(
  ("changes", "facts"),
  [
    ({"test_positions": None}, ["test_positions"]),
    ({"test_sizes": np.array([1, 1])}, ["test_sizes", "3 test_positions"]),
    ({"test_sizes": np.array([-1, 4])}, ["test_sizes"]),
    ({"test_sizes": np.array([1.0, 2.0])}, ["float64[2]"]),
    ({"test_positions": np.array([1, 5, 7])}, ["0 to 7", "0 to 6"]),
    ({"test_positions": np.array([1, 5, -1])}, ["-1 to 6"]),
    ({"test_positions": np.array([1, 5, 6])}, ["example 6 "]),
    ({"client_names": np.array(["a"])}, ["1 client names", "2 train parts"]),
  ],
)
def test_rejects_wrong_contents(path, changes, facts):
  _rewrite(path, **changes)
  with refused("split.npz", *facts):
    cuts.load_split(path, _LABELS)
