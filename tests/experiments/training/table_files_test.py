"""Tests of tables, against TFF's own release manager."""

import asyncio

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.training import release

pytestmark = pytest.mark.pure


def release_to(manager, *values):
  async def run():
    for key, value in values:
      await manager.release(value, key)

  asyncio.run(run())


ROUNDS = (
  {"b": {"x": np.float32(0.1), "a": np.int64(3)}, "a": 1.5, "empty": ()},
  {"b": {"x": np.float32("nan"), "a": np.int64(-3)}, "a": 1e-30},
  # Another column, a vector, a text with what CSV quotes; some are missing.
  {"a": True, "later": np.array([0.5, 2.0]), "text": 'a "b", c'},
  {"b": {"a": np.int64(2**62)}, "list": [np.float32(1.1), 2], "a": -np.inf},
)


def test_a_table_is_byte_for_byte_that_of_tff(tmp_path):
  ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
  for key, value in enumerate(ROUNDS):
    # Opened anew each time, as a run that goes on does.
    release_to(release.RowReleaseManager(ours), (key, value))
    release_to(
      tff.program.CSVFileReleaseManager(theirs, key_fieldname="round"),
      (key, value),
    )
    # But for what is no number.
    wanted = theirs.read_bytes().replace(b"nan", b"")
    assert ours.read_bytes() == wanted
  assert ours.read_text().startswith("round,a,b/a,b/x,later,text,list/0,list/1")
  assert len(list(tmp_path.iterdir())) == 2


def test_a_table_that_tff_began_goes_on(tmp_path):
  path = tmp_path / "timing.csv"
  tff.program.CSVFileReleaseManager(path, key_fieldname="round")
  release_to(
    release.RowReleaseManager(path), (1, {"s": 0.5}), (2, {"s": 2, "t": 3})
  )
  assert path.read_bytes() == b"round,s,t\r\n1,0.5,\r\n2,2,3\r\n"


def test_rows_are_appended_exactly(tmp_path):
  path = tmp_path / "clients.csv"
  loss = np.array([0.1, np.nan, 1e-30], np.float32)
  columns = {"client_id": np.array([0, 2, 3]), "loss": loss}
  release_to(release.RowsReleaseManager(path), (4, columns))
  # As a run that goes on.
  release_to(release.RowsReleaseManager(path), (8, columns))
  header, *rows = path.read_text().splitlines()
  assert header == "round,client_id,loss"
  assert [row.split(",")[0] for row in rows] == ["4"] * 3 + ["8"] * 3
  read = [float(row.split(",")[2]) for row in rows[3:]]
  np.testing.assert_array_equal(np.array(read, np.float32), loss)


def test_a_table_goes_on_with_the_columns_of_runs_alone(tmp_path):
  path = tmp_path / "cohorts.csv"
  content = b"round,cliant_id,loss\r\n3,7,0.5\r\n"
  path.write_bytes(content)
  columns = {"client_id": np.array([2]), "loss": np.array([1.0])}
  with pytest.raises(RunError, match=r"cohorts\.csv: .* round, cliant_id,"):
    release_to(release.RowsReleaseManager(path), (4, columns))
  assert path.read_bytes() == content


def test_a_cell_of_nothing_is_empty(tmp_path):
  path = tmp_path / "cohorts.csv"
  columns = {"client_id": np.array([0, 2]), "loss": np.array([None, 0.5])}
  release_to(release.RowsReleaseManager(path), (4, columns))
  assert path.read_text().split() == ["round,client_id,loss", "4,0,", "4,2,0.5"]


def test_columns_of_different_lengths_are_an_error(tmp_path):
  manager = release.RowsReleaseManager(tmp_path / "clients.csv")
  columns = {"client_id": np.arange(3), "loss": np.zeros(2)}
  with pytest.raises(ValueError, match="shorter"):
    release_to(manager, (1, columns))
