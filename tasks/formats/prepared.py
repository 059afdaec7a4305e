"""Reads data that tensorflow-datasets has prepared; downloads nothing.

Such a directory is `data_dir/NAME/VERSION` with a `dataset_info.json`; see
https://www.tensorflow.org/datasets.
"""

import pathlib

import numpy as np

from tasks.data_error import DataError
from tasks.formats import source_file
from tasks.formats.labeled_images import LabeledImages

_INFO = "dataset_info.json"


def find(data_dir: pathlib.Path, name: str) -> pathlib.Path | None:
  """Returns the newest prepared version of a data set, if there is one."""
  found = [path.parent for path in data_dir.glob(f"{name}/*.*.*/{_INFO}")]

  def version(path: pathlib.Path) -> tuple[int, ...]:
    return tuple(int(n) if n.isdigit() else -1 for n in path.name.split("."))

  return max(found, key=version) if found else None


def read(
  directory: pathlib.Path, *, label_key: str = "label"
) -> tuple[LabeledImages, LabeledImages]:
  """Reads the splits "train" and "test" of a prepared image data set.

  Args:
    directory: As `find` returns it.
    label_key: Name of the feature that is the label.

  Returns:
    Training and test images.

  Raises:
    DataError: If the directory cannot be read or has no such images.
  """
  # Imported late: it takes a second, and few read such a directory.
  import tensorflow_datasets as tfds  # noqa: PLC0415

  # Missing files, TFRecord checksums, protocol buffers, unknown splits.
  with source_file.damage_named(directory, "cannot be read"):
    builder = tfds.builder_from_directory(str(directory))
    halves = [
      tfds.as_numpy(builder.as_dataset(split=split, batch_size=-1))
      for split in ("train", "test")
    ]
  for examples in halves:
    missing = {"image", label_key} - examples.keys()
    if missing:
      raise DataError(
        f"{directory}: its examples have no {', '.join(sorted(missing))}; "
        f"found {', '.join(sorted(examples))}."
      )
  train, test = (
    LabeledImages(
      images=np.asarray(examples["image"], np.uint8),
      labels=np.asarray(examples[label_key], np.int32),
      source=str(directory),
    )
    for examples in halves
  )
  return train, test
