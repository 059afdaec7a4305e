"""Tests of cache keys, which depend on all that determines a computation."""

import collections
import functools
import subprocess
import types

import numpy as np
import pytest
import tensorflow as tf

from tasks import models
from tests import source_tree
from tff_fair import client_works
from tff_fair.runtime import known_code
from tff_fair.runtime.compilation_cache import keys

pytestmark = pytest.mark.usefixtures("all_code_known")


def attack(*, of=client_works.Attack, **changes):
  return of(
    **{"kind": "bias", "strength": 1.0, "client_ids": (1, 2), **changes}
  )


def values():
  return [
    [1, 2.5, "a", None, True, {"b": (b"c",)}],
    np.arange(6).reshape(2, 3),
    tf.TensorSpec([None, 3], tf.float32),
    functools.partial(models.mlp, (4,), (), 2, seed=1),
    models.class_objective(),
    attack(),
    np.float32(0.5),
    float("nan"),
    collections.OrderedDict(a=1),
  ]


def test_equal_values_have_equal_keys():
  for first, second in zip(values(), values(), strict=True):
    assert keys.digest(first) == keys.digest(second)


@pytest.mark.parametrize(
  ("first", "second"),
  [
    (1, 1.0),
    (1, True),
    (0.0, -0.0),
    (0.1, np.nextafter(0.1, 1).item()),
    ("1", 1),
    (None, "None"),
    ((1, 2), [1, 2]),
    ((1, (2, 3)), ((1, 2), 3)),
    (("a", "b"), ("a, str('b')",)),
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"b": 1}),
    (np.zeros([2, 3]), np.zeros([3, 2])),
    (np.zeros([2]), np.zeros([2], np.int64)),
    (np.zeros([2]), np.ones([2])),
    (tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int64)),
    (tf.TensorSpec([None], tf.int32), tf.TensorSpec([2], tf.int32)),
    (
      functools.partial(models.mlp, (4,), (), 2, 0),
      functools.partial(models.mlp, (4,), (), 2, 1),
    ),
    (
      functools.partial(models.fedavg_cnn, 10, 0),
      functools.partial(models.dropout_cnn, 10, 0),
    ),
    (models.class_objective(), models.multi_label_objective()),
    (attack(), attack(strength=2.0)),
    (attack(), attack(kind="scaling")),
    (attack(), attack(client_ids=(1, 3))),
    (np.float32(1), np.float64(1)),
    (np.float64(1), 1.0),
    (np.zeros([2, 3]), np.zeros([2, 3], order="F")),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1}, collections.OrderedDict(a=1)),
    (float("inf"), float("-inf")),
    (tf.TensorSpec([2], name="a"), tf.TensorSpec([2], name="b")),
  ],
)
def test_different_values_have_different_keys(first, second):
  assert keys.digest(first) != keys.digest(second)


def test_other_programs_have_the_same_keys(warm_python):
  program = """
import functools, numpy as np
from tasks import models
from tff_fair.runtime import known_code
from tff_fair.runtime.compilation_cache import keys
known_code.has_user_code = lambda: False
build = functools.partial(models.mlp, (4,), (), 2, 1)
print(keys.digest((build, np.arange(3))))
"""
  found = subprocess.run(
    [warm_python, "-c", program],
    cwd=source_tree.ROOT,
    stdout=subprocess.PIPE,
    text=True,
    check=True,
  ).stdout.strip()
  value = (functools.partial(models.mlp, (4,), (), 2, 1), np.arange(3))
  assert found == keys.digest(value)


def within_itself():
  value = []
  value.append(value)
  return value


@pytest.mark.parametrize(
  "value", [lambda: 1, types, (x for x in "a"), within_itself()]
)
def test_what_cannot_be_pickled_has_no_key(value):
  with pytest.raises(keys.NotCacheableError):
    keys.digest(value)


def test_with_code_of_a_user_there_is_no_key(monkeypatch):
  monkeypatch.undo()  # The fixture hides that tests are a user's code.
  with pytest.raises(keys.NotCacheableError):
    keys.digest(1)


def test_versions_and_environment_are_in_the_key(monkeypatch):
  before = keys.digest(1)
  monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
  assert keys.digest(1) == before
  for change in (
    lambda: monkeypatch.setattr(keys, "SOURCE_DIGEST", "others"),
    lambda: monkeypatch.setattr(tf, "__version__", "2.14.2"),
    lambda: monkeypatch.setattr("sys.version", "3.12"),
    lambda: monkeypatch.setattr(keys, "_instructions", lambda: "flags: avx"),
    lambda: monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "7"),
    lambda: monkeypatch.setenv("OMP_NUM_THREADS", "7"),
    lambda: monkeypatch.setattr(tf.keras.backend, "epsilon", lambda: 1e-3),
    lambda: monkeypatch.setattr(
      tf.keras.backend, "image_data_format", lambda: "channels_first"
    ),
    lambda: monkeypatch.setattr(tf.keras.backend, "floatx", lambda: "float64"),
  ):
    change()
    assert keys.digest(1) != before
    monkeypatch.undo()
    monkeypatch.setattr(known_code, "has_user_code", lambda: False)


def test_a_change_of_a_file_of_ours_changes_the_sources(monkeypatch, tmp_path):
  monkeypatch.setattr(known_code, "folders", lambda: [tmp_path])
  file = tmp_path / "part" / "rule.py"
  file.parent.mkdir()
  found = [keys.source_digest()]
  for change in (
    lambda: file.write_text("q = 1"),
    lambda: file.write_text("q = 2"),
    lambda: file.rename(file.with_name("rules.py")),
    (tmp_path / "new.py").touch,
  ):
    change()
    found.append(keys.source_digest())
  assert len(set(found)) == 5
  (tmp_path / "notes.txt").touch()
  assert keys.source_digest() == found[-1]
