"""Tests of whole conversions, from a request to a file."""

import os

import pytest

from tasks.conversions.conversion import plan
from tasks.conversions.request import ConversionRequest
from tests.refusals import refused, rejected
from tests.tasks import client_files, image_data, tabular_data

_PLAY = "".join(
  f"{speaker}:\n{speaker} {number}\n\n"
  for number in range(1, 6)
  for speaker in "AB"
)


@pytest.fixture
def request_of(tmp_path):
  """Returns a function that builds requests for a play, digits or posts."""
  (tmp_path / "play.txt").write_text(_PLAY)
  image_data.write_digits(tmp_path / "digits", writers=False)
  tabular_data.write_posts(tmp_path)
  source = {
    "plays": "play.txt",
    "mnist": "digits",
    "stack_exchange": "Posts.xml",
  }

  def request(source_format, **settings):
    settings.setdefault("sources", [tmp_path / source[source_format]])
    return ConversionRequest(
      source_format=source_format, data_dir=tmp_path / "data", **settings
    )

  return request


def test_a_plan_writes_nothing(request_of, tmp_path):
  before = sorted(tmp_path.rglob("*"))
  conversion = plan(request_of("plays"))
  assert conversion.path == tmp_path / "data" / "shakespeare.sqlite"
  assert conversion.total == len(_PLAY)
  assert sorted(tmp_path.rglob("*")) == before


def test_the_last_share_of_each_client_is_its_test_data(request_of):
  amounts = []
  settings = {"test_fraction": 0.4, "output_name": "mine.sqlite"}
  conversion = plan(request_of("plays", split="order", **settings))
  assert conversion.path.name == "mine.sqlite"
  assert conversion.write(amounts.append) == (0, 0)
  assert sum(amounts) == conversion.total
  found = {
    split: {
      client: [features["snippets"][0].decode() for features in examples]
      for client, examples in clients.items()
    }
    for split, clients in client_files.read(conversion.path).items()
  }
  assert found == {
    "train": {name: [f"{name} {n}" for n in (1, 2, 3)] for name in "AB"},
    "test": {name: [f"{name} {n}" for n in (4, 5)] for name in "AB"},
  }


def test_the_seed_chooses_the_random_share(request_of):
  found = []
  for seed in (0, 0, 1):
    conversion = plan(request_of("plays", seed=seed, overwrite=True))
    assert conversion.split == "random"
    conversion.write()
    found.append(str(client_files.read(conversion.path)))
  assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("partition", ["dirichlet", "iid", "shards"])
def test_clients_are_made_up(request_of, partition):
  conversion = plan(request_of("mnist", num_clients=3, partition=partition))
  assert conversion.unit == "example"
  conversion.write()
  halves = client_files.read(conversion.path)
  sizes = {half: sum(map(len, of.values())) for half, of in halves.items()}
  assert sizes == {"digits_only_train": 30, "digits_only_test": 10}
  names = {client for clients in halves.values() for client in clients}
  assert names == {"client_0", "client_1", "client_2"}


def test_posts_have_tables_of_words_and_tags(request_of, tmp_path):
  conversion = plan(request_of("stack_exchange"))
  conversion.write()
  conversion.write_tables()
  assert sorted(os.listdir(tmp_path / "data" / "datasets")) == [
    "stackoverflow.tag_count",
    "stackoverflow.word_count",
  ]
  conversion.path.unlink()
  with refused("stackoverflow.word_count", "exists already"):
    plan(request_of("stack_exchange"))
  plan(request_of("stack_exchange", overwrite=True))


@pytest.mark.parametrize(
  ("source_format", "settings", "field", "problem"),
  [
    ("plays", {"sources": ["nowhere"]}, "sources", "there is no such file"),
    ("plays", {"sources": ["/"]}, "sources", "expected a file"),
    ("plays", {"split": "date"}, "split", "expected random or order"),
    ("mnist", {}, "num_clients", "the source does not define clients"),
    ("mnist", {"num_clients": 41}, "partition", "num_clients"),
    ("mnist", {"sources": [__file__]}, "sources", "expected a folder"),
  ],
)
def test_a_request_that_does_not_suit_the_source(
  request_of, source_format, settings, field, problem
):
  with rejected(field, problem):
    plan(request_of(source_format, **settings))
