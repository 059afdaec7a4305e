"""Tests of users' first tables: ids, empty labels, a file per hospital."""

import numpy as np
import pandas as pd
import pytest

import tasks
from tasks import notices
from tests.refusals import refused

_NAMES = ("east", "north", "south", "west")


def _patients():
  generator = np.random.default_rng(3)
  size = 120
  return pd.DataFrame(
    {
      "patient_id": generator.permutation(size) + 5000,
      "hospital": [_NAMES[k % 4] for k in range(size)],
      # A person's three visits are consecutive; persons are in no order.
      "person": np.arange(size) // 3 * 7 % 40,
      "age": 20.5 + generator.permutation(size) / 2,
      "ward": generator.choice(["a", "b"], size),
      "ill": np.where(generator.random(size) < 0.3, "yes", "no"),
    }
  )


def load(file, **options):
  defaults = {"client": "hospital", "label": "ill"}
  return tasks.load("table", file=str(file), **{**defaults, **options})


def columns(file, **options):
  return set(load(file, **options).preprocessing.columns)


@pytest.fixture
def table(tmp_path):
  def write(frame, name="patients.csv", **options):
    frame.to_csv(tmp_path / name, **{"index": False, **options})
    return tmp_path / name

  return write


def test_ids_and_numbers_of_rows_are_left_out_unless_kept(table):
  # pandas added row numbers twice, after sorting by label: they reveal the
  # label.
  frame = _patients().sort_values("ill").reset_index(drop=True)
  first = pd.read_csv(table(frame, index=True))
  first = first.assign(
    running=2_023_000_000 + 3 * np.arange(120),
    PatientID=[f"P{k:04}" for k in range(120)],
    covid=[k % 2 for k in range(120)],
  )
  path = table(first, index=True)
  ids = {"Unnamed: 0", "patient_id", "running", "PatientID"}
  with pytest.warns(notices.Notice, match="keep=") as told:
    assert columns(path) == {"person", "age", "ward", "covid"}
  assert all(name in str(told[0].message) for name in ids)
  with pytest.warns(notices.Notice):
    assert "running" in columns(path, keep="running")
  codes = table(_patients().assign(ward_id=[k % 3 for k in range(120)]))
  found = load(codes, categories="ward_id").preprocessing.columns
  assert (found["ward_id"], "patient_id" in found) == ("text", False)
  assert columns(path, features="patient_id,age") == {"patient_id", "age"}


def test_a_table_of_ids_alone_has_nothing_to_learn_from(table):
  path = table(_patients()[["patient_id", "hospital", "ill"]])
  with refused("patients.csv", "patient_id", "keep="):
    load(path)


def test_numbers_that_rise_for_a_while_stay(table):
  frame = _patients()
  frame = frame.assign(visit=np.arange(120) % 60, rank=frame["age"].rank())
  path = table(frame.sort_values("age"), name="sorted.csv")
  assert {"visit", "age"} <= columns(path, ignore="rank,patient_id")


def test_rows_without_a_label_are_counted_and_left_out_on_request(table):
  frame = _patients()
  frame.loc[np.arange(120) % 5 < 2, "ill"] = ""
  path = table(frame)
  with refused(path.name, "48 of 120 rows (40 %)", "drop_unlabelled=true"):
    load(path)
  with pytest.warns(notices.Notice, match=r"48 of 120 rows \(40 %\)"):
    task = load(path, drop_unlabelled=True)
  assert task.train.num_examples.sum() + task.test.num_examples.sum() == 72
  left = frame[frame["ill"] != ""]
  ages = [half.raw(0)[0]["age"] for half in (task.train, task.test)]
  np.testing.assert_allclose(
    np.sort(np.concatenate(ages)),
    np.sort(left["age"][left["hospital"] == "east"]),
    rtol=1e-6,
  )


@pytest.mark.parametrize(
  ("written", "options", "facts"),
  [
    ("|", {}, ["separator='|'"]),
    (",", {"separator": ";"}, ["';' does not divide", "separator=','"]),
    (
      ";",
      {"separator": ","},
      ["',' does not", "leave separator out, or give separator=';'"],
    ),
  ],
)
def test_a_wrong_separator_is_the_cause(table, written, options, facts):
  with refused("patients.csv", *facts):
    load(table(_patients(), sep=written), **options)


