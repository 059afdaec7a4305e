"""Cuts a central data set over clients, as its options say."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from tasks import cuts, notices
from tasks.central.data import CentralData
from tasks.central.options import CutOptions
from tasks.data_error import DataError

_Parts = Sequence[np.ndarray]

# A cut of which more was moved is no longer the one that its name says.
_SHARE_TO_TELL = 0.05


def cut(config: CutOptions, data: CentralData, seed: int) -> cuts.ClientSplit:
  """Cuts a data set over clients, or reads how it was cut.

  Args:
    config: How to cut, and the file of the split, if there is to be one.
    data: The data set.
    seed: Seed of the cut; a split from a file does not depend on it.

  Returns:
    The split; clients can be without train or test examples. A notice tells if
    `min_size` moved 5 % of the examples or more.

  Raises:
    ValueError: If the data cannot be cut so, or the file is not of this split.
  """
  split = _cut_or_read(config, data, seed)
  if split.share_moved >= _SHARE_TO_TELL:
    notices.notify(
      f"{100 * split.share_moved:.3g} % of the examples are not where the cut "
      f"{config.how_cut()} puts them, since min_size={config.min_size} gives "
      "them to smaller clients. min_size=1 gives some only to clients without "
      "any; min_size=0 leaves such clients out."
    )
  return split


def _cut_or_read(
  config: CutOptions, data: CentralData, seed: int
) -> cuts.ClientSplit:
  if not config.split_file:
    return _cut(config, data, seed)
  path = pathlib.Path(os.path.expanduser(config.split_file))
  try:
    if os.path.lexists(path):
      split = cuts.load_split(path, data.labels)
    else:
      split = _cut(config, data, seed)
      cuts.save_split(path, split, data.labels)
  except DataError as error:
    raise ValueError(f"split_file: {error}") from error
  if split.description != _description(config):
    raise ValueError(
      f"split_file: {path} has {split.description!r}, the options say "
      f"{_description(config)!r}; give the same options, or another file."
    )
  return split


def _cut(config: CutOptions, data: CentralData, seed: int) -> cuts.ClientSplit:
  if config.test_data == "published" and data.num_train == len(data.labels):
    raise ValueError(
      f"test_data must be local or pooled: {data.source} has no test data."
    )
  pool = len(data.labels) if config.test_data == "pooled" else data.num_train
  names, parts = _clients(config, data, pool, seed)
  if config.test_data == "published":
    train: _Parts = parts
    test: _Parts = [
      pool + part
      for part in cuts.in_proportion(
        parts, data.labels[:pool], data.labels[pool:], (seed, 1)
      )
    ]
  else:
    halves = [
      _train_test(config, part, (seed, k)) for k, part in enumerate(parts)
    ]
    train, test = zip(*halves, strict=True)
  return cuts.ClientSplit(
    client_names=tuple(names),
    train=tuple(train),
    test=tuple(test),
    description=_description(config),
    share_moved=_share_moved(config, data.labels[:pool], parts, seed),
  )


def _clients(
  config: CutOptions, data: CentralData, pool: int, seed: int
) -> tuple[Sequence[str], list[np.ndarray]]:
  labels = data.labels[:pool]
  if config.partition == "users":
    if data.users is None:
      raise ValueError(
        f"partition must not be users: {data.source} does not say who made "
        "which example."
      )
    users, parts = cuts.by_value(data.users[:pool])
    chosen = cuts.random_subset(
      len(users), config.num_clients, seed, what="users"
    )
    return [str(users[k]) for k in chosen], [parts[k] for k in chosen]
  if config.partition == "labels":
    values, parts = cuts.by_value(labels)
    if config.num_clients not in (None, len(values)):
      raise ValueError(
        f"num_clients must be {len(values)}, the number of labels, or none; "
        f"found {config.num_clients}."
      )
    return [data.class_names[value] for value in values], parts
  count = config.num_clients
  assert count is not None  # Checked by the options.
  width = len(str(count - 1))
  names = [f"client_{k:0{width}}" for k in range(count)]
  return names, _parts(config, labels, count, seed)


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
  """Returns the share of examples that would be elsewhere without a least size.

  Args:
    config: How they were cut.
    labels: Labels of all examples.
    parts: Positions of each client's examples.
    seed: Seed of the cut.
  """
  if config.partition not in ("dirichlet", "power_law"):
    return 0.0
  free = _parts(
    dataclasses.replace(config, min_size=0), labels, len(parts), seed
  )
  gained = [
    max(0, len(part) - len(alone))
    for part, alone in zip(parts, free, strict=True)
  ]
  return sum(gained) / len(labels)


def _train_test(
  config: CutOptions, part: np.ndarray, seed: cuts.Seed
) -> tuple[np.ndarray, np.ndarray]:
  # A single example cannot be both; who has no more will be left out.
  if len(part) < 2:
    return part, part[:0]
  return cuts.train_test_split(
    part,
    config.test_fraction,
    seed,
    unused_fraction=config.unused_fraction,
  )


def _description(config: CutOptions) -> str:
  count = "all" if config.num_clients is None else config.num_clients
  return f"{count} clients {config.how_cut()}, {config.how_tested()}"
