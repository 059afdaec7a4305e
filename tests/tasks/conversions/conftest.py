import contextlib
import sqlite3

import pytest

from tasks.conversions import client_data_file
from tasks.formats import example_proto

pytestmark = pytest.mark.pure


def _rows(path, query):
  with contextlib.closing(sqlite3.connect(path)) as connection:
    return connection.execute(query).fetchall()


@pytest.fixture
def convert(tmp_path):
  """Writes examples to a file; returns them by split and client."""

  def write(examples, *, path=tmp_path / "out" / "data.sqlite", **settings):
    settings.setdefault("choose_test", client_data_file.last_share(0.2))
    client_data_file.write(path, examples, client_data_file.Cut(**settings))
    found = {}
    for split, client, serialized in _rows(path, "SELECT * FROM examples"):
      clients = found.setdefault(split, {})
      features = example_proto.parse(serialized)
      clients.setdefault(client, []).append(features)
    counts = {
      split: {client: len(values) for client, values in clients.items()}
      for split, clients in found.items()
    }
    metadata = {}
    for client, split, count in _rows(path, "SELECT * FROM client_metadata"):
      metadata.setdefault(split, {})[client] = count
    assert metadata == counts
    return found

  return write
