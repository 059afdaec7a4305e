"""Tests of what decides a computation, as text."""

import collections
import functools
import types

import numpy as np
import pytest
import tensorflow as tf

from tasks import models
from tff_fair import client_works
from tff_fair.runtime.compilation_cache import keys, known_code

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
    of_text("lambda held: lambda x=held, *, y=held: (held, x, y)", 1),
    attack(),
    np.float32(0.5),
    float("nan"),
    collections.OrderedDict(a=1),
  ]


def test_equal_values_have_equal_keys():
  for first, second in zip(values(), values(), strict=True):
    assert keys.digest(first) == keys.digest(second)


def of_text(text, *args):
  """Returns what a function of a text gives, as if a file of ours held it."""
  names = vars(client_works)
  return eval(compile(text, client_works.__file__, "eval"), names)(*args)


def functions(text, *held):
  """Returns a function of ours for each value that it has beside its code."""
  return tuple(of_text(text, value) for value in held)


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
    (np.arange(3), np.arange(6)[::2]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1}, collections.OrderedDict(a=1)),
    (float("inf"), float("-inf")),
    (np.arange(6)[::2], np.arange(6)[::-2]),
    (tf.TensorSpec([2], name="a"), tf.TensorSpec([2], name="b")),
    functions("lambda held: lambda: held", 1, 2),
    functions("lambda held: lambda: held", np.zeros(3), np.ones(3)),
    functions("lambda held: lambda x=held: x", 1, 2),
    functions("lambda held: lambda *, x=held: x", 1, 2),
  ],
)
def test_different_values_have_different_keys(first, second):
  assert keys.digest(first) != keys.digest(second)


def test_functions_on_one_line_have_keys_of_their_own():
  found = of_text("lambda: [lambda: 1, lambda: 2, lambda: [1.0]]")
  assert len({keys.digest(f) for f in found}) == 3


def with_attribute(value):
  object.__setattr__(value, "hidden", 1)
  return value


def within_itself():
  value = []
  value.append(value)
  return value


def derived(kind, *args):
  return type("Derived", (kind,), {})(*args)


class Ours:
  """A key cannot say what decides it."""

  def method(self):
    """Stands for a model."""


def of_a_user():
  """Stands for a model, in no file of the library."""


@pytest.mark.parametrize(
  "value",
  [
    of_a_user,
    lambda: None,
    Ours(),
    Ours,
    Ours().method,
    len,
    {1, 2},
    functools.partial(of_a_user),
    functools.partial(models.mlp, of_a_user),
    [{"a": (of_a_user,)}],
    *(
      derived(kind, *args)
      for kind, *args in [
        *((int, 1), (str, "a"), (float, 1.0), (bytes, b"a"), (list, [1])),
        *((tuple, [1]), (dict, {"a": 1}), (functools.partial, attack)),
        (tf.TensorSpec, [2]),
      ]
    ),
    collections.defaultdict(attack, a=1),
    types.MappingProxyType({"a": 1}),
    with_attribute(collections.OrderedDict(a=1)),
    with_attribute(attack()),
    attack(of=type("Attack", (client_works.Attack,), {})),
    with_attribute(functools.partial(models.mlp, (4,))),
    attack().__eq__,
    np.array([object()]),
    np.zeros([2], [("a", np.int32)]),
    np.zeros([2]).view(np.recarray),
    np.ma.zeros([2]),
    within_itself(),
    types.FunctionType(models.mlp.__code__, {}),
  ],
)
def test_what_may_stand_for_anything_has_no_key(value):
  with pytest.raises(TypeError, match="stand for"):
    keys.digest(value)


def test_what_surrounds_a_program_is_in_the_key(monkeypatch):
  before = keys.digest(1)
  monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
  assert keys.digest(1) == before
  for change in (
    lambda: monkeypatch.setattr(keys, "SOURCES", "others"),
    lambda: monkeypatch.setattr(tf, "__version__", "2.14.2"),
    lambda: monkeypatch.setattr("sys.version", "3.12"),
    lambda: monkeypatch.setattr(keys, "_instructions", lambda: "flags: avx"),
    lambda: monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "7"),
    lambda: monkeypatch.setenv("OMP_NUM_THREADS", "7"),
    lambda: monkeypatch.setattr(tf.keras.backend, "epsilon", lambda: 1e-3),
    lambda: monkeypatch.setattr(
      tf.keras.backend, "image_data_format", lambda: "channels_first"
    ),
    lambda: monkeypatch.setattr(tf.config.optimizer, "get_jit", lambda: "on"),
    lambda: monkeypatch.setattr(tf.keras.backend, "floatx", lambda: "float64"),
  ):
    change()
    assert keys.digest(1) != before
    monkeypatch.undo()
    monkeypatch.setattr(known_code, "has_others", lambda: False)


def test_a_change_of_a_file_of_ours_changes_the_sources(monkeypatch, tmp_path):
  monkeypatch.setattr(known_code, "folders", lambda: [tmp_path])
  file = tmp_path / "part" / "rule.py"
  file.parent.mkdir()
  found = [keys.of_sources()]
  for change in (
    lambda: file.write_text("q = 1"),
    lambda: file.write_text("q = 2"),
    lambda: file.rename(file.with_name("rules.py")),
    (tmp_path / "new.py").touch,
  ):
    change()
    found.append(keys.of_sources())
  assert len(set(found)) == 5
  (tmp_path / "notes.txt").touch()
  assert keys.of_sources() == found[-1]
