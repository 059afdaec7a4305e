"""Posts of Stack Overflow by user: what both of its tasks read.

TFF's native data set (The TensorFlow Federated Authors, 2019): one example is a
sentence with its post's title and tags; 342,477 users have training examples.
Its file is read by `sqlite_file`, not by `tff.simulation.datasets`, whose
`ClientData` lists all names first: here a population is two arrays and a text,
and a user's examples are read when the user is sampled.
"""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow_federated as tff

from tasks import (
  client_names,
  local_split,
  native_data,
  options,
  partition,
  sqlite_file,
)
from tasks.data_error import DataError
from tasks.task import Split

_FILENAME = "stackoverflow.sqlite"


@dataclasses.dataclass(frozen=True, kw_only=True)
class StackOverflowOptions(options.TaskOptions):
  """Options of both tasks.

  Attributes:
    num_clients: Size of a random subset of the users; None takes all.
    min_examples: Users with fewer training examples are left out.
    max_examples: Only a user's first so many training, and so many test
      examples are taken; None takes all.
    test_fraction: None takes the data's own test examples, those of 2018 and
      later. A number cuts each user's training examples, or the first
      `max_examples` of them, at random instead.
    vocab_size: The most frequent words, so many, are known.
    synthetic: Instead of the real data, the three made-up users that TFF has
      for tests; no file is needed.
  """

  num_clients: int | None = None
  min_examples: int = 1
  max_examples: int | None = None
  test_fraction: float | None = None
  vocab_size: int = 10_000
  synthetic: bool = False

  def __post_init__(self) -> None:
    super().__post_init__()
    for name in ("min_examples", "vocab_size"):
      self.require(name, getattr(self, name) >= 1, "at least 1")
    least_cut = 1 if self.test_fraction is None else 2
    for name, least in (("num_clients", 1), ("max_examples", least_cut)):
      value = getattr(self, name)
      self.require(
        name, value is None or value >= least, f"at least {least}, or none"
      )
    self.require(
      "test_fraction",
      self.test_fraction is None or 0 < self.test_fraction < 1,
      "between 0 and 1, or none",
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Users:
  """The users of a task, by client id.

  Attributes:
    names: What the data calls them.
    train: Their training data.
    test: Their test data.
    description: Which data, how many users and examples.
  """

  names: Sequence[str]
  train: Split
  test: Split
  description: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Source:
  """Where examples come from.

  Attributes:
    name: What it is called.
    population: Maps names of splits to the names of all users and their numbers
      of examples, int64[users, splits].
    read: Maps a split to a function that reads its users.
  """

  name: str
  population: Callable[
    [Sequence[str]], tuple[client_names.ClientNames, np.ndarray]
  ]
  read: Callable[[str], native_data.Read]


def load_users(
  config: StackOverflowOptions,
  *,
  data_dir: pathlib.Path | None,
  seed: int,
  features: Sequence[str],
  to_arrays: native_data.ToArrays,
) -> Users:
  """Finds the users; reads none of their examples.

  Args:
    config: Options of the task.
    data_dir: Directory of `stackoverflow.sqlite`, which TFF's loader downloads
      if it is not there; None means TFF's own cache, ~/.tff.
    seed: Seed of the choice of users and of the cut by `test_fraction`.
    features: Names of the texts of an example that `to_arrays` wants.
    to_arrays: Maps a user's texts, object[n] of bytes by feature, to `(x, y)`.

  Returns:
    The users in ascending order of their names.

  Raises:
    DataError: If the data can be neither found nor fetched, or is unusable.
    ValueError: If there are fewer users than asked for.
  """
  find_source = _synthetic if config.synthetic else _file
  source = find_source(data_dir, features, config.max_examples)
  halves = ["train", "test"] if config.test_fraction is None else ["train"]
  everyone, counts = source.population(halves)
  eligible = _eligible(config, counts)
  if not eligible.size:
    raise DataError(
      f"{source.name}: none of the {len(everyone):,} users has "
      f"{_wanted(config)}."
    )
  chosen = _choose(eligible, config.num_clients, seed)
  names, counts = everyone.take(chosen), counts[chosen]
  if config.max_examples is not None:
    counts = np.minimum(counts, config.max_examples)

  splits = [
    native_data.split_of(
      source.read(half),
      names,
      np.ascontiguousarray(counts[:, column]),
      to_arrays,
      source=f"{source.name}, split {half}",
    )
    for column, half in enumerate(halves)
  ]
  train, test = (
    splits
    if config.test_fraction is None
    else local_split.local_split(splits[0], config.test_fraction, seed)
  )
  data = "synthetic test posts" if config.synthetic else "Stack Overflow"
  left_out = len(everyone) - len(eligible)
  of_all = "" if len(names) == len(eligible) else f" of {len(eligible):,}"
  return Users(
    names=names,
    train=train,
    test=test,
    description=(
      f"{data}: {len(names):,}{of_all} users "
      f"({left_out:,} without {_wanted(config)} left out), "
      f"{train.num_examples.sum():,} train and "
      f"{test.num_examples.sum():,} test sentences"
    ),
  )


def _eligible(config: StackOverflowOptions, counts: np.ndarray) -> np.ndarray:
  least = [config.min_examples, 1]
  if config.test_fraction is not None:
    least = [max(config.min_examples, 2)]
  return np.flatnonzero((counts >= least).all(axis=1))


def _wanted(config: StackOverflowOptions) -> str:
  if config.test_fraction is not None:
    return f"at least {max(config.min_examples, 2):,} train sentences"
  if config.min_examples == 1:
    return "train and test sentences"
  return f"at least {config.min_examples:,} train and any test sentences"


def _choose(
  eligible: np.ndarray, num_clients: int | None, seed: int
) -> np.ndarray:
  if num_clients is None:
    return eligible
  if num_clients > len(eligible):
    raise ValueError(
      f"num_clients must be at most {len(eligible)}, the number of users in "
      f"the data; found {num_clients}."
    )
  drawn = partition.generator(seed).choice(
    len(eligible), num_clients, replace=False
  )
  return eligible[np.sort(drawn)]


def _file(
  data_dir: pathlib.Path | None,
  features: Sequence[str],
  max_examples: int | None,
) -> _Source:
  path = sqlite_file.find(
    _FILENAME,
    data_dir,
    lambda directory: tff.simulation.datasets.stackoverflow.load_data(
      cache_dir=directory
    ),
  )
  return _Source(
    name=str(path),
    population=functools.partial(sqlite_file.population, path),
    read=lambda split: native_data.sqlite_reader(
      path, split, features, limit=max_examples
    ),
  )


def _synthetic(
  data_dir: pathlib.Path | None,
  features: Sequence[str],
  max_examples: int | None,
) -> _Source:
  del data_dir
  client_data = tff.simulation.datasets.stackoverflow.get_synthetic()

  def read(name: str) -> native_data.Examples:
    examples = client_data.create_tf_dataset_for_client(name)
    first = list(itertools.islice(examples.as_numpy_iterator(), max_examples))
    return {
      feature: np.array([example[feature] for example in first], object)
      for feature in features
    }

  def population(
    splits: Sequence[str],
  ) -> tuple[client_names.ClientNames, np.ndarray]:
    names = client_data.client_ids
    counts = [
      len(list(client_data.create_tf_dataset_for_client(name)))
      for name in names
    ]
    return client_names.ClientNames(names), np.tile(
      np.array(counts, np.int64)[:, np.newaxis], len(splits)
    )

  return _Source(
    name="tff.simulation.datasets.stackoverflow.get_synthetic()",
    population=population,
    read=lambda _: read,
  )


def synthetic_words(size: int) -> list[bytes]:
  """Returns the most frequent words of the made-up users."""
  counts = tff.simulation.datasets.stackoverflow.get_synthetic_word_counts()
  return [word.encode() for word in counts][:size]


def synthetic_tags(size: int) -> list[bytes]:
  """Returns the most frequent tags of the made-up users."""
  counts = tff.simulation.datasets.stackoverflow.get_synthetic_tag_counts()
  return [tag.encode() for tag in counts][:size]