@pytest.fixture
def sites(tmp_path):
  """Returns a folder with a file per hospital, and a partitioned folder."""
  frame = _patients()
  (tmp_path / "sites").mkdir()
  for name, rows in frame.groupby("hospital"):
    rows.drop(columns="hospital").to_csv(
      tmp_path / "sites" / f"{name}.csv", index=False
    )
  frame.to_parquet(tmp_path / "parts", partition_cols=["hospital"])
  return tmp_path


@pytest.mark.parametrize("file", ["sites", "sites/*.csv", "parts"])
def test_a_folder_has_the_rows_of_one_file(sites, file):
  task, frame = load(sites / file), _patients()
  assert task.client_names == _NAMES
  frame.to_csv(sites / "all.csv", index=False)
  whole = load(sites / "all.csv")
  assert (
    task.description.partition(",")[2] == whole.description.partition(",")[2]
  )
  for client, name in enumerate(_NAMES):
    halves = [half.raw(client)[0] for half in (task.train, task.test)]
    found = pd.concat(map(pd.DataFrame, halves)).sort_values("age")
    rows = frame[frame["hospital"] == name].sort_values("age")
    np.testing.assert_allclose(found["age"], rows["age"], rtol=1e-6)
    assert found["ward"].tolist() == rows["ward"].tolist()


def test_files_that_do_not_agree_are_named(sites):
  extra = pd.read_csv(sites / "sites" / "west.csv").assign(weight=3)
  extra.to_csv(sites / "sites" / "west.csv", index=False)
  with refused("sites", "weight", "west.csv", "east.csv"):
    load(sites / "sites")
  with refused("*.tsv", "no table"):
    load(sites / "sites" / "*.tsv")
  # If the client column is mistyped, file names must not become the clients.
  rows = _patients()
  rows.to_csv(sites / "sites" / "west.csv", index=False)
  rows.to_csv(sites / "sites" / "east.csv", index=False)
  with refused("*st.csv", "'hospital'"):
    load(sites / "sites" / "*st.csv", client="hospitl")


def test_a_column_is_of_texts_if_one_file_has_texts_and_places_name_it(sites):
  west = pd.read_csv(sites / "sites" / "west.csv")
  west["ward"] = range(len(west))
  west.to_csv(sites / "sites" / "west.csv", index=False)
  found = load(sites / "sites").preprocessing.columns
  assert found["ward"] == "text"
  west.loc[4, "ill"] = ""
  west.to_csv(sites / "sites" / "west.csv", index=False)
  with refused("sites", "west.csv, line 6"):
    load(sites / "sites")


def test_a_persons_rows_are_on_one_side(table):
  frame = _patients()
  task = load(table(frame), split_by="person")
  assert "person" not in task.preprocessing.columns
  sides = {}
  for side in ("train", "test"):
    half = getattr(task, side)
    ages = np.concatenate([half.raw(k)[0]["age"] for k in range(4)])
    rows = frame["age"].astype(np.float32).isin(ages.astype(np.float32))
    sides[side] = set(frame["person"][rows])
  assert len(sides["train"] | sides["test"]) == 40
  assert not sides["train"] & sides["test"]
  assert 0.1 < task.test.num_examples.sum() / 120 < 0.35


def test_clients_with_too_few_rows_are_named(table):
  frame = _patients()
  few = frame.head(7).assign(hospital=[f"tiny {k}" for k in range(7)])
  few["ward"] = "of tiny"
  path = table(pd.concat([frame, few]), name="few.csv")
  with pytest.warns(notices.Notice, match="tiny 0.* tiny 4 and 2 more"):
    task = load(path, features="age,ward")
  assert task.client_names == _NAMES
  assert "4 clients (7 with too few rows left out)" in task.description
  # Texts of left-out clients are not categories.
  assert "of tiny" not in str(task.preprocessing.features)
