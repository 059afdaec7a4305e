"""Tests of digests of data, which depend on every file that a task reads."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tasks
from tasks import digests, models
from tasks.formats import source_files
from tests.tasks import tabular_data, task_files


def _write_parquet(directory):
  header, rows = tabular_data.patients()
  table = pd.DataFrame(rows, columns=header)
  table.to_parquet(directory / "patients.parquet")


_PATTERNS = {
  "table": "*.csv",
  "arrays": "*.npz",
  "leaf": "**/*.json",
  "client_data": "*.sqlite",
  "mnist": "*",
  "cifar10": "**/*_*",
  "cinic10": "**/*.png",
  "adult": "adult.*",
  "tfds": "**/*.*-of-*",
}
# Maps a kind of data to its writer, and to its files, task and options.
KINDS: Mapping[str, tuple[Any, str, str, Mapping[str, Any]]] = {
  **{
    name: (task_files.WRITERS[name], files, name, task_files.OPTIONS[name])
    for name, files in _PATTERNS.items()
  },
  "parquet": (
    _write_parquet,
    "*.parquet",
    "table",
    {**task_files.OPTIONS["table"], "file": "patients.parquet"},
  ),
}


def _load(directory, kind):
  _, _, name, options = KINDS[kind]
  return tasks.load(name, data_dir=directory, **options)


@pytest.fixture(scope="module", params=KINDS)
def data(request, tmp_path_factory):
  """Returns the name of a kind of data, and a folder with data of this kind."""
  folder = tmp_path_factory.mktemp(request.param)
  KINDS[request.param][0](folder)
  return request.param, folder


def test_each_file_decides_the_digest_and_its_time_does_not(data):
  kind, folder = data
  task = _load(folder, kind)
  files = [f for f in folder.glob(KINDS[kind][1]) if f.is_file()]
  assert files
  assert {*files} <= {*task.files}
  before = tasks.data_digests(task)
  for path in files[:: max(1, len(files) // 3)]:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(path, ns=(0, 1))
    assert tasks.data_digests(task) != before
    path.write_bytes(content)
    os.utime(path, ns=(0, 2))
    assert tasks.data_digests(task) == before


def test_seeds_and_places_do_not_decide_the_digest_of_files(tmp_path):
  found = []
  for seed, name in enumerate(("one", "two")):
    (tmp_path / name).mkdir()
    tabular_data.write_arrays(tmp_path / name)
    options = {"file": "examples.npz", "seed": seed}
    task = tasks.load("arrays", data_dir=tmp_path / name, **options)
    found.append(tasks.data_digests(task))
  assert found[0] == found[1]
  assert found[0].keys() == {"examples.npz"}


@pytest.mark.parametrize("place", [0, 1, 12_345, 54_321, 99_999])
def test_of_large_files_blocks_and_both_ends_decide(
  tmp_path, monkeypatch, place
):
  monkeypatch.setattr(source_files, "MOST_BYTES", 80_000)
  path, small = tmp_path / "large", tmp_path / "small"
  content = bytearray(100_000)
  path.write_bytes(content)
  small.write_bytes(b"x")
  before = source_files.digests([path, small])
  assert before.keys() == {"large", "small"}
  assert source_files.digests([path])["large"] != before["small"]
  content[place] = 1
  path.write_bytes(content)
  os.utime(path, ns=(0, 1))
  after = source_files.digests([path, small])
  # The blocks of 80,000 bytes at both ends overlap, so no byte is missed.
  assert after["large"] != before["large"]
  assert after["small"] == before["small"]


def test_many_files_have_one_digest(tmp_path):
  paths = [tmp_path / str(k) for k in range(30)]
  for path in paths:
    path.write_text("same")
  (name,) = before = source_files.digests(paths)
  assert "30" in name
  paths[7].write_text("else")
  os.utime(paths[7], ns=(0, 1))
  assert source_files.digests(paths).keys() == before.keys()
  assert source_files.digests(paths) != before


def _task(labels, names=("a", "b"), x=1):
  """Returns a user's task without files; all clients have the same arrays."""
  arrays = np.full([len(labels), 2], x, np.float32), np.array(labels, np.int32)
  data = dict.fromkeys(names, arrays)
  return tasks.from_client_data(
    data, data, lambda: models.mlp((2,), (), 3, 0), num_classes=3
  )


def test_without_files_names_labels_and_inputs_decide():
  before = tasks.data_digests(_task([0, 1, 2]))
  assert before.keys() == {"examples"}
  assert tasks.data_digests(_task([0, 1, 2])) == before
  for other in (
    _task([0, 2, 1]),
    _task([0, 1, 2], x=1.001),
    _task([0, 1, 2], ("a", "c")),
    _task([0, 1, 2, 2]),
  ):
    assert tasks.data_digests(other) != before


def test_rows_that_are_set_aside_decide_too():
  task = _task([0, 1, 2])
  found = {
    tasks.data_digests(dataclasses.replace(task, validation=part))["examples"]
    for part in (None, task.test, _task([0, 2, 1]).test)
  }
  assert len(found) == 3


def test_of_a_large_population_some_clients_and_all_sizes_decide(monkeypatch):
  monkeypatch.setattr(digests, "_MOST_CLIENTS", 1)
  monkeypatch.setattr(digests, "_SAMPLED_CLIENTS", 2)
  task, read = _task([0, 1, 2], "abcdefg"), []

  def load(client_id):
    read.append(client_id)
    return task.train.load(client_id)

  train = dataclasses.replace(task.train, load=load)
  before = tasks.data_digests(dataclasses.replace(task, train=train))
  assert read == [0, 6]
  sizes = dataclasses.replace(train, num_examples=np.array([3] * 6 + [4]))
  after = tasks.data_digests(dataclasses.replace(task, train=sizes))
  assert after != before
