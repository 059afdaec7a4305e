"""Small files in TFF's format of client data."""

import sqlite3

import numpy as np

from tasks.formats import example_proto


def serialized(features):
  """Serializes an example; features are bytes, or numbers of any shape."""
  return example_proto.serialize(
    {k: v if isinstance(v, bytes) else np.array(v) for k, v in features.items()}
  )


class NativeFile:
  """A file of examples by split and client, which tests may damage."""

  def __init__(self, path):
    self.path = path
    self.execute(
      "CREATE TABLE examples (split_name TEXT, client_id TEXT,"
      " serialized_example_proto BLOB)"
    )
    self.execute(
      "CREATE TABLE client_metadata (client_id TEXT, split_name TEXT,"
      " num_examples INTEGER)"
    )

  def execute(self, statement, *rows):
    """Executes a statement, for each row if rows are given."""
    connection = sqlite3.connect(self.path)
    connection.execute("PRAGMA synchronous = OFF")  # No power cut is tested.
    with connection:
      if rows:
        connection.executemany(statement, rows)
      else:
        connection.execute(statement)
    connection.close()

  def add(self, split, client, examples, *, num_examples=None):
    """Adds a client's examples, which are mappings; metadata can be wrong."""
    if examples:
      self.execute(
        "INSERT INTO examples VALUES (?, ?, ?)",
        *((split, client, serialized(example)) for example in examples),
      )
    count = len(examples) if num_examples is None else num_examples
    self.execute(
      "INSERT INTO client_metadata VALUES (?, ?, ?)", (client, split, count)
    )
