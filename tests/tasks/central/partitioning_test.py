import dataclasses
import functools
import itertools

import numpy as np
import pytest

from tasks import central, cuts, models, notices
from tasks.central import partitioning
from tests.refusals import refused, rejected
from tff_fair import declared


def _data(train, test=(), users=None):
  labels = np.array([*train, *test], np.int32)
  return central.CentralData(
    title="made-up data",
    source="made-up.npz",
    labels=labels,
    num_train=len(train),
    # The input is the position, which identifies the example.
    load_x=lambda positions: positions[:, np.newaxis].astype(np.float32),
    x_shape=(1,),
    class_names=("zero", "one", "two"),
    users=None if users is None else np.array(users),
  )


_TRAIN, _TEST = [0, 1, 2] * 20, [0, 1, 2] * 4


def _task(data, seed=0, **options):
  return central.build_task(
    "made_up",
    central.CutOptions(**options),
    data,
    functools.partial(models.mlp, (1,), (), 3, 0),
    seed=seed,
  )


def _positions(split):
  return [
    split.load(k)[0][:, 0].astype(int).tolist()
    for k in range(len(split.num_examples))
  ]


@pytest.mark.parametrize(
  "options",
  [
    {"partition": "shards"},
    {"partition": "dirichlet", "min_size": 5},
    {"partition": "dirichlet_clients"},
    {"partition": "iid"},
    {"partition": "power_law"},
    {"partition": "few_labels", "labels_per_client": 2},
    {"partition": "labels", "num_clients": 3},
    {"partition": "users", "num_clients": None},
  ],
  ids=lambda options: options["partition"],
)
class TestEveryPartition:
  data = _data(_TRAIN, _TEST, users=list("abcdef") * 12)

  @pytest.mark.parametrize(
    ("test_data", "train_pool", "test_pool"),
    [
      ("published", range(60), range(60, 72)),
      ("local", range(60), range(60)),
      ("pooled", range(72), range(72)),
    ],
  )
  def test_uses_what_it_may(self, options, test_data, train_pool, test_pool):
    task = _task(
      self.data, **{"num_clients": 6, **options, "test_data": test_data}
    )
    train, test = (
      sorted(itertools.chain(*_positions(half)))
      for half in (task.train, task.test)
    )
    for k in range(task.num_clients):
      x, y = task.train.load(k)
      np.testing.assert_array_equal(self.data.labels[x[:, 0].astype(int)], y)
    assert set(train) <= set(train_pool)
    assert set(test) <= set(test_pool)
    # Each example is used once, and none is left over.
    assert len({*train, *test}) == len(train) + len(test)
    assert {*train, *test} == {*train_pool, *test_pool}

  def test_unused(self, options):
    task = _task(
      self.data,
      **{"num_clients": 6, **options},
      test_data="pooled",
      unused_fraction=0.25,
    )
    used = task.train.num_examples.sum() + task.test.num_examples.sum()
    assert abs(used - 54) <= 6

  def test_seed(self, options):
    first, same, other = (
      _positions(_task(self.data, seed, **{"num_clients": 6, **options}).test)
      for seed in (1, 1, 2)
    )
    assert first == same != other


def test_clients_are_tested_as_they_train():
  task = _task(_data(_TRAIN, _TEST), num_clients=3, shards_per_client=1)
  for k in range(3):
    (label,) = set(task.train.load(k)[1])
    assert set(task.test.load(k)[1]) == {label}


def test_clients_without_test_examples_are_left_out_and_counted():
  # There is only one test example, which one of the clients gets.
  task = _task(_data(_TRAIN, [2]), num_clients=20, partition="iid")
  assert task.num_clients == 1
  assert "(19 without train or test examples left out)" in task.description
  (name,) = task.client_names
  assert name.startswith("client_")
  single = _task(
    _data([0, 0, 1], users=["a", "a", "b"]),
    partition="users",
    num_clients=None,
    test_data="local",
  )
  assert single.client_names == ("a",)


def test_no_client_is_left():
  with refused("made-up.npz", "3 clients at random"):
    _task(_data([0, 0, 0], [1, 2]), num_clients=3, partition="iid")


