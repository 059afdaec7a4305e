"""Small files in the format in which TFF keeps client data."""

import sqlite3


class NativeFile:
  """Serialized examples by split and client, to be damaged at will."""

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

  def execute(self, statement, values=()):
    connection = sqlite3.connect(self.path)
    with connection:
      connection.execute(statement, values)
    connection.close()

  def add(self, split, client, examples, *, num_examples=None):
    """Adds serialized examples of a client; metadata can be made wrong."""
    for example in examples:
      self.execute(
        "INSERT INTO examples VALUES (?, ?, ?)", [split, client, example]
      )
    count = len(examples) if num_examples is None else num_examples
    self.execute(
      "INSERT INTO client_metadata VALUES (?, ?, ?)", [client, split, count]
    )
