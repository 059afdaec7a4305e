"""Tests of `ClientSource`, a picklable description of clients' examples."""

import dataclasses
import os
import pickle

import numpy as np
import pytest

import tasks

OPTIONS = {"num_clients": 5, "model": "logistic_regression"}
SOURCE = tasks.ClientSource(task="digits", options=OPTIONS, seed=3)

OWN_TASK = """
import dataclasses
import numpy as np
import tasks

def small(*, seed, scale: float = 1.0):
  task = tasks.load("digits", num_clients=2, seed=seed)
  def load(client_id):
    x, y = task.train.load(client_id)
    return x * np.float32(scale), y
  train = tasks.Split(num_examples=task.train.num_examples, load=load)
  return dataclasses.replace(task, train=train)
"""


@pytest.mark.parametrize("split", ["train", "test", "validation"])
def test_examples_are_the_tasks_wherever_it_was_pickled(split):
  source = dataclasses.replace(SOURCE, split=split, validation_fraction=0.2)
  source = pickle.loads(pickle.dumps(source))
  task = tasks.load("digits", seed=3, **OPTIONS)
  part = getattr(tasks.with_validation(task, 0.2, seed=3), split)
  for client_id in range(5):
    for found, expected in zip(
      source(client_id), part.load(client_id), strict=True
    ):
      assert found.dtype == expected.dtype
      np.testing.assert_array_equal(found, expected)


def test_a_task_is_loaded_once(monkeypatch):
  calls = []
  load = tasks.registry.load

  def counted(*args, **kwargs):
    calls.append(args)
    return load(*args, **kwargs)

  monkeypatch.setattr(tasks.registry, "load", counted)
  source = tasks.ClientSource(task="digits", seed=4)
  source(0)
  source(1)
  assert source.version
  assert len(calls) == 1


@pytest.mark.parametrize("client_id", [-1, 5])
def test_there_is_no_other_client(client_id):
  with pytest.raises(ValueError, match=f"{client_id}"):
    SOURCE(client_id)


def test_versions_differ_where_data_does(tmp_path, monkeypatch):
  (tmp_path / "own.py").write_text(OWN_TASK)
  monkeypatch.chdir(tmp_path)

  def version(**options):
    return tasks.ClientSource(task="own.py:small", options=options).version

  noise = {**OPTIONS, "label_noise": "pairwise", "noisy_clients": 1.0}
  noisier = {**noise, "least_label_noise": 0.51}
  found = [
    SOURCE.version,
    dataclasses.replace(SOURCE, options=noise).version,
    dataclasses.replace(SOURCE, options=noisier).version,
    dataclasses.replace(SOURCE, seed=0).version,
    dataclasses.replace(SOURCE, split="test").version,
    version(),
    version(scale=2.0),
  ]
  assert len(set(found)) == len(found)
  assert version(scale=1.0) == version()
  assert all(len(digest) == 64 for digest in found)


def test_relative_places_lead_to_the_same_elsewhere(tmp_path, monkeypatch):
  (tmp_path / "own.py").write_text(OWN_TASK)
  monkeypatch.chdir(tmp_path)
  source = tasks.ClientSource(task="own.py:small", data_dir=".")
  monkeypatch.chdir(os.path.sep)
  assert source.data_dir == str(tmp_path)
  assert len(source(1)) == 2
