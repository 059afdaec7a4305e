"""Tests of reading tables of results that other programs wrote."""

import gzip

import pandas as pd
import pytest

from tests.refusals import rejected
from tff_fair.experiments.analysis import audit_table


def write(tmp_path, *lines):
  path = tmp_path / "results.csv"
  path.write_text("\n".join(lines) + "\n", encoding="utf-8")
  return path


def test_counts_become_accuracies_and_other_columns_are_ignored(tmp_path):
  path = write(tmp_path, "note,correct,n,client", "x,7,12,007", 'y,3,3,"a, b"')
  found = audit_table.read(path)
  expected = pd.DataFrame(
    {
      "client": ["007", "a, b"],
      "num_examples": [12, 3],
      "correct": [7, 3],
      "accuracy": [7 / 12, 1.0],
    }
  )
  pd.testing.assert_frame_equal(found, expected)


def test_accuracies_and_losses_stay_as_they_are(tmp_path):
  path = write(
    tmp_path, "client, n ,accuracy,loss", "a,10,0.25,-1e3", "b,2,1,0"
  )
  found = audit_table.read(path)
  assert found["accuracy"].tolist() == [0.25, 1]
  assert found["loss"].tolist() == [-1000, 0]


def test_clients_of_a_run_will_do(tmp_path):
  path = write(
    tmp_path,
    "client_id,client,num_train_examples,num_test_examples,test_loss,"
    "test_accuracy",
    "0,'=x,50,4,0.5,0.75",
    "1,NA,50,2,0.1,1.0",
  )
  found = audit_table.read(path)
  # The first name was quoted for spreadsheets; NA is a name, not a missing
  # value.
  assert found["client"].tolist() == ["=x", "NA"]
  assert found["num_examples"].tolist() == [4, 2]
  assert found["accuracy"].tolist() == [0.75, 1]


COUNTS, SHARES, LOSSES = (
  f"client,n,{score}" for score in ("correct", "accuracy", "loss")
)
REFUSED = [
  ([COUNTS, "a,2.5,1"], "'n', row 1 (client 'a')", "whole", "'2.5'"),
  ([COUNTS, "a,2,1", "b,0,0"], "'n', row 2 (client 'b')", "1 or more", "'0'"),
  ([COUNTS, "a,1e300,1"], "'n', row 1"),
  ([COUNTS, "a,,1"], "'n', row 1", "an empty cell"),
  ([COUNTS, "a,nan,1"], "'nan'"),
  ([COUNTS, "a,9,9", "b,9,10"], "'correct', row 2 (client 'b')", "9", "10"),
  ([COUNTS, "a,9,-1"], "'correct', row 1"),
  ([SHARES, "a,9,92.1"], "'accuracy', row 1 (client 'a')", "[0, 1]", "'92.1'"),
  (
    [f"{COUNTS},accuracy", "a,9,3,0.33", "b,10,5,0.9"],
    *("'accuracy', row 2 (client 'b')", "0.5,", "'correct'", "0.9;"),
  ),
  ([LOSSES, "a,9,inf"], "finite", "'inf'"),
  ([LOSSES, "a,9," + "x" * 60], f"'{'x' * 40}'"),
  ([COUNTS, "a,9,9", "b,9,9", "a,9,9"], "row 3 (client 'a')", "row 1 already"),
  ([COUNTS, " ,9,9"], "'client', row 1", "no name"),
  (["n,correct", "9,9"], "no column 'client'", "'n', 'correct'"),
  (["client,correct", "a,9"], "no column 'n'"),
  (["client,n,hits", "a,9,9"], "no column 'correct', 'accuracy' or 'loss'"),
  (["client,n, n,correct", "a,9,9,9"], "two columns 'n'"),
  (["client,n,correct,correct", "a,9,9,9"], "two columns 'correct'"),
  ([COUNTS], "no rows"),
  ([""], "not a CSV table"),
  ([COUNTS, "a,9,9,9,9"], "not a CSV table"),
  ([COUNTS, 'a,9,"9'], "not a CSV table"),
]


@pytest.mark.parametrize(("lines", "facts"), [(c[0], c[1:]) for c in REFUSED])
def test_a_wrong_file_is_named_with_column_and_row(tmp_path, lines, facts):
  path = write(tmp_path, *lines)
  with rejected("results", *facts, value=str(path)):
    audit_table.read(path)


def test_what_is_no_text_file_is_named(tmp_path):
  for path in (tmp_path / "nowhere.csv", tmp_path):
    with pytest.raises(ValueError, match=str(path)) as error:
      audit_table.read(path)
    assert "not a CSV table" not in str(error.value)
  path = tmp_path / "results.csv"
  path.write_bytes(gzip.compress(b"client,n,correct\na,1,1\n"))
  with pytest.raises(ValueError, match=str(path)):
    audit_table.read(path)
