import asyncio

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.experiments.training import event_files_test
from tests.experiments.training.rounds_test import round_state
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import checksums
from tff_fair.experiments.training import (
  event_files,
  round_tables,
  saved_states,
)
from tff_fair.experiments.training.round_state import RoundEvaluation
from tff_fair.files import atomic

pytestmark = pytest.mark.pure


def rounds_of(folder, *states):
  """Writes rounds as a run does."""
  writers = [round_tables.TableWriter(folder), event_files.TensorBoard(folder)]
  for state in states:
    for writer in writers:
      writer.write(state)


def test_rounds_go_to_tables_and_to_tensorboard(folder):
  metrics = {"train": {"loss": np.float32(0.25)}, "empty": ()}
  evaluation = RoundEvaluation({"accuracy": {"mean": 0.5}}, {})
  clients = {"client_id": np.array([0, 2])}
  rounds_of(
    folder,
    round_state(0, evaluation=evaluation),
    round_state(
      1, metrics=metrics, timing={"round_seconds": 1.5}, clients=clients
    ),
    round_state(2, metrics=metrics, clients=clients, evaluation=evaluation),
  )
  assert folder.metrics.read_text().split() == [
    "round,train/loss",
    "1,0.25",
    "2,0.25",
  ]
  assert folder.evaluations.read_text().split() == [
    "round,accuracy/mean",
    "0,0.5",
    "2,0.5",
  ]
  assert folder.timing.read_text().split() == [
    "round,round_seconds",
    "1,1.5",
    "2,",
  ]
  assert folder.cohorts.read_text().split() == [
    "round,client_id",
    *("1,0", "1,2", "2,0", "2,2"),
  ]
  steps = event_files_test.steps
  assert steps(folder.tensorboard / "train", "train/loss") == [1, 2]
  assert steps(folder.tensorboard / "test", "accuracy/mean") == [0, 2]


def test_an_evaluation_is_in_its_table_after_its_clients(folder, monkeypatch):
  clients = {"client_id": np.array([0, 2]), "accuracy": np.array([0.0, 1.0])}
  evaluation = RoundEvaluation({"accuracy": {"mean": 0.5}}, clients)

  def append_row(path, round_num, row):
    del row
    if path == folder.evaluations:
      found = round_tables.count_rows(folder.client_evaluations)
      appended.append((round_num, found[round_num]))

  appended = []
  monkeypatch.setattr(round_tables, "append_row", append_row)
  rounds_of(folder, *(round_state(k, evaluation=evaluation) for k in (0, 4)))
  assert appended == [(0, 2), (4, 2)]


TABLE = b"round,loss\r\n1,0.5\r\n2,0.25\r\n10,0.125\r\n"


@pytest.mark.parametrize(
  ("text", "last_round", "expected"),
  [
    (TABLE, 10, TABLE),
    (TABLE, 11, TABLE),
    (TABLE, 9, b"round,loss\r\n1,0.5\r\n2,0.25\r\n"),
    (TABLE, 1, b"round,loss\r\n1,0.5\r\n"),
    # An incomplete last row is dropped, even if it looks like a whole row.
    (TABLE + b"1", 10, TABLE),
    (TABLE + b"11,0.0", 11, TABLE),
    # Some rows are zeros, which a power cut leaves.
    (TABLE + b"\0" * 20, 11, TABLE),
    (TABLE + b"11,\0\0\0\r\n12,1.0\r\n", 12, TABLE),
    (b"\0" * 20, 11, None),
    # Nothing is left.
    (TABLE, 0, None),
    (b"round,loss\r\n", 3, None),
    (b"rou", 3, None),
    (b"", 3, None),
    (None, 3, None),
  ],
)
def test_only_complete_rows_of_saved_rounds_are_kept(
  tmp_path, text, last_round, expected
):
  path = tmp_path / "metrics.csv"
  if text is not None:
    path.write_bytes(text)
  round_tables.keep_rounds(path, last_round)
  assert (path.read_bytes() if path.exists() else None) == expected
  assert len(list(tmp_path.iterdir())) == (expected is not None)


def test_a_table_loses_rounds_that_are_not_due(tmp_path):
  path = tmp_path / "evaluations.csv"
  path.write_bytes(b"round,a\r\n0,1\r\n2,1\r\n3,1\r\n4,1\r\n6,1\r\n")
  round_tables.keep_rounds(path, 4, event_files_test.is_even)
  assert path.read_bytes() == b"round,a\r\n0,1\r\n2,1\r\n4,1\r\n"


