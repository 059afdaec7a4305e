"""Tests of what a run keeps of the correction of labels."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import tasks
from tasks.formats import files
from tff_fair.experiments.runs import array_files
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.training import correction_record as records

pytestmark = pytest.mark.pure

NAMES = ("a", "=b", "c")
TRUTH = (np.array([0, 1, 2]), np.array([1, 1]), np.array([2]))
NOISY = (np.array([0, 1, 2]), np.array([0, 2]), np.array([2]))


class Labels:
  """The part of a label's spec that is asked for."""

  class shape:  # noqa: N801
    rank = 1

  class dtype:  # noqa: N801
    is_integer = True


def task():
  train = tasks.Split(
    num_examples=np.array([3, 2, 1]),
    load=lambda k: (np.zeros([len(NOISY[k]), 1]), NOISY[k]),
    true_labels=lambda k: TRUTH[k],
  )
  return tasks.Task(
    name="small",
    description="",
    client_names=NAMES,
    train=train,
    test=train,
    element_spec=(None, Labels),
    num_classes=3,
    keras_model_fn=lambda: None,
    objective=None,
  )


def record():
  return records.CorrectionRecord(
    iterations=2,
    is_done=True,
    weights=[np.array([[0.1, -0.0]], np.float32), np.zeros(0, np.float32)],
    labels={1: np.array([1, 2])},
    dimensions=np.array([4.0, 6.5, np.nan]),
    levels=np.array([0.0, 0.5, 0.0]),
    is_noisy=np.array([False, True, False]),
  )


@pytest.fixture
def folder(tmp_path):
  return RunFolder(tmp_path)


def test_a_saved_record_comes_back_bit_for_bit(folder):
  assert records.load(folder) is None
  records.save(folder, records.start([np.ones(2, np.float32)], 3))
  records.save(folder, record())  # In the place of the one before.
  loaded, expected = records.load(folder), record()
  for field in dataclasses.fields(expected):
    assert repr(getattr(loaded, field.name)) == repr(
      {k: np.asarray(y) for k, y in expected.labels.items()}
      if field.name == "labels"
      else getattr(expected, field.name)
    )
  assert loaded.weights[0].tobytes() == expected.weights[0].tobytes()
  assert [p.name for p in folder.path.iterdir()] == ["label_correction.npz"]


def test_what_a_killed_run_was_writing_goes(folder):
  staging = folder.path / f"{files.STAGING}abc"
  staging.mkdir()
  (staging / folder.label_correction.name).write_bytes(b"half")
  folder.remove_leftovers()
  assert not list(folder.path.iterdir())


@pytest.mark.parametrize("damage", ["cut", "changed", "text", "empty"])
def test_a_damaged_file_is_an_error_that_names_it(folder, damage):
  records.save(folder, record())
  content = folder.label_correction.read_bytes()
  middle = len(content) // 2
  folder.label_correction.write_bytes(
    {
      "cut": content[:middle],
      "changed": content.replace(record().levels.tobytes(), b"\1" * 24),
      "text": b"nothing of the kind",
      "empty": b"",
    }[damage]
  )
  with pytest.raises(array_files.DamageError, match=r"label_correction\.npz"):
    records.load(folder)


def test_the_table_has_a_row_for_each_client(folder):
  records.write_table(folder, task(), record())
  table = pd.read_csv(folder.label_corrections)
  assert table["client"].tolist() == ["a", "'=b", "c"]
  assert table["dimension"].tolist()[:2] == [2.0, 3.25]
  assert np.isnan(table["dimension"][2])
  assert table["noisy"].tolist() == [False, True, False]
  assert table["noise_level"].tolist() == [0, 0.5, 0]
  assert table["labels_changed"].tolist() == [0, 1, 0]
  assert table["wrong_labels_before"].tolist() == [0, 1, 0]
  assert table["wrong_labels_after"].tolist() == [0, 0.5, 0]


def test_words_count_clients_and_labels():
  assert records.describe(task(), record()) == (
    "1 of 3 clients noisy, 1 of 6 labels changed"
  )
