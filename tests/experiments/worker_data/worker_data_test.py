"""Tests of clients' data in files that lie at the workers."""

import dataclasses
import hashlib
import json
import os
import zipfile

import numpy as np
import pytest

import tasks
from tasks import notices
from tests.experiments.training.small_run import (
  SMALL,
  check_same,
  tables,
  train,
)
from tests.refusals import rejected
from tff_fair import experiments
from tff_fair.experiments.training import client_data, task_loading
from tff_fair.experiments.worker_data import (
  folder_writing,
  index,
  worker_checks,
)

pytestmark = pytest.mark.usefixtures("compiled_once", "unpainted")

A_PIPE = b"a pipe"
SPEC = SMALL.replace(
  task_options={"num_clients": 5, "model": "logistic_regression"},
  seed=3,
  clients_per_round=3,
  total_rounds=2,
)
NOISY = {
  **SPEC.task_options,
  "label_noise": "pairwise",
  "noisy_clients": 1.0,
  "least_label_noise": 1.0,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
  folder = tmp_path_factory.mktemp("data") / "of digits"
  counts = []
  task = task_loading.load(SPEC)
  data = folder_writing.write(task, SPEC, folder, on_progress=counts.append)
  assert sum(counts) == 10
  return data


@pytest.fixture
def copied(written, tmp_path):
  folder = tmp_path / "copy"
  folder.mkdir()
  for path in written.folder.iterdir():
    (folder / path.name).write_bytes(path.read_bytes())
  return index.WorkerData(folder)


def write_index(folder, content):
  """Writes an index, and its version at the end of each file of rows."""
  text = json.dumps(content).encode()
  (folder / index.INDEX).write_bytes(text)
  version = hashlib.sha256(text).hexdigest().encode()
  for path in folder.glob("*.bin"):
    rows = path.read_bytes()[: -index.VERSION_BYTES]
    path.write_bytes(rows + version)


def no_task(*args, **kwargs):
  del args, kwargs
  raise AssertionError("The program reads the index alone.")


def test_the_index_makes_the_same_task(written, monkeypatch):
  expected = task_loading.load(SPEC)
  monkeypatch.setattr(tasks, "load", no_task)
  task = task_loading.load(SPEC, written)
  for name in ("name", "description", "element_spec", "num_classes"):
    assert getattr(task, name) == getattr(expected, name)
  assert list(task.client_names) == list(expected.client_names)
  check_same(
    task.keras_model_fn().get_weights(), expected.keras_model_fn().get_weights()
  )
  for split in index.SPLITS:
    mine, theirs = getattr(task, split), getattr(expected, split)
    np.testing.assert_array_equal(mine.num_examples, theirs.num_examples)
    data = client_data.RowsAtWorkers(written, split, task.element_spec)
    for client_id, dataset in enumerate(data(range(5))):
      ((found_id, examples),) = dataset.as_numpy_iterator()
      assert found_id == client_id
      for found, here, array in zip(
        examples, mine.load(client_id), theirs.load(client_id), strict=True
      ):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
        np.testing.assert_array_equal(here, array)


def test_a_run_is_the_same_bit_for_bit(written, tmp_path, monkeypatch):
  expected = train(SPEC, tmp_path / "expected")
  monkeypatch.setattr(tasks, "load", no_task)
  found = train(SPEC, tmp_path / "found", worker_data=written.folder)
  names = ("client_evaluations", "cohorts", "clients")
  assert tables(found, names) == tables(expected, names)
  check_same(found.model().get_weights(), expected.model().get_weights())


def test_a_run_that_needs_examples_in_this_program_is_refused(
  written, tmp_path
):
  spec = SPEC.replace(local_baseline=True)
  with rejected("worker_data", "local_baseline"):
    train(spec, tmp_path / "run", worker_data=written.folder)


@pytest.mark.parametrize(
  ("change", "problem"),
  [
    (lambda content: content, None),
    (None, "is missing"),
    (lambda content: content[:-1], "is shorter than the index says"),
    (
      lambda content: content[:-1] + bytes([content[-1] ^ 1]),
      "is of another version",
    ),
  ],
)
def test_workers_without_the_data_are_named(copied, change, problem):
  path = copied.folder / "test_x.bin"
  if change is None:
    path.unlink()
  else:
    path.write_bytes(change(path.read_bytes()))
  if problem is None:
    worker_checks.check(copied)
    return
  with rejected("worker_data", "this machine", f"{path} {problem}"):
    worker_checks.check(copied)


def test_a_pipe_is_not_waited_for(copied):
  path = copied.folder / "test_x.bin"
  path.unlink()
  os.mkfifo(path)
  with rejected("worker_data", "this machine", path):
    worker_checks.check(copied)


def test_a_wrong_label_is_named_with_its_place(copied, tmp_path):
  path = copied.folder / "train_y.bin"
  client = copied.client("train", 2)
  content = bytearray(path.read_bytes())
  (file,) = [f for f in copied.files("train") if f.name == path.name]
  size = np.dtype(file.dtype).itemsize
  content[(client.first_row + 3) * size] = 77
  path.write_bytes(content)
  found = f"label 77 in row 4 of client {copied.client_names[2]}, "
  place = f"this machine: {path} has the {found}"
  with rejected("worker_data", place, "0 to 9"):
    train(SPEC, tmp_path / "run", worker_data=copied.folder)


@pytest.mark.parametrize(
  ("change", "name"),
  [
    ({"seed": 4}, "seed"),
    ({"data_seed": 4}, "seed"),
    ({"task_options": {"num_clients": 6}}, "task_option.num_clients"),
    ({"task": "synthetic", "task_options": {}}, "task"),
    ({"task_options": NOISY}, "task_option.label_noise"),
  ],
)
def test_another_task_is_refused(written, change, name):
  with rejected("worker_data", name):
    task_loading.load(SPEC.replace(**change), written)


def test_files_have_the_noisy_labels(tmp_path):
  noisy = SPEC.replace(task_options=NOISY)
  task = task_loading.load(noisy)
  data = folder_writing.write(task, noisy, tmp_path / "noisy")
  clean = task_loading.load(SPEC)
  found = task_loading.load(noisy, data)
  for k in range(5):
    truth = clean.train.load(k)[1]
    for mine in (task, found):
      np.testing.assert_array_equal(mine.train.load(k)[1], (truth + 1) % 10)
      np.testing.assert_array_equal(mine.test.load(k)[1], clean.test.load(k)[1])


@pytest.mark.parametrize(
  ("name", "content"),
  [
    *(("index.json", text) for text in (None, b"{", b"[]", b"[" * 100_000)),
    ("index.json", b'{"format": "2"}'),
    *(("clients.npz", content) for content in (None, b"x", A_PIPE)),
    ("index.json", A_PIPE),
  ],
)
def test_a_damaged_index_is_one_line(copied, name, content):
  path = copied.folder / name
  path.unlink()
  if content == A_PIPE:
    os.mkfifo(path)
  elif content is not None:
    path.write_bytes(content)
  with rejected("worker_data", name):
    task_loading.load(SPEC, index.WorkerData(copied.folder))


def test_clients_that_are_no_arrays_are_one_line(copied):
  content = json.loads((copied.folder / "index.json").read_bytes())
  path = copied.folder / "clients.npz"
  header = b"{'descr': (((".ljust(20)
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("names.npy", b"\x93NUMPY\1\0\x14\0" + header)
  content["clients"] = hashlib.sha256(path.read_bytes()).hexdigest()
  write_index(copied.folder, content)
  with rejected("worker_data", "clients.npz"):
    task_loading.load(SPEC, index.WorkerData(copied.folder))


@pytest.mark.parametrize(
  "change", [{"made_of": 3}, {"model": 3}, {"files": {}}, {"num_classes": -1}]
)
def test_a_changed_index_is_of_another_version_than_its_files(copied, change):
  path = copied.folder / "index.json"
  path.write_text(json.dumps({**json.loads(path.read_bytes()), **change}))
  with rejected("worker_data", ".bin ", "index.json"):
    task_loading.load(SPEC, index.WorkerData(copied.folder))


def test_a_model_that_has_no_description_comes_from_the_task(copied):
  path = copied.folder / "index.json"
  content = json.loads(path.read_bytes())
  content["model"] = None
  write_index(copied.folder, content)
  task = task_loading.load(SPEC, index.WorkerData(copied.folder))
  assert len(task.keras_model_fn().get_weights()) == 2


def test_other_weights_come_from_the_task(written):
  spec = SPEC.replace(model_seed=SPEC.seed + 1)
  found, expected = (
    task_loading.load(spec, data).keras_model_fn().get_weights()
    for data in (written, None)
  )
  np.testing.assert_array_equal(found[0], expected[0])
  first = task_loading.load(SPEC, written).keras_model_fn().get_weights()
  assert not np.array_equal(found[0], first[0])


def test_nothing_is_overwritten_unasked(copied, tmp_path):
  task = task_loading.load(SPEC)
  with rejected("worker_data", "--overwrite"):
    folder_writing.write(task, SPEC, copied.folder)
  (tmp_path / "mine").mkdir()
  (tmp_path / "mine" / "file").touch()
  with rejected("worker_data", value=str(tmp_path / "mine")):
    folder_writing.write(task, SPEC, tmp_path / "mine", overwrite=True)
  again = folder_writing.write(task, SPEC, copied.folder, overwrite=True)
  assert again.version == copied.version
  names = {path.name for path in tmp_path.iterdir()}
  assert names == {"copy", "mine"}  # Nothing is left beside them.


def test_a_failure_leaves_no_folder(tmp_path):
  task = task_loading.load(SPEC)

  def interrupt(number):
    del number
    raise tasks.DataError("damaged")

  with pytest.raises(tasks.DataError, match="damaged"):
    folder_writing.write(task, SPEC, tmp_path / "new", on_progress=interrupt)
  assert list(tmp_path.iterdir()) == []


def test_groups_are_left_out_in_a_line(tmp_path):
  task = task_loading.load(SPEC)
  test = dataclasses.replace(task.test, groups=lambda _: np.zeros(1, int))
  with pytest.warns(notices.Notice, match="groups"):
    folder_writing.write(
      dataclasses.replace(task, test=test), SPEC, tmp_path / "folder"
    )


def test_variances_of_labels_are_known(tmp_path):
  rng = np.random.default_rng(0)
  path = tmp_path / "t.npz"
  np.savez(
    path,
    x=rng.random((40, 3), np.float32),
    y=rng.random(40).astype(np.float32),
    client=np.arange(40) % 4,
  )
  spec = experiments.RunSpec(
    task="arrays", task_options={"file": str(path)}, algorithm="fedavg"
  )
  task = task_loading.load(spec)
  assert task.num_classes is None
  data = folder_writing.write(task, spec, tmp_path / "folder")
  for client_id in range(task.num_clients):
    _, labels = task.test.load(client_id)
    found = data.label_variance("test", client_id)
    assert found == pytest.approx(float(np.var(labels, dtype=np.float64)))
