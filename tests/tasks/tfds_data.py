"""Small data sets as tensorflow-datasets prepares them, without a network."""

import json

import numpy as np


def write(directory, name, features, splits, supervised=None, version="1.0.0"):
  """Prepares a data set.

  Args:
    directory: The data_dir.
    name: The data set's name.
    features: Features by name, as tensorflow-datasets takes them.
    splits: For each split, a list of examples, which are mappings.
    supervised: The names of the input feature and of the label.
    version: The data set's version.
  """
  import tensorflow_datasets as tfds  # noqa: PLC0415

  tfds.dataset_builders.store_as_tfds_dataset(
    name=name,
    version=version,
    data_dir=directory,
    features=tfds.features.FeaturesDict(features),
    split_datasets={k: enumerate(rows) for k, rows in splits.items()},
  )
  if supervised:
    path = directory / name / version / "dataset_info.json"
    info = json.loads(path.read_text())
    keys = [{"featureKey": key} for key in supervised]
    info["supervisedKeys"] = {"tuple": {"items": keys}}
    path.write_text(json.dumps(info))


def write_images(directory):
  """Prepares images of three classes by five writers."""
  import tensorflow_datasets as tfds  # noqa: PLC0415

  def rows(count):
    return [
      {
        "image": np.full([4, 4, 1], 10 * (k % 3) + k % 5, np.uint8),
        "label": k % 3,
        "writer": k % 5,
      }
      for k in range(count)
    ]

  write(
    directory,
    "shades",
    {
      "image": tfds.features.Image(shape=(4, 4, 1)),
      "label": tfds.features.ClassLabel(names=["dark", "grey", "light"]),
      "writer": np.int64,
    },
    {"train": rows(60), "test": rows(15)},
    ("image", "label"),
  )
