import contextlib
import sqlite3

import pytest

from tasks.conversions import client_data_writer
from tests.tasks import client_files

pytestmark = pytest.mark.pure


@pytest.fixture
def convert(tmp_path):
  """Returns a function that writes examples to a file, and reads them back."""

  def write(examples, *, path=tmp_path / "out" / "data.sqlite", **settings):
    settings.setdefault("choose_test", client_data_writer.last_share(0.2))
    client_data_writer.write(
      path, examples, client_data_writer.SplitSettings(**settings)
    )
    found = client_files.read(path)
    counts = {
      (client, split, len(values))
      for split, clients in found.items()
      for client, values in clients.items()
    }
    with contextlib.closing(sqlite3.connect(path)) as connection:
      metadata = connection.execute("SELECT * FROM client_metadata").fetchall()
    assert sorted(metadata) == sorted(counts)
    return found

  return write