class TestLeastSize:
  data = _data([0, 1, 2] * 200, _TEST)

  def clients(self, **options):
    """Returns each training example's client, and the share that was moved."""
    config = central.CutOptions(num_clients=20, **options)
    split = partitioning.make_split(config, self.data, 3)
    found = np.full(600, -1)
    for k, part in enumerate(split.train):
      found[part] = k
    return found, split.share_moved

  @pytest.mark.filterwarnings("ignore::tasks.notices.Notice")
  @pytest.mark.parametrize("min_size", [1, 10, 30])
  def test_share_that_a_dirichlet_cut_moved(self, min_size):
    options = {"partition": "dirichlet", "concentration": 0.01}
    pure, nothing = self.clients(**options, min_size=0)
    found, share = self.clients(**options, min_size=min_size)
    assert nothing == 0
    assert share == np.mean(found != pure)
    # Each client that would be empty gets `min_size` examples of other clients.
    assert share >= min_size * (20 - len(np.unique(pure))) / 600 > 0

  def test_share_that_a_power_law_moved(self):
    weights = 1 / np.arange(1, 21) ** 2
    pure = 600 * weights / weights.sum()
    filled = 10 + 400 * weights / weights.sum()
    with pytest.warns(notices.Notice, match="min_size=1 "):
      _, share = self.clients(partition="power_law", exponent=2.0, min_size=10)
    expected = np.maximum(filled - pure, 0).sum() / 600
    np.testing.assert_allclose(share, expected, atol=20 / 600)

  def test_the_description_has_the_share_also_from_a_file(self, tmp_path):
    options = {
      "num_clients": 20,
      "partition": "dirichlet",
      "concentration": 0.01,
      "min_size": 20,
      "split_file": str(tmp_path / "split.npz"),
    }
    with pytest.warns(notices.Notice, match=r"\d %"):
      first = _task(self.data, **options)
    with pytest.warns(notices.Notice):
      again = _task(self.data, seed=9, **options)
    assert "% of the examples moved for min_size=20" in first.description
    assert first.description == again.description

  def test_a_cut_that_moves_nothing_says_nothing(self, recwarn):
    task = _task(
      self.data, num_clients=5, partition="dirichlet", concentration=100.0
    )
    assert "moved" not in task.description
    assert not recwarn.list


