"""Tests of code of a user, which may be in the place of ours."""

import multiprocessing
import sys
import types

import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tasks
import tff_fair
from tasks import models
from tff_fair.experiments import interruption
from tff_fair.methods import ditto, fedavg
from tff_fair.runtime.compilation_cache import keys, known_code


def mine(*args, **kwargs):
  """Stands for anything."""
  return args, kwargs


@pytest.mark.parametrize(
  ("owner", "name", "value"),
  [
    (models, "mlp", mine),
    (ditto, "build_ditto", mine),
    (fedavg.FedAvgRule, "coefficients", mine),
    (tasks.Task, "model", property(mine)),
    (tf.nn, "relu", mine),
    (tf.keras.layers.Dense, "call", mine),
    (tff, "federated_sum", mine),
    (tff.learning.optimizers, "build_sgdm", mine),
  ],
)
def test_with_a_replaced_name_there_is_no_key(monkeypatch, owner, name, value):
  before = keys.digest(1)
  monkeypatch.setattr(owner, name, value)
  with pytest.raises(TypeError, match=rf"{name} "):
    keys.digest(1)
  monkeypatch.undo()
  assert keys.digest(1) == before


def test_the_code_of_a_function_counts(monkeypatch):
  def other(*args, **kwargs):
    return mine(*args, **kwargs)

  monkeypatch.setattr(other, "__qualname__", "mlp")
  monkeypatch.setattr(other, "__module__", models.mlp.__module__)
  monkeypatch.setattr(models, "mlp", other)
  with pytest.raises(TypeError, match="mlp "):
    keys.check_replaced()


def test_what_ours_sets_itself_is_not_replaced(monkeypatch):
  before = keys.digest(1)
  # As `interruption.recorded` sets it.
  monkeypatch.setattr(interruption._State, "owns_process", True)
  assert keys.digest(1) == before


def test_new_names_change_nothing(monkeypatch):
  before = keys.digest(1)
  monkeypatch.setattr(tff_fair.types, "new", 3, raising=False)
  monkeypatch.setitem(sys.modules, "mine", types.ModuleType("mine"))
  assert keys.digest(1) == before


def test_a_users_registered_layer_has_no_key(monkeypatch):
  monkeypatch.setitem(tf.keras.utils.get_custom_objects(), "relu", mine)
  with pytest.raises(TypeError, match="relu "):
    keys.digest(1)


def test_whose_code_it_is():
  assert known_code.is_ours(models.__file__)
  assert not known_code.is_ours(tf.__file__)
  assert known_code.is_known(models.__file__)
  assert known_code.is_known(tf.__file__)
  assert known_code.is_known(types.__file__)
  assert not known_code.is_known(__file__)
  assert known_code.has_others()  # These tests.


def test_a_fork_of_pythons_server_has_no_code_of_a_user(monkeypatch):
  with multiprocessing.get_context("forkserver").Pool(1) as pool:
    argv = pool.apply(eval, ("__import__('sys').orig_argv",))
  main = types.ModuleType("__main__")
  monkeypatch.setattr(sys, "modules", {"__main__": main, "types": types})
  for orig_argv, expected in (
    (argv, False),
    (["python", "-c", "mine()"], True),
  ):
    monkeypatch.setattr(sys, "orig_argv", orig_argv)
    assert known_code.has_others() == expected
  # What a run imports is seen.
  mine = types.ModuleType("mine")
  mine.__file__ = __file__
  sys.modules["mine"] = mine
  monkeypatch.setattr(sys, "orig_argv", argv)
  assert known_code.has_others()


def test_a_link_to_another_file_is_no_file_of_ours(tmp_path, monkeypatch):
  ours, other = tmp_path / "ours", tmp_path / "other.py"
  ours.mkdir()
  other.touch()
  (ours / "link.py").symlink_to(other)
  (ours / "file.py").touch()
  monkeypatch.setattr(known_code, "folders", lambda: [ours])
  assert known_code.is_ours(str(ours / "file.py"))
  assert not known_code.is_ours(str(ours / "link.py"))
