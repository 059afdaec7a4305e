"""Tests of tasks that are a user's functions: their options and errors."""

import importlib.metadata
import sys
import textwrap
import warnings
from typing import Literal

import numpy as np
import pytest

import tasks
from binaries import command_line
from tasks import label_noise, registry
from tasks.user_code import user_task
from tests.refusals import refused
from tff_fair.declared import FieldError

FUNCTION = '''
from __future__ import annotations
from typing import Literal
import tasks

def mine(
  *,
  number: int = 3,
  share: float | None = None,
  kind: Literal["one", "two"] = "one",
  silent: bool = False,
  seed: int,
  data_dir,
) -> tasks.Task:
    """Makes something.

    Args:
        number: How many
            there are.
        kind (str): Which kind: one or two.
        seed: Seed.

    Returns:
        silent: nothing.
    """
    return number, share, kind, silent, seed, data_dir
'''


@pytest.fixture
def function(tmp_path, monkeypatch):
  """Returns a function that writes a user's file, and returns FILE:FUNCTION."""
  monkeypatch.setattr(sys, "path", list(sys.path))

  def written(text=FUNCTION):
    path = tmp_path / "mine.py"
    path.write_text(textwrap.dedent(text))
    return f"{path}:mine"

  return written


def test_arguments_are_options(function):
  name = function()
  own = {"number": 3, "share": None, "kind": "one", "silent": False}
  assert tasks.option_names(name) == (*own, *label_noise.NAMES)
  assert tasks.option_defaults(name) == {
    **own,
    **label_noise.Options().to_dict(),
  }
  fields = tasks.option_fields(name)
  assert fields["kind"].annotation == Literal["one", "two"]
  assert fields["number"].meaning == "How many there are."
  assert fields["kind"].meaning == "Which kind: one or two."
  assert fields["silent"].meaning.endswith("does not describe it.")
  assert tasks.parse_options(name, ["share=0.5", "kind=two"]) == {
    "share": 0.5,
    "kind": "two",
  }
  assert tasks.check_options(name, {"share": 1}) == {"share": 1.0}
  with pytest.raises(ValueError, match="'colour'"):
    tasks.check_options(name, {"colour": 1})
  with pytest.raises(ValueError, match=r"number.*twice"):
    tasks.parse_options(name, ["number=1", "number=2"])


def test_names_and_digests(function):
  name = function()
  assert tasks.is_task(name)
  assert tasks.short_name(name) == "mine"
  assert tasks.short_name("digits") == "digits"
  before = tasks.file_digest(name)
  assert before == tasks.file_digest(name)
  function(f"{FUNCTION}\n# Changed.")
  assert tasks.file_digest(name) != before
  assert tasks.file_digest("digits") is None


@pytest.mark.parametrize(
  ("arguments", "expected"),
  [
    ("number", "number has no annotation; expected int, float,"),
    ("number: list[int] = ()", r"number is annotated with list\[int\]; exp"),
    ("number: dict = {}", "number is annotated with <class 'dict'>"),
    ("number: 'Unknown' = 1", "cannot be read: name 'Unknown' is not"),
    ("number: int", "number has no default"),
    ("number: int = None", "number does not take its default None: .* integer"),
    ("*numbers: int", "numbers .*name"),
    ("**numbers: int", "numbers .*name"),
    ("to_dict: int = 1", "to_dict"),
  ],
)
def test_arguments_that_can_be_no_options(function, arguments, expected):
  name = function(f"def mine({arguments}): ...")
  with pytest.raises(FieldError, match=expected):
    tasks.check_name(name)
  assert not tasks.is_task(name)


def test_an_own_option_of_label_noise_is_the_functions(function):
  name = function("def mine(*, noisy_clients: int = 2): ...")
  assert tasks.option_defaults(name) == {"noisy_clients": 2}
  assert tasks.check_options(name, {"noisy_clients": 5}) == {"noisy_clients": 5}


def test_what_a_function_returns_and_raises(function):
  with pytest.raises(FieldError, match="tuple"):
    tasks.load(function(), seed=3)
  with pytest.raises(FieldError, match=r"line 2 .*KeyError"):
    tasks.load(function("def mine():\n  return {}['a']"))
  name = function(
    "import tasks\ndef mine():\n  raise tasks.DataError('hospital C')"
  )
  with pytest.raises(tasks.DataError) as raised:
    tasks.load(name)
  assert command_line.error_line(raised.value) == f"--task: {name}: hospital C"


TASK = """
import numpy as np
import tensorflow as tf
import tasks
from tasks import models, task
from tasks.models import user_model

def build(num_classes):
  return tf.keras.Sequential(
    [tf.keras.layers.InputLayer([3]), tf.keras.layers.Dense(num_classes)]
  )

def mine(*, seed, model_seed, kind: str = "of chance"):
  def load(client_id):
    if client_id == 1 and kind == "KeyError":
      return {}["rows"]
    if client_id == 1 and kind == "DataError":
      raise tasks.DataError("is damaged.")
    y = np.zeros(2, np.int32)
    if client_id == 1:
      y = {
        "label": y + 2, "negative": y - 1, "int64": y.astype(int),
        "hot": np.zeros([2, 2], bool), "three": np.zeros(3, np.int32),
      }.get(kind, y)
    return np.full([2, 3], seed, np.float32), y

  half = tasks.Split(num_examples=np.array([2, 2]), load=load)
  y_dtype = kind.removeprefix("spec ") if "spec" in kind else "int32"
  spec = task.element_spec([3], y_dtype=y_dtype)
  model = lambda: build(2)
  if kind == "of a helper":
    model = user_model.build_fn("m", build, spec, 2, seed=seed)
  return tasks.Task(
    name="mine",
    description=f"{seed} {model_seed}",
    client_names=("north", "south"),
    train=half,
    test=half,
    element_spec=spec,
    num_classes=2,
    keras_model_fn=model,
    objective=models.class_objective(),
  )
"""


