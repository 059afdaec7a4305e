"""Small files of client data, as `prepare_data` writes them."""

import contextlib
import sqlite3

import numpy as np

from tasks.conversions import client_data_writer
from tasks.formats import example_proto
from tests.tasks import native_file


def write(path, examples, splits=("train", "test")):
  """Writes the examples of two clients into each split.

  Args:
    path: The file.
    examples: The examples of each client in each split; they map names to
      features.
    splits: Names of the splits.
  """
  client_data_writer.write(
    path,
    (
      client_data_writer.Example(client, native_file.serialized(example), split)
      for split in splits
      for client in ("north", "south")
      for example in examples
    ),
    client_data_writer.SplitSettings(
      choose_test=client_data_writer.last_share(0.5)
    ),
    overwrite=True,
  )


def read(path):
  """Returns the features of a file's examples, by split and client."""
  found = {}
  with contextlib.closing(sqlite3.connect(path)) as connection:
    for split, client, serialized in connection.execute(
      "SELECT split_name, client_id, serialized_example_proto FROM examples"
    ):
      features = example_proto.parse(serialized)
      found.setdefault(split, {}).setdefault(client, []).append(features)
  return found


def images(count=4, side=2, channels=3):
  """Returns images and labels; all pixels of image k have the value 2 k."""
  return [
    {
      "image": np.full([side, side, channels], 2 * k, np.int64),
      "label": np.int64(k % 2),
    }
    for k in range(count)
  ]


def write_images(directory):
  write(directory / "images.sqlite", images())
