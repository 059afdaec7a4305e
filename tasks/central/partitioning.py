"""Divides a centrally stored data set among clients, as the options say."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from tasks import cuts, notices, options
from tasks.data_error import DataError
from tff_fair import declared
from tff_fair.declared import FieldError

Partition = Literal[
  "shards",
  "dirichlet",
  "iid",
  "dirichlet_clients",
  "few_labels",
  "power_law",
  "users",
  "labels",
]
TestData = Literal["published", "local", "pooled"]
_NATURAL = ("users", "labels")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CutOptions(options.TaskOptions):
  """How to divide data among clients, and clients' data into train and test."""

  num_clients: int | None = declared.positive_integer(
    100,
    'Number of clients. With partition "users", the number of users chosen at '
    'random; none means all. With "labels" there is one client for each label.',
  )
  partition: Partition = declared.value(
    "shards",
    'How examples are divided among the clients. "shards": each client gets '
    'shards of the examples sorted by label, as in McMahan et al. "dirichlet": '
    "each label spreads over the clients in Dirichlet proportions. "
    '"dirichlet_clients": clients of equal size have Dirichlet proportions of '
    'labels. "few_labels": each client has some labels, chosen at random. '
    '"power_law": sizes follow a power law, labels are random. "iid": equal '
    'sizes, at random. "users": one client for each person who made examples, '
    'if the data names them. "labels": one client for each label.',
  )
  shards_per_client: int = declared.positive_integer(
    2,
    'With partition "shards": number of shards per client, roughly its number '
    "of labels.",
  )
  labels_per_client: int = declared.positive_integer(
    5, 'With partition "few_labels": number of labels per client.'
  )
  concentration: float = declared.value(
    0.5,
    'With partition "dirichlet" or "dirichlet_clients": parameter of the '
    "Dirichlet distribution; the smaller, the more the clients differ.",
    minimum=cuts.CONCENTRATION_RANGE[0],
    maximum=cuts.CONCENTRATION_RANGE[1],
  )
  min_size: int = declared.value(
    10,
    'With partition "dirichlet" or "power_law": minimum number of examples per '
    "client, if there are enough. Larger clients give up examples, and the "
    "task's description reports the share that moved; 1 fills only empty "
    "clients, 0 moves nothing.",
    minimum=0,
  )
  exponent: float = declared.value(
    1.0,
    'With partition "power_law": the size of the client of rank r is '
    "proportional to r^-exponent.",
    minimum=0,
  )
  test_data: TestData = declared.value(
    "published",
    'The data that clients are tested on. "published": the published test '
    'data, in the label proportions of each client\'s training data. "local": '
    "a share of each client's training data; the published test data stays "
    'unused. "pooled": clients get training and published test data alike, and '
    "a share of each client's data is used for testing.",
  )
  test_fraction: float = declared.value(
    0.2,
    'With test_data "local" or "pooled": the share of a client\'s examples '
    "that is used for testing.",
    **declared.BETWEEN_0_AND_1,
  )
  unused_fraction: float = declared.value(
    0.0,
    'With test_data "local" or "pooled": the share of a client\'s examples '
    "used for neither training nor testing, such as a paper's validation set.",
    **declared.BELOW_1,
  )
  split_file: str = declared.value(
    "",
    "An npz file of the split. If it exists, the task reads the split from it; "
    "otherwise the task writes it. A file of your own has the array `client`, "
    "the client of each example, and optionally `split`. Empty means no file.",
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.num_clients is None:
      self.require(
        "num_clients",
        self.partition in _NATURAL,
        f"a number unless partition is {' or '.join(_NATURAL)}",
      )
    most_unused = (
      0.0 if self.test_data == "published" else 1 - self.test_fraction
    )
    self.require(
      "unused_fraction",
      self.unused_fraction == 0 or self.unused_fraction < most_unused,
      "0 with published test data, and otherwise less than 1 - test_fraction",
    )

  def partition_text(self) -> str:
    """Returns a description of the partition, to follow the word "clients"."""
    return {
      "shards": f"by label shards ({self.shards_per_client} each)",
      "dirichlet": f"by Dirichlet({self.concentration:g}) over labels",
      "iid": "at random",
      "dirichlet_clients": f"by Dirichlet({self.concentration:g}) per client",
      "few_labels": f"of {self.labels_per_client} labels each",
      "power_law": f"of power-law sizes (exponent {self.exponent:g})",
      "users": "by user",
      "labels": "by label",
    }[self.partition]

  def test_data_text(self) -> str:
    """Returns a description of where the test data come from."""
    if self.test_data == "published":
      return "published test data, labels as in training"
    unused = (
      f", {self.unused_fraction:g} unused" if self.unused_fraction else ""
    )
    return f"{self.test_data} test share {self.test_fraction:g}{unused}"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CentralData:
  """Examples of one data set: the published training data, then test data."""

  title: str
  source: str  # The file or folder, for error messages.
  labels: np.ndarray  # Class numbers, int32[n]; all 0 if there are no classes.
  num_train: int  # The first `num_train` examples are for training.
  # Maps a client's positions, int64[m], to inputs, float32[m, *x_shape].
  load_x: Callable[[np.ndarray], np.ndarray]
  x_shape: tuple[int, ...]
  class_names: Sequence[str]  # Empty if the labels are numbers to predict.
  users: np.ndarray | None = None  # The author of each example, [n].
  weights: np.ndarray | None = None  # Each example's client weight, float[n].
  numbers: np.ndarray | None = None  # Numbers to predict, float64[n].

  @property
  def num_outputs(self) -> int:
    """The number of model outputs: one per class, or 1 for numeric labels."""
    return len(self.class_names) or 1


def select_classes(
  data: CentralData, class_names: Sequence[str]
) -> CentralData:
  """Returns a data set with only the examples of the classes `class_names`.

  Its classes are numbered from 0 in the order of `class_names`.
  """
  number = np.full(len(data.class_names), -1, np.int32)
  for new, name in enumerate(class_names):
    number[data.class_names.index(name)] = new
  retained = np.flatnonzero(number[data.labels] >= 0)
  return dataclasses.replace(
    data,
    title=f"{data.title} ({len(class_names)} of {len(number)} classes)",
    labels=number[data.labels[retained]],
    num_train=int(np.count_nonzero(retained < data.num_train)),
    load_x=lambda positions: data.load_x(retained[positions]),
    class_names=class_names,
    users=None if data.users is None else data.users[retained],
    weights=None if data.weights is None else data.weights[retained],
    numbers=None if data.numbers is None else data.numbers[retained],
  )


_Parts = Sequence[np.ndarray]

# `make_split` notifies the user if `min_size` moves at least this share of the
# examples to other clients.
_NOTABLE_SHARE_MOVED = 0.05


def make_split(
  config: CutOptions, data: CentralData, seed: int
) -> cuts.ClientSplit:
  """Returns a new or saved split; clients may lack train or test examples."""
  split = _new_or_saved_split(config, data, seed)
  if split.share_moved >= _NOTABLE_SHARE_MOVED:
    notices.notify(
      f"{100 * split.share_moved:.3g} % of the examples are at other clients "
      f"than in the partition {config.partition_text()}, because "
      f"min_size={config.min_size} moves them to smaller clients. min_size=1 "
      "moves some only to clients without any; min_size=0 leaves such clients "
      "out."
    )
  return split


def _new_or_saved_split(
  config: CutOptions, data: CentralData, seed: int
) -> cuts.ClientSplit:
  if not config.split_file:
    return _new_split(config, data, seed)
  path = pathlib.Path(os.path.expanduser(config.split_file))
  try:
    if not os.path.lexists(path):
      split = _new_split(config, data, seed)
      try:
        cuts.save_split(path, split, data.labels)
        return split
      except DataError:
        # Reads the file if another process has written it in the meantime.
        if not os.path.lexists(path):
          raise
    if (example_clients := cuts.load_clients(path)) is not None:
      return _split_from_file(config, data, example_clients, path, seed)
    split = cuts.load_split(path, data.labels)
  except DataError as error:
    raise FieldError("split_file", str(error)) from error
  if split.description == _description(config):
    return split
  if _has_defaults(config):
    return dataclasses.replace(
      split, partition_text=f"as in {path.name} ({split.description})"
    )
  raise FieldError(
    "split_file",
    f"{path} has {split.description!r}, but the options say "
    f"{_description(config)!r}; give the options of the file, none of them, or "
    "another file.",
  )


def _has_defaults(config: CutOptions) -> bool:
  """Returns whether all options except the split file have their defaults."""
  defaults = type(config)()
  return all(
    getattr(config, field.name) == getattr(defaults, field.name)
    for field in dataclasses.fields(CutOptions)
    if field.name != "split_file"
  )


def _split_from_file(
  config: CutOptions,
  data: CentralData,
  example_clients: cuts.ExampleClients,
  path: pathlib.Path,
  seed: int,
) -> cuts.ClientSplit:
  """Returns the split from a user's file that lists each example's client."""
  sizes = [data.num_train, len(data.labels)]
  clients, half_of = example_clients
  pool = sizes[config.test_data == "pooled"]
  if half_of is not None and len(clients) in sizes:
    pool = len(clients)
  if len(clients) != pool:
    tested = ""
    if pool > sizes[0]:
      tested = f", then {sizes[1] - sizes[0]:,} to test on"
    raise DataError(
      path,
      f"has the clients of {len(clients):,} examples, expected {pool:,}: "
      f"{sizes[0]:,} to train on{tested}.",
    )
  values, parts = cuts.by_value(clients)
  parts_by_client = {
    str(value): part
    for value, part in zip(values, parts, strict=True)
    if value != "" and not (isinstance(value, int) and value < 0)
  }
  if half_of is None:
    train, test = _halves(config, data, pool, [*parts_by_client.values()], seed)
  else:
    train, test = (
      [part[half_of[part] == half] for part in parts_by_client.values()]
      for half in ("train", "test")
    )
  return cuts.ClientSplit(
    client_names=tuple(parts_by_client),
    train=tuple(train),
    test=tuple(test),
    description=f"{len(parts_by_client):,} clients as in {path.name}",
    partition_text=f"as in {path.name}",
  )


def _new_split(
  config: CutOptions, data: CentralData, seed: int
) -> cuts.ClientSplit:
  pool = len(data.labels) if config.test_data == "pooled" else data.num_train
  names, parts = _clients(config, data, pool, seed)
  train, test = _halves(config, data, pool, parts, seed)
  return cuts.ClientSplit(
    client_names=tuple(names),
    train=tuple(train),
    test=tuple(test),
    description=_description(config),
    share_moved=_share_moved(config, data.labels[:pool], parts, seed),
  )


def _halves(
  config: CutOptions,
  data: CentralData,
  pool: int,
  parts: list[np.ndarray],
  seed: int,
) -> tuple[_Parts, _Parts]:
  """Returns each client's train positions, and each client's test positions.

  `parts` has each client's positions among the first `pool` examples. They are
  divided into train and test, unless clients are tested on published test data.
  """
  if config.test_data == "published":
    if data.num_train == len(data.labels):
      raise FieldError(
        "test_data",
        f"expected local or pooled: {data.source} has no test data.",
        value=config.test_data,
      )
    return parts, [
      pool + part
      for part in cuts.match_label_proportions(
        parts, data.labels[:pool], data.labels[pool:], (seed, 1)
      )
    ]
  unused = config.unused_fraction
  # `build_task` leaves out a client with one example, which cannot be split.
  halves = [
    cuts.train_test_split(
      part, config.test_fraction, (seed, k), unused_fraction=unused
    )
    if len(part) > 1
    else (part, part[:0])
    for k, part in enumerate(parts)
  ]
  train, test = zip(*halves, strict=True)
  return train, test


def _clients(
  config: CutOptions, data: CentralData, pool: int, seed: int
) -> tuple[Sequence[str], list[np.ndarray]]:
  labels = data.labels[:pool]
  if config.partition == "users":
    if data.users is None:
      raise FieldError(
        "partition",
        f"expected another one: {data.source} does not show which person made "
        "which example.",
        value=config.partition,
      )
    users, parts = cuts.by_value(data.users[:pool])
    chosen = cuts.random_subset(
      np.arange(len(users)), config.num_clients, seed, what="users"
    )
    return [str(users[k]) for k in chosen], [parts[k] for k in chosen]
  if config.partition == "labels":
    values, parts = cuts.by_value(labels)
    if config.num_clients not in (None, len(values)):
      raise FieldError(
        "num_clients",
        f"expected {len(values)}, the number of labels, or none.",
        value=config.num_clients,
      )
    return [data.class_names[value] for value in values], parts
  count = config.num_clients
  assert count is not None  # The options check this.
  return cuts.client_names(count), _parts(config, labels, count, seed)


def _parts(
  config: CutOptions, labels: np.ndarray, count: int, seed: int
) -> list[np.ndarray]:
  min_size = min(config.min_size, len(labels) // count)
  match config.partition:
    case "shards":
      return cuts.label_shards(labels, count, config.shards_per_client, seed)
    case "dirichlet":
      return cuts.dirichlet(
        labels, count, config.concentration, seed, min_size=min_size
      )
    case "dirichlet_clients":
      return cuts.dirichlet_per_client(
        labels, count, config.concentration, seed
      )
    case "few_labels":
      return cuts.few_labels(labels, count, config.labels_per_client, seed)
    case "power_law":
      return cuts.power_law(
        len(labels), count, config.exponent, seed, min_size=min_size
      )
  return cuts.iid(len(labels), count, seed)


def _share_moved(
  config: CutOptions, labels: np.ndarray, parts: _Parts, seed: int
) -> float:
  """Returns the share of examples that `min_size` moves to other clients."""
  if config.partition not in ("dirichlet", "power_law"):
    return 0.0
  free = _parts(
    dataclasses.replace(config, min_size=0), labels, len(parts), seed
  )
  gained = [
    max(0, len(part) - len(rows))
    for part, rows in zip(parts, free, strict=True)
  ]
  return sum(gained) / len(labels)


def _description(config: CutOptions) -> str:
  count = "all" if config.num_clients is None else config.num_clients
  return f"{count} clients {config.partition_text()}, {config.test_data_text()}"