@pytest.mark.parametrize("kind", ["of chance", "of a helper"])
def test_a_function_gets_the_seed_of_the_weights(function, kind):
  name = function(TASK)
  first, other, same = (
    tasks.load(name, seed=seed, model_seed=model_seed, kind=kind)
    for seed, model_seed in ((1, None), (1, 2), (2, 2))
  )
  assert [t.description for t in (first, other)] == ["1 1", "1 2"]
  assert first.train.load(0)[0][0, 0] == other.train.load(0)[0][0, 0] == 1
  weights = [t.keras_model_fn().get_weights()[0] for t in (first, other, same)]
  assert (weights[0] != weights[1]).any()
  assert (weights[1] == weights[2]).all()


def test_a_functions_labels_may_be_noisy(function):
  name = function(TASK)
  noise = {"label_noise": "pairwise", "noisy_clients": 1.0, "kind": "KeyError"}
  task = tasks.load(name, least_label_noise=1.0, **noise)
  np.testing.assert_array_equal(task.train.load(0)[1], [1, 1])
  np.testing.assert_array_equal(task.test.load(0)[1], [0, 0])
  with refused("client 'south'"):
    task.train.load(1)


@pytest.mark.parametrize(
  ("kind", "problem"),
  [
    ("KeyError", "mine.py, line 16 raises KeyError: 'rows'"),
    ("DataError", "is damaged."),
    ("label", "has label 2, expected 0 to 1."),
    ("negative", "has label -1, expected 0 to 1."),
    (
      "int64",
      "y is int64[2]: by element_spec and num_examples it is int32[2].",
    ),
    (
      "hot",
      "y is bool[2, 2]: by element_spec and num_examples it is int32[2].",
    ),
    (
      "three",
      "y is int32[3]: by element_spec and num_examples it is int32[2].",
    ),
  ],
)
def test_a_client_that_cannot_be_loaded_is_named(function, kind, problem):
  name = function(TASK)
  task = tasks.load(name, kind=kind)
  assert len(task.train.load(0)[1]) == 2
  for load in (task.train.load, task.test_data):
    with pytest.raises(tasks.DataError) as raised:
      load(1)
    line = command_line.error_line(raised.value)
    assert line.startswith(f"--task: {name}, client 'south': ")
    assert line.endswith(problem)


@pytest.mark.parametrize("dtype", ["bool", "string", "complex64"])
def test_labels_of_a_function_are_numbers(function, dtype):
  with pytest.raises(FieldError, match=f"its labels are {dtype}"):
    tasks.load(function(TASK), kind=f"spec {dtype}")


class Point:
  """An entry point of an installed package."""

  def __init__(self, name, value, package="their-package"):
    self.name, self.value = name, value
    self.dist = type("Distribution", (), {"name": package})


@pytest.fixture
def points(monkeypatch):
  """Returns a function that replaces the entry points of installed packages."""

  def set_to(*found):
    registry._installed.cache_clear()
    monkeypatch.setattr(
      importlib.metadata, "entry_points", lambda **_: list(found)
    )

  yield set_to
  registry._installed.cache_clear()


def test_an_installed_package_adds_tasks(function, points):
  name = function()
  points(Point("theirs", name), Point("broken", "no_such_package:load"))
  assert tasks.names()[-2:] == ("broken", "theirs")
  assert tasks.option_names("theirs")[0] == "number"
  assert tasks.file_digest("theirs") == tasks.file_digest(name)
  assert tasks.short_name("theirs") == "theirs"
  with pytest.raises(FieldError, match="no_such_package"):
    tasks.option_names("broken")
  with pytest.raises(ValueError, match=r"'their'.* theirs"):
    tasks.load("their")


def test_names_that_are_taken_are_told(function, points):
  name = function()
  points(Point("digits", name), Point("own", name), Point("own", "other:f"))
  with pytest.warns(UserWarning, match="used") as warned:
    assert tasks.names()[-1] == "own"
  of_ours, of_others = sorted(str(w.message) for w in warned)
  for told in warned:
    shown = warnings.formatwarning(
      told.message, told.category, told.filename, told.lineno
    )
    assert shown.count("\n") == 1
  assert "digits of the package their-package" in of_ours
  assert "of another package" in of_others
  assert tasks.option_defaults("digits")["num_clients"] == 30


def test_a_task_is_made_once(function):
  name = function()
  assert registry._module(name) is registry._module(name)
  assert isinstance(registry._module(name), user_task.UserTask)