class TestSplitFile:
  data = _data(_TRAIN, _TEST)

  # A warning would say that an array is left out.
  @pytest.mark.filterwarnings("error")
  def test_keeps_the_split(self, tmp_path):
    path = tmp_path / "split.npz"
    options = {"num_clients": 6, "split_file": str(path)}
    first = _task(self.data, 1, **options)
    written = path.read_bytes()
    again = _task(self.data, 2, **options)
    assert _positions(first.train) == _positions(again.train)
    assert _positions(first.test) == _positions(again.test)
    assert first.description == again.description
    assert path.read_bytes() == written

  def test_of_a_process_that_is_faster(self, tmp_path, monkeypatch):
    save, path = cuts.save_split, str(tmp_path / "split.npz")

    def save_twice(*arguments):
      save(*arguments)
      save(*arguments)

    monkeypatch.setattr(cuts, "save_split", save_twice)
    task = _task(self.data, num_clients=6, split_file=path)
    assert task.num_clients == 6

  def test_of_other_options(self, tmp_path):
    path = str(tmp_path / "split.npz")
    _task(self.data, num_clients=6, split_file=path)
    for options in (
      {"num_clients": 5},
      {"num_clients": 6, "partition": "iid"},
      {"num_clients": 6, "test_data": "local"},
    ):
      with rejected("split_file", "6 clients by label shards (2 each"):
        _task(self.data, split_file=path, **options)

  def test_decides_where_no_option_says_how_to_cut(self, tmp_path):
    path = str(tmp_path / "split.npz")
    made = _task(self.data, num_clients=6, partition="iid", split_file=path)
    found = _task(self.data, split_file=path)
    assert _positions(found.train) == _positions(made.train)
    assert "clients as in split.npz (6 clients at random" in found.description

  @pytest.mark.parametrize("kind", [str, bytes, int])
  def test_of_a_users_own(self, tmp_path, kind):
    clients = np.array([7, 3, -1] * 24).astype("U" if kind is not int else int)
    if kind is not int:
      clients[clients == "-1"] = ""
    if kind is bytes:
      clients = np.char.encode(clients)
    halves = np.array(["train", "test", "", "train"] * 18)
    path = tmp_path / "mine.npz"
    np.savez(path, client=clients, split=halves)
    task = _task(self.data, split_file=str(path))
    assert sorted(task.client_names) == ["3", "7"]
    for k, name in enumerate(task.client_names):
      for half, word in ((task.train, "train"), (task.test, "test")):
        expected = np.flatnonzero(
          (np.arange(72) % 3 == int(name == "3")) & (halves == word)
        )
        assert _positions(half)[k] == expected.tolist()
    assert "2 clients as in mine.npz" in task.description

  @pytest.mark.parametrize(
    ("test_data", "count"), [("published", 60), ("local", 60), ("pooled", 72)]
  )
  def test_of_a_users_own_without_halves(self, tmp_path, test_data, count):
    path = tmp_path / "mine.npz"
    np.savez(path, client=np.arange(count) % 4)
    options = {"split_file": str(path), "test_data": test_data}
    task = _task(self.data, **options)
    assert task.client_names == ("0", "1", "2", "3")
    for k in range(4):
      train, test = _positions(task.train)[k], _positions(task.test)[k]
      assert {p % 4 for p in train} == {k}
      assert (min(test) >= 60) if test_data == "published" else True
      assert not {*train} & {*test}
    np.savez(path, client=np.arange(count + 1) % 4)
    with rejected("split_file", "mine.npz", count + 1):
      _task(self.data, **options)

  @pytest.mark.parametrize(
    ("arrays", "facts"),
    [
      ({"client": np.ones(72)}, ["float64"]),
      ({"client": np.ones([72, 1], int)}, ["int64[72, 1]"]),
      ({"split": ["train"] * 71}, [71, 72]),
      ({"split": ["train", "dev"] * 36}, ["example 1 ", "dev"]),
    ],
  )
  def test_of_a_users_own_that_cannot_be_used(self, tmp_path, arrays, facts):
    path = tmp_path / "mine.npz"
    np.savez(path, **{"client": np.ones(72, int), **arrays})
    with rejected("split_file", *facts):
      _task(self.data, split_file=str(path))

  def test_of_a_users_own_without_test_data(self, tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, client=np.ones(60, int))
    with rejected("test_data", "local or pooled", value="published"):
      _task(_data(_TRAIN), split_file=str(path))

  def test_of_a_users_own_that_leaves_no_client(self, tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, client=np.ones(72, int), split=np.array(["train"] * 72))
    with refused("made-up.npz", "1 clients as in mine.npz"):
      _task(self.data, split_file=str(path))

  def test_of_other_data(self, tmp_path):
    path = str(tmp_path / "split.npz")
    _task(self.data, num_clients=6, split_file=path)
    with rejected("split_file", "other data"):
      _task(_data(_TRAIN[::-1], _TEST), num_clients=6, split_file=path)

  def test_directory_is_no_file(self, tmp_path):
    with rejected("split_file", tmp_path):
      _task(self.data, num_clients=6, split_file=str(tmp_path))


@pytest.mark.parametrize(
  "options",
  [
    {"num_clients": None},
    {"partition": "users"},
    {"num_clients": 100, "partition": "labels"},
    {"num_clients": 61, "partition": "iid"},
    {"labels_per_client": 4, "partition": "few_labels", "num_clients": 5},
    {"shards_per_client": 11, "num_clients": 6},
    {"unused_fraction": 0.5},
  ],
)
def test_rejects(options):
  with pytest.raises(declared.FieldError) as error:
    _task(_data(_TRAIN, _TEST), **options)
  wrong = next(iter(options))
  assert (error.value.field, error.value.value) == (wrong, options[wrong])


def test_more_users_than_there_are():
  with rejected("num_clients", value=3):
    _task(
      _data([0, 1, 2, 0], [0], users=list("aabbc")),
      partition="users",
      num_clients=3,
    )


def test_selected_classes_are_numbered_anew():
  whole = _data(_TRAIN, _TEST)
  whole = dataclasses.replace(whole, numbers=whole.labels.astype(np.float64))
  data = central.select_classes(whole, ("two", "zero"))
  assert data.num_train == 40
  assert data.numbers.tolist() == [0.0, 2.0] * 24
  split = partitioning.make_split(
    central.CutOptions(partition="labels", num_clients=None), data, 0
  )
  assert split.client_names == ("two", "zero")
  for k, original in enumerate([2, 0]):
    positions = data.load_x(split.test[k])[:, 0].astype(int)
    assert len(positions) == 4
    assert {[*_TRAIN, *_TEST][p] for p in positions} == {original}
    assert set(data.labels[split.train[k]]) == {k}