def test_a_table_goes_on_after_it_was_cut(folder):
  def write(*rounds):
    for key in rounds:
      round_tables.append_row(folder.metrics, key, {"loss": key / 2})

  write(1, 2, 3, 4, 5)
  complete = folder.metrics.read_bytes()
  round_tables.keep_rounds(folder.metrics, 3)
  write(4, 5)
  assert folder.metrics.read_bytes() == complete


def opened(folder):
  return saved_states.Checkpoints(folder.checkpoints, folder.round_tables)


def test_a_state_of_another_structure_is_told_in_one_line(folder):
  manager = opened(folder)
  weights = [np.zeros(2, np.float32), np.zeros(3, np.float32)]
  manager.save(round_state(7, {"weights": weights}))
  found, version, _ = manager.load_latest({"weights": weights})
  assert version == 7
  np.testing.assert_array_equal(found["weights"][1], weights[1])
  for other in (tuple(weights), weights[:1]):
    with pytest.raises(RunError, match="round 7") as raised:
      manager.load_latest({"weights": other})
  assert "\n" not in str(raised.value)


def test_a_state_is_saved_after_its_rows_and_both_last(folder, monkeypatch):
  synchronized = []
  monkeypatch.setattr(atomic, "sync", synchronized.append)
  folder.metrics.write_bytes(TABLE)
  opened(folder).save(round_state(10, {"w": np.zeros(2)}))
  state = folder.checkpoints / "program_state_10"
  assert synchronized[0] == folder.metrics
  # The state is in another folder until it is complete.
  place = synchronized[-2].parent
  assert place.parent == folder.checkpoints
  assert synchronized[-2:] == [place / state.name, folder.checkpoints]
  written = {
    place / path.relative_to(state.parent) for path in state.rglob("*")
  }
  assert set(synchronized[1:-2]) >= written


# Tests of tables against TFF's own release manager.


ROUNDS = (
  {"b": {"x": np.float32(0.1), "a": np.int64(3)}, "a": 1.5, "empty": ()},
  {"b": {"x": np.float32("nan"), "a": np.int64(-3)}, "a": 1e-30},
  # New columns have a vector, and a string that CSV quotes; `b` is missing.
  {"a": True, "later": np.array([0.5, 2.0]), "text": 'a "b", c'},
  {"b": {"a": np.int64(2**62)}, "list": [np.float32(1.1), 2], "a": -np.inf},
)


def test_a_table_is_byte_for_byte_that_of_tff(tmp_path):
  ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
  for key, value in enumerate(ROUNDS):
    # The table is opened again each time, as by a resumed run.
    round_tables.append_row(ours, key, value)
    manager = tff.program.CSVFileReleaseManager(theirs, key_fieldname="round")
    asyncio.run(manager.release(value, key))
    # The only difference is that we leave NaN empty.
    wanted = theirs.read_bytes().replace(b"nan", b"")
    assert ours.read_bytes() == wanted
  assert ours.read_text().startswith("round,a,b/a,b/x,later,text,list/0,list/1")
  assert len(list(tmp_path.iterdir())) == 2


def test_rows_are_appended_exactly(tmp_path):
  path = tmp_path / "clients.csv"
  loss = np.array([0.1, np.nan, 1e-30], np.float32)
  columns = {"client_id": np.array([0, 2, 3]), "loss": loss}
  round_tables.append_rows(path, 4, columns)
  # A resumed run appends rows in the same way.
  round_tables.append_rows(path, 8, columns)
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
    round_tables.append_rows(path, 4, columns)
  assert path.read_bytes() == content


def test_checksums_follow_tables_that_grow_and_get_columns(folder):
  hasher = checksums.Hasher()
  folder.config.write_text("{}")
  for key, value in enumerate(({"a": 1}, {"a": 2}, {"a": 3, "b": 4}, {"a": 5})):
    round_tables.append_row(folder.metrics, key, value)
    checksums.write(folder.path, [folder.config, folder.metrics], hasher)
    found = checksums.read(folder.path)["metrics.csv"]
    assert checksums.difference(folder.metrics, found) is None
  # As after a kill between a table's new column and the next state.
  round_tables.append_row(folder.metrics, 4, {"a": 1, "c": 0})
  assert set(checksums.read(folder.path)) == {"config.json"}
