"""Reads data that tensorflow-datasets has prepared; downloads nothing itself.

Prepared data are in `data_dir/NAME/VERSION`, with `dataset_info.json`; see
https://www.tensorflow.org/datasets. NAME may have two parts: "glue/sst2".
"""

import collections
import functools
import operator
import pathlib
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from tasks.data_error import DataError
from tasks.formats import data_files, source_files
from tasks.formats.images import LabeledImages

if typing.TYPE_CHECKING:
  import tensorflow_datasets as tfds

_INFO = "dataset_info.json"

FeatureKind = Literal[
  "image", "text", "class", "truth", "number", "numbers", "other"
]


class Feature(NamedTuple):
  """A feature of a data set's examples."""

  # "class": a number with a name. "truth": true or false. "number": a single
  # number. "numbers": a tensor of a known shape.
  kind: FeatureKind
  path: tuple[str, ...]  # The path of keys within an example.
  class_names: Sequence[str] = ()  # Names of the classes, if any.


def find(
  data_dir: pathlib.Path, name: str, version: str = "*.*.*"
) -> pathlib.Path | None:
  """Returns the folder of a data set's newest prepared version, if any."""
  found = [path.parent for path in data_dir.glob(f"{name}/{version}/{_INFO}")]

  def number(path: pathlib.Path) -> tuple[int, ...]:
    return tuple(int(n) if n.isdigit() else -1 for n in path.name.split("."))

  return max(found, key=number) if found else None


def names(data_dir: pathlib.Path) -> list[str]:
  """Returns the names of the prepared data sets."""
  found = {
    path.parent.parent.relative_to(data_dir).as_posix()
    for depth in ("*", "*/*")
    for path in data_dir.glob(f"{depth}/*.*.*/{_INFO}")
  }
  return sorted(found)


class DataSet:
  """A prepared data set."""

  def __init__(self, directory: pathlib.Path) -> None:
    """Reads the description of a data set, but no examples."""
    # Imported late, since it takes a second and few tasks need it.
    import tensorflow_datasets as tfds  # noqa: PLC0415

    self.directory = directory
    source_files.note(*source_files.list_files(directory))
    with data_files.reporting_damage(directory, "cannot be read"):
      self._builder = tfds.builder_from_directory(str(directory))
      info = self._builder.info
    # The features; nested ones have names such as "passenger/age".
    self.features: Mapping[str, Feature] = {
      "/".join(path): _feature(path, found)
      for path, found in _flat(info.features)
    }
    self.splits: Sequence[str] = list(info.splits)
    # The features to predict from, and the feature to predict; None if the data
    # set does not define them.
    self.supervised = self._supervised(info.supervised_keys)

  def _supervised(self, keys: Any) -> tuple[list[str], str] | None:
    import tensorflow as tf  # noqa: PLC0415

    if keys is None or len(keys) != 2 or not isinstance(keys[1], str):
      return None
    given = tf.nest.flatten(keys[0])
    # A key may name a feature with nested features.
    inputs = [
      name
      for name in self.features
      if any(name == key or name.startswith(f"{key}/") for key in given)
    ]
    return inputs, keys[1]

  def read(self, split: str, wanted: Sequence[str]) -> dict[str, list[Any]]:
    """Returns values of the features `wanted`, by name, in the files' order."""
    import tensorflow_datasets as tfds  # noqa: PLC0415

    found: dict[str, list[Any]] = collections.defaultdict(list)
    with data_files.reporting_damage(self.directory, "cannot be read"):
      for example in tfds.as_numpy(self._builder.as_dataset(split=split)):
        for name in wanted:
          path = self.features[name].path
          found[name].append(functools.reduce(operator.getitem, path, example))
    return {name: found[name] for name in wanted}


def _flat(
  features: Any, start: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
  """Yields all nested features with their paths of keys."""
  import tensorflow_datasets as tfds  # noqa: PLC0415

  for name, feature in features.items():
    path = (*start, name)
    if isinstance(feature, tfds.features.FeaturesDict):
      yield from _flat(feature, path)
    else:
      yield path, feature


def _feature(
  path: tuple[str, ...], found: "tfds.features.FeatureConnector"
) -> Feature:
  import tensorflow_datasets as tfds  # noqa: PLC0415

  if isinstance(found, tfds.features.ClassLabel):
    return Feature("class", path, found.names)
  kind: FeatureKind = "other"
  if isinstance(found, tfds.features.Image):
    kind = "image"
  elif isinstance(found, tfds.features.Text):
    kind = "text"
  elif type(found) in (tfds.features.Tensor, tfds.features.Scalar):
    dtype = np.dtype(found.np_dtype)
    if dtype.kind in "biuf":
      kind = "number" if found.shape == () else "numbers"
      kind = "truth" if dtype.kind == "b" and found.shape == () else kind
    elif found.shape == ():
      kind = "text"
    if None in found.shape:
      kind = "other"
  return Feature(kind, path)


def read(directory: pathlib.Path) -> tuple[LabeledImages, LabeledImages]:
  """Reads the splits "train" and "test" of a prepared image data set."""
  found = DataSet(directory)
  missing = {"image", "label"} - found.features.keys()
  if missing:
    raise DataError(
      directory,
      f"its examples have no {', '.join(sorted(missing))}; found "
      f"{', '.join(sorted(found.features))}.",
    )

  def half(split: str) -> LabeledImages:
    examples = found.read(split, ["image", "label"])
    return LabeledImages(
      images=np.asarray(examples["image"], np.uint8),
      labels=np.asarray(examples["label"], np.int32),
      source=str(directory),
    )

  return half("train"), half("test")
