import dataclasses
import itertools

import numpy as np
import pytest

from tasks.conversions import client_data_writer
from tasks.conversions.client_data_writer import Example, SplitSettings
from tasks.formats import example_proto
from tests.refusals import refused


def _example(client, number, split=None):
  return Example(
    client, example_proto.serialize({"n": np.array([number])}), split
  )


def _examples(**sizes):
  # Clients take turns, so that their examples are not contiguous.
  for number in range(max(sizes.values())):
    for client, size in sizes.items():
      if number < size:
        yield _example(client, number)


def _numbers(found, split, client):
  return [int(features["n"][0]) for features in found[split][client]]


SETTINGS = SplitSettings(choose_test=client_data_writer.last_share(0.2))


class TestWrite:
  def test_groups_by_client_and_keeps_the_order(self, convert):
    found = convert(_examples(b=10, a=5))
    assert _numbers(found, "train", "b") == list(range(8))
    assert _numbers(found, "test", "b") == [8, 9]
    assert _numbers(found, "train", "a") == [0, 1, 2, 3]
    assert _numbers(found, "test", "a") == [4]

  def test_examples_with_a_split_stay_there(self, convert):
    found = convert(
      [*_examples(a=5), _example("a", 7, "heldout"), _example("b", 8, "test")]
    )
    assert _numbers(found, "heldout", "a") == [7]
    assert _numbers(found, "test", "a") == [4]
    assert _numbers(found, "test", "b") == [8]
    assert "b" not in found["train"]

  def test_quotes_in_names_do_not_break_the_query_of_tff(self, convert):
    found = convert([_example("o'neil", n) for n in range(2)])
    assert found["train"].keys() == {"o’neil"}

  def test_names_that_differ_only_in_the_apostrophe(self, tmp_path):
    path = tmp_path / "data.sqlite"
    names = ["o'neil's", "o’neil’s", "o’neil's"]
    for pair in itertools.permutations(names, 2):
      with refused(path, *map(repr, pair)):
        client_data_writer.write(path, [_example(n, 0) for n in pair], SETTINGS)
    assert list(tmp_path.iterdir()) == []

  @pytest.mark.parametrize(
    ("min_examples", "dropped"), [(5, (2, 5)), (1, (1, 1))]
  )
  def test_small_clients_are_dropped(self, tmp_path, min_examples, dropped):
    # A client with one example cannot be divided into train and test.
    settings = dataclasses.replace(SETTINGS, min_examples=min_examples)
    examples = _examples(a=5, b=4, c=1)
    path = tmp_path / "data.sqlite"
    assert client_data_writer.write(path, examples, settings) == dropped

  @pytest.mark.parametrize(
    ("examples", "facts"),
    [([], ["no examples"]), (_examples(a=1), ["1 clients", "1 ex"])],
  )
  def test_no_client_is_left(self, tmp_path, examples, facts):
    path = tmp_path / "new" / "data.sqlite"
    with refused(path, *facts):
      client_data_writer.write(path, examples, SETTINGS)
    assert list(tmp_path.iterdir()) == []

  def test_a_required_split_is_missing(self, tmp_path):
    settings = dataclasses.replace(SETTINGS, required=("train", "heldout"))
    with refused("data.sqlite", "heldout", "in test, train"):
      client_data_writer.write(
        tmp_path / "data.sqlite", _examples(a=5), settings
      )
    assert list(tmp_path.iterdir()) == []

  def test_same_input_gives_the_same_bytes(self, tmp_path):
    settings = SplitSettings(
      choose_test=client_data_writer.random_share(0.3, 5)
    )
    for name in ("one", "two"):
      client_data_writer.write(tmp_path / name, _examples(a=50, b=20), settings)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


class TestRandomShare:
  def test_a_client_does_not_depend_on_others(self, convert, tmp_path):
    settings = {"choose_test": client_data_writer.random_share(0.3, 1)}
    alone = convert(_examples(b=30), path=tmp_path / "1.sqlite", **settings)
    both = convert(_examples(a=9, b=30), path=tmp_path / "2.sqlite", **settings)
    assert _numbers(alone, "test", "b") == _numbers(both, "test", "b")

  def test_sizes_and_seeds(self):
    chosen = {
      tuple(client_data_writer.random_share(0.3, seed)(client, 30))
      for seed in (0, 1)
      for client in ("a", "b")
    }
    assert len(chosen) == 4
    assert {sum(is_test) for is_test in chosen} == {9}

  def test_the_same_everywhere(self):
    # PCG64 and SHA-256 give these numbers on every machine.
    is_test = client_data_writer.random_share(0.25, 7)("writer", 8)
    assert np.flatnonzero(is_test).tolist() == [4, 7]

  @pytest.mark.parametrize(
    "choice",
    [
      client_data_writer.random_share(0.01, 0),
      client_data_writer.last_share(0.01),
    ],
  )
  def test_both_halves_get_one(self, choice):
    assert sum(choice("a", 2)) == 1
