"""Clients of TFF's native data sets as whole arrays."""

import functools
import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tasks import downloads
from tasks.data_error import DataError
from tasks.formats import sqlite_file
from tasks.formats.images import LabeledImages
from tasks.task import Arrays, Split

if typing.TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff

# Reading a client costs milliseconds, as much as its share of a round. With
# 100 images of 28 x 28 pixels a client, this many take 80 MB.
_NUM_CACHED_CLIENTS = 256

Examples = Mapping[str, np.ndarray]
Read = Callable[[str], Examples]
ToArrays = Callable[[Examples], Arrays]


class Half(NamedTuple):
  """The training or the test data of all clients of a file.

  Attributes:
    client_data: The data.
    num_examples: Numbers of examples, int64[clients]; 0 where there are none.
    source: File and split, for error messages.
  """

  client_data: "tff.simulation.datasets.ClientData"
  num_examples: np.ndarray
  source: str


def halves(
  filename: str,
  data_dir: pathlib.Path | None,
  load: Callable[..., Any],
  splits: tuple[str, str],
  *,
  advice: str = "",
) -> tuple[Sequence[str], tuple[Half, Half]]:
  """Finds a native data set; reads no example.

  Args:
    filename: Name under which TFF caches the data set.
    data_dir: Directory of the file; None means TFF's own cache, ~/.tff.
    load: TFF's loader, whose first argument left to give is `cache_dir`.
    splits: Names of the training and of the test split.
    advice: Help for a file that lacks a split; ends the error message.

  Returns:
    The names of all clients in ascending order, and both halves.

  Raises:
    DataError: If the file can be neither found nor fetched, or is damaged.
  """
  path = downloads.find_native(filename, data_dir, load)
  names, counts = sqlite_file.population(path, splits, advice=advice)
  train, test = (
    Half(data, counts[:, column], f"{path}, split {splits[column]}")
    for column, data in enumerate(load(cache_dir=str(path.parent)))
  )
  return names, (train, test)


def split(
  read: Read,
  client_names: Sequence[str],
  num_examples: np.ndarray,
  to_arrays: ToArrays,
  *,
  source: str,
  keeps_latest: bool = False,
) -> Split:
  """Returns clients that `read` reads as one half of a task.

  Args:
    read: Maps the name of a client to its stacked examples.
    client_names: Names of the task's clients, by client id.
    num_examples: Their numbers of examples, int64[num_clients].
    to_arrays: Maps a client's stacked examples to `(x, y)`. Raises a ValueError
      that names the fault of values that are no valid examples.
    source: File and split for error messages.
    keeps_latest: Whether the latest clients stay in memory.

  Returns:
    The split; clients are read on demand.
  """
  import tensorflow as tf  # noqa: PLC0415

  def load(client_id: int) -> Arrays:
    name = client_names[client_id]
    try:
      examples = read(name)
      (found,) = {len(values) for values in examples.values()}
      if found != num_examples[client_id]:
        raise ValueError(
          f"has {found} examples, expected {num_examples[client_id]}"
        )
      return to_arrays(examples)
    except tf.errors.OpError as error:
      # TensorFlow's reason is the line before the names of its nodes.
      reason = error.message.partition("[[")[0].strip().rpartition("\n")[2]
      raise DataError(f"{source}, client {name}", reason.strip()) from error
    except DataError:
      raise
    except ValueError as error:
      raise DataError(f"{source}, client {name}", f"{error}.") from error

  keep = functools.lru_cache(_NUM_CACHED_CLIENTS if keeps_latest else 0)
  return Split(num_examples=num_examples, load=keep(load))


def reader(client_data: "tff.simulation.datasets.ClientData") -> Read:
  """Returns a function that reads clients of a `ClientData`.

  Its examples are mappings of tensors of fixed shapes.
  """
  import tensorflow as tf  # noqa: PLC0415

  # Traced once for all clients: several times faster than a pipeline for each.
  @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
  def read_stacked(name: "tf.Tensor") -> "Mapping[str, tf.Tensor]":
    examples = client_data.serializable_dataset_fn(name)
    return examples.batch(tf.int64.max).get_single_element()

  def read(name: str) -> Examples:
    return {key: value.numpy() for key, value in read_stacked(name).items()}

  return read


def sqlite_reader(
  path: pathlib.Path,
  split_name: str,
  features: Sequence[str],
  *,
  limit: int | None = None,
) -> Read:
  """Returns a function that reads texts straight from a file of TFF's format.

  TFF's own `ClientData` makes a sorted list of all names before anything else;
  this one knows no names, and parses only the features that are wanted.

  Args:
    path: A whole file.
    split_name: Name of the split.
    features: Names of the features, each one text per example.
    limit: How many examples of a client to read at most; None reads all.

  Returns:
    A function from names to object[n] of bytes by feature.
  """
  import tensorflow as tf  # noqa: PLC0415

  spec = {name: tf.io.FixedLenFeature([], tf.string) for name in features}

  def read(name: str) -> Examples:
    serialized = sqlite_file.serialized_examples(
      path, split_name, name, limit=limit
    )
    if not serialized:
      return {feature: np.empty([0], object) for feature in features}
    parsed = tf.io.parse_example(serialized, spec)
    return {feature: parsed[feature].numpy() for feature in features}

  return read


def read_images(
  filename: str,
  data_dir: pathlib.Path | None,
  load: Callable[..., Any],
  splits: tuple[str, str],
  to_arrays: ToArrays,
  *,
  advice: str = "",
) -> tuple[tuple[LabeledImages, LabeledImages], np.ndarray]:
  """Reads every client of the training and of the test half.

  Args:
    filename: As for `halves`, and so are the others but `to_arrays`.
    data_dir: Directory of the file.
    load: TFF's loader.
    splits: Names of both splits.
    to_arrays: Maps a client's examples to images, uint8, and labels, and leaves
      out those that are not wanted.
    advice: Help for a file that lacks a split.

  Returns:
    Training and test images, and the client of each image, training first.

  Raises:
    DataError: As `halves`; or an example is not as it must be, or none is left.
  """
  names, found = halves(filename, data_dir, load, splits, advice=advice)
  images, users = [], []
  for client_data, num_examples, source in found:
    there = np.flatnonzero(num_examples)
    own = [names[int(k)] for k in there]
    clients = split(
      reader(client_data), own, num_examples[there], to_arrays, source=source
    )
    arrays = [clients.load(k) for k in range(len(own))]
    if not any(len(labels) > 0 for _, labels in arrays):
      raise DataError(source, "has none of the images wanted.")
    x, y = (np.concatenate(parts) for parts in zip(*arrays, strict=True))
    images.append(
      LabeledImages(images=x, labels=y.astype(np.int32), source=source)
    )
    users.append(np.repeat(own, [len(labels) for _, labels in arrays]))
  train, test = images
  return (train, test), np.concatenate(users)
