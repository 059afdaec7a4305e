"""Reads the clients of TFF's native data sets as whole arrays.

The files are read directly, because TFF's `ClientData` would first build a list
of all clients' names. Here two arrays and one string hold the names and sizes
of all clients, and examples are read on demand.
"""

import dataclasses
import functools
import pathlib
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tasks import cuts, downloads
from tasks.data_error import DataError
from tasks.formats import sqlite_file
from tasks.formats.client_names import ClientNames
from tasks.formats.images import LabeledImages
from tasks.task import Arrays, Split

if typing.TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff

# Reading a client takes milliseconds, about as long as training on it in a
# round. With 100 images of 28 x 28 pixels each, this many clients take 80 MB.
_NUM_CACHED_CLIENTS = 256

Examples = Mapping[str, np.ndarray]
Read = Callable[[str], Examples]
ToArrays = Callable[[Examples], Arrays]
# The shape and the dtype of each requested feature.
Features = Mapping[str, tuple[Sequence[int], str]]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Clients:
  """Clients of a native data set."""

  source: str  # The file, for error messages.
  splits: Sequence[str]  # Names of the splits.
  names: ClientNames  # Names of the clients, in ascending order.
  counts: np.ndarray  # Numbers of examples, int64[clients, splits].
  # Takes the name of a split, the most examples to read (None for all) and the
  # name of a client; returns the client's stacked examples.
  read: Callable[[str, int | None, str], Examples]

  def choose(
    self,
    least: Sequence[int],
    num_clients: int | None,
    seed: int,
    *,
    who: str,
    without: str,
  ) -> "tuple[Clients, str]":
    """Returns random clients with enough examples, and a description.

    `least` is the minimum number of examples in each split. The description
    calls clients `who`, such as "writers"; those left out lack `without`.
    """
    number = len(self.names)
    enough = np.flatnonzero((self.counts >= least).all(axis=1))
    if not enough.size:
      raise DataError(self.source, f"all {number:,} {who} lack {without}.")
    chosen = cuts.random_subset(
      enough, num_clients, seed, what=f"{who} in the data"
    )
    of_all = "" if len(chosen) == len(enough) else f" of {len(enough):,}"
    clients = dataclasses.replace(
      self, names=self.names.take(chosen), counts=self.counts[chosen]
    )
    return clients, (
      f"{len(chosen):,}{of_all} {who} "
      f"({number - len(enough):,} without {without} left out)"
    )

  def halves(
    self,
    to_arrays: ToArrays,
    *,
    limit: int | None = None,
    keeps_latest: bool = False,
  ) -> list[Split]:
    """Returns the data of each split, at most `limit` examples per client."""
    counts = self.counts if limit is None else np.minimum(self.counts, limit)
    return [
      split(
        functools.partial(self.read, name, limit),
        self.names,
        np.ascontiguousarray(counts[:, column]),
        to_arrays,
        source=f"{self.source}, split {name}",
        keeps_latest=keeps_latest,
      )
      for column, name in enumerate(self.splits)
    ]

  def contents(self, to_arrays: ToArrays) -> Iterator[dict[str, Arrays]]:
    """Yields, for each split, the arrays of all clients by client name."""
    for half in self.halves(to_arrays):
      there = np.flatnonzero(half.num_examples)
      yield {self.names[int(k)]: half.load(int(k)) for k in there}


def find(
  name: str,
  data_dir: pathlib.Path | None,
  splits: Sequence[str],
  features: Features,
  *,
  synthetic: bool = False,
  advice: str = "",
) -> Clients:
  """Finds or downloads a native data set, without reading examples."""
  import tensorflow_federated as tff  # noqa: PLC0415

  native = getattr(tff.simulation.datasets, name)
  if synthetic:
    source = f"tff.simulation.datasets.{name}.get_synthetic()"
    return _synthetic_clients(native.get_synthetic(), source, splits)
  path = downloads.find_native(
    downloads.EMNIST_FILENAME if name == "emnist" else f"{name}.sqlite",
    data_dir,
    name,
  )
  names, counts = sqlite_file.population(path, splits, advice=advice)
  return Clients(
    source=str(path),
    splits=splits,
    names=names,
    counts=counts,
    read=functools.partial(_read_file, path, features),
  )


def _read_file(
  path: pathlib.Path,
  features: Features,
  split_name: str,
  limit: int | None,
  client: str,
) -> Examples:
  import tensorflow as tf  # noqa: PLC0415

  serialized = sqlite_file.serialized_examples(
    path, split_name, client, limit=limit
  )
  spec = {
    name: tf.io.FixedLenFeature(shape, tf.as_dtype(dtype))
    for name, (shape, dtype) in features.items()
  }
  parsed = tf.io.parse_example(tf.constant(serialized, tf.string), spec)
  return {name: values.numpy() for name, values in parsed.items()}


def _synthetic_clients(
  client_data: "tff.simulation.datasets.ClientData",
  source: str,
  splits: Sequence[str],
) -> Clients:
  read = reader(client_data)
  names = ClientNames(client_data.client_ids)
  counts = [len(next(iter(read(name).values()))) for name in names]
  return Clients(
    source=source,
    splits=splits,
    names=names,
    counts=np.tile(np.array(counts)[:, np.newaxis], len(splits)),
    read=lambda _, limit, name: {
      feature: values[:limit] for feature, values in read(name).items()
    },
  )


def read_images(
  clients: Clients, to_arrays: ToArrays
) -> tuple[tuple[LabeledImages, LabeledImages], np.ndarray]:
  """Returns all clients' training and test images, and each image's client."""
  images, users = [], []
  contents = clients.contents(to_arrays)
  for name, arrays in zip(clients.splits, contents, strict=True):
    source = f"{clients.source}, split {name}"
    sizes = [len(labels) for _, labels in arrays.values()]
    if not any(sizes):
      raise DataError(source, "has no images of the wanted classes.")
    x, y = map(np.concatenate, zip(*arrays.values(), strict=True))
    images.append(
      LabeledImages(images=x, labels=y.astype(np.int32), source=source)
    )
    users.append(np.repeat([*arrays], sizes))
  train, test = images
  return (train, test), np.concatenate(users)


def split(
  read: Read,
  client_names: Sequence[str],
  num_examples: np.ndarray,
  to_arrays: ToArrays,
  *,
  source: str,
  keeps_latest: bool = False,
) -> Split:
  """Returns clients, read on demand, as a split of a task.

  A `ValueError` from `to_arrays` becomes a `DataError` that names the client.
  `keeps_latest` caches the clients that were read last.
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
      # TensorFlow gives the reason on the line before the names of nodes.
      reason = error.message.partition("[[")[0].strip().rpartition("\n")[2]
      raise DataError(f"{source}, client {name}", reason.strip()) from error
    except DataError:
      raise
    except ValueError as error:
      raise DataError(f"{source}, client {name}", f"{error}.") from error

  keep = functools.lru_cache(_NUM_CACHED_CLIENTS if keeps_latest else 0)
  return Split(num_examples=num_examples, load=keep(load))


def reader(client_data: "tff.simulation.datasets.ClientData") -> Read:
  """Returns a function that reads clients from a `ClientData` of mappings."""
  import tensorflow as tf  # noqa: PLC0415

  # Traced once for all clients; much faster than a pipeline for each client.
  @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
  def read_stacked(name: "tf.Tensor") -> "Mapping[str, tf.Tensor]":
    examples = client_data.serializable_dataset_fn(name)
    return examples.batch(tf.int64.max).get_single_element()

  def read(name: str) -> Examples:
    return {key: value.numpy() for key, value in read_stacked(name).items()}

  return read
