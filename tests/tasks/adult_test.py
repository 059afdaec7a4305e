import gzip

import numpy as np
import pytest

import tasks
from tests.refusals import refused, rejected
from tests.tasks import tabular_data


def _load(directory, **options):
  return tasks.load("adult", data_dir=directory, **options)


@pytest.fixture
def folder(tmp_path):
  tabular_data.write_adult(tmp_path)
  return tmp_path


def test_clients_with_and_without_a_doctorate(folder):
  task = _load(folder)
  assert task.client_names == ("phd", "non_phd")
  assert task.train.num_examples.tolist() == [1, 2]
  assert task.test.num_examples.tolist() == [1, 1]
  assert task.train.load(0)[1].tolist() == [1]
  assert task.train.load(1)[1].tolist() == [0, 1]
  assert task.test.load(0)[1].tolist() == [0]
  assert task.test.load(1)[1].tolist() == [1]


def test_groups_of_people(folder):
  path = folder / "adult.test"
  path.write_text(path.read_text().replace("Male", "Female", 1))
  task = _load(folder, group="sex")
  assert task.group_names == ("Female", "Male")
  codes = [task.test.groups(k).tolist() for k in (0, 1)]
  assert sorted(codes) == [[0], [1]]
  assert task.train.groups(1).tolist() == [1, 1]
  assert _load(folder).group_names is None


def test_a_feature_for_each_value_of_the_training_file(folder):
  x, _ = _load(folder).train.load(1)
  # Each row has a 1 for each of 8 columns. Five columns have one value, and
  # three have two, so there are 11 features.
  assert x.shape == (2, 11)
  assert x.sum(axis=1).tolist() == [8, 8]
  # The test file's relationship "Other" has no feature.
  assert _load(folder).test.load(1)[0].sum() == 7


def test_numbers_are_standardized(folder):
  task = _load(folder, features="all")
  numbers = np.concatenate([task.train.load(k)[0][:, 11:] for k in (0, 1)])
  assert numbers.shape == (3, 6)
  # Only hours differ: 40, 60 and 40.
  np.testing.assert_array_equal(numbers[:, :5], 0)
  np.testing.assert_allclose(numbers.mean(axis=0), 0, atol=1e-6)
  np.testing.assert_allclose(numbers[:, 5].std(), 1, rtol=1e-6)
  assert numbers[0, 5] > 0 > numbers[1, 5]


def test_rows_with_missing_values(folder):
  task = _load(folder, missing="leave_out")
  assert task.train.num_examples.tolist() == [1, 1]
  assert "(1 rows with missing values left out)" in task.description


def test_compressed(folder):
  for name in ("adult.data", "adult.test"):
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    (folder / f"{name}.gz").write_bytes(gzip.compress(content))
  assert _load(folder).train.num_examples.tolist() == [1, 2]
  whole = (folder / "adult.data.gz").read_bytes()
  (folder / "adult.data.gz").write_bytes(whole[:-20])
  with refused("adult.data.gz", "truncated"):
    _load(folder)


@pytest.mark.parametrize(
  ("row", "fact"),
  [
    (b"39, Private", "2 fields, expected 15"),
    (tabular_data.adult_row(hours="many").encode(), "'many'"),
    (tabular_data.adult_row(label="rich").encode(), "'rich'"),
    (b"39, Priv\xe4t", "utf-8"),
  ],
)
def test_bad_rows(folder, row, fact):
  with (folder / "adult.data").open("ab") as file:
    file.write(row)
  with refused("adult.data, line 5", fact):
    _load(folder)


def test_in_a_folder_of_its_name(folder):
  (folder / "adult").mkdir()
  for name in ("adult.data", "adult.test"):
    (folder / name).rename(folder / "adult" / name)
  assert _load(folder).train.num_examples.tolist() == [1, 2]


def test_no_files(folder):
  with refused("data_dir", "adult.data and adult.test"):
    tasks.load("adult")
  (folder / "adult.test").unlink()
  with refused(folder, "adult.test.gz"):
    _load(folder)


def test_no_rows_at_all_or_of_a_client(folder):
  (folder / "adult.data").write_text(tabular_data.adult_row())
  with refused("adult.data", "phd"):
    _load(folder)
  (folder / "adult.test").write_text("|1x3 Cross validator\n")
  with refused("adult.test", "no rows"):
    _load(folder)


def test_two_clients_are_all():
  with rejected("num_clients", "2", value=3):
    tasks.load("adult", num_clients=3)


def test_real_files(real):
  task = _load(real("adult/adult.data.gz").parent)
  assert task.train.num_examples.tolist() == [413, 32_561 - 413]
  assert task.test.num_examples.tolist() == [181, 16_281 - 181]
  assert task.train.load(0)[0].shape[1] == 102
