"""Tests of `import tff_fair`: it keeps TensorFlow quiet where it can."""

import os
import subprocess
import sys

import pytest

import tff_fair
from tests import source_tree

# A user's script of one round, with only the packages that processes need. The
# extra "experiments" has other packages, which TFF itself needs.
SCRIPT = """
import sys
for name in ("matplotlib", "pandas", "tensorboard", "tensorflow_datasets"):
  sys.modules[name] = None

import tff_fair
tff_fair.aggregators.FedMgdaPlusFactory(epsilon=0.1)
modules = [m for name, m in sys.modules.items() if name.startswith("tff_fair")]
print(sum(len(open(module.__file__).readlines()) for module in modules))

import tensorflow as tf
import tensorflow_federated as tff

tff_fair.runtime.use_local()

def model_fn():
  return tff.learning.models.from_keras_model(
    tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(4,))]),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=(tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int32)),
  )

x, y = tf.zeros([8, 4]), tf.zeros([8], tf.int32)
examples = tf.data.Dataset.from_tensors((x, y))
clients = [tff_fair.client_dataset(k, examples) for k in range(3)]
process = tff_fair.algorithms.build(
  "fedavg",
  model_fn,
  client_optimizer=tff.learning.optimizers.build_sgdm(0.1),
  batch_size=4,
)
process.next(process.initialize(), clients)
print("done")
"""
LACKING = "API due to missing TensorBoard installation."
LEVEL = "TF_CPP_MIN_LOG_LEVEL"
SHOW_LEVEL = f"import tff_fair, os; print(os.environ.get({LEVEL!r}))"


def run(script, level=None):
  environment = {**os.environ, "PYTHONPATH": str(source_tree.ROOT)}
  environment.pop(LEVEL, None)  # The imports in this process have set it.
  if level is not None:
    environment[LEVEL] = level
  return subprocess.run(
    [sys.executable, "-c", script],
    env=environment,
    capture_output=True,
    text=True,
    timeout=120,
    check=True,
  )


def test_a_script_with_a_round_needs_little_and_hears_nothing_of_tensorflow():
  result = run(SCRIPT)
  lines_of_a_factory, last = result.stdout.splitlines()
  assert last == "done"
  # TensorFlow reports only that TensorBoard is missing, which the script hides.
  assert all(line.endswith(LACKING) for line in result.stderr.splitlines())
  # A factory does not import the modules that build processes.
  assert int(lines_of_a_factory) <= 6_700


@pytest.mark.long  # The level itself is tested below.
def test_who_set_the_level_hears_what_they_asked_for():
  result = run("import tff_fair, tensorflow_federated", level="0")
  assert "tensorflow/core" in result.stderr
  # TFF's own context, which the program did not use, ends without a message.
  assert "Exception ignored" not in result.stderr


@pytest.mark.parametrize(
  ("before", "level", "expected"),
  [
    ("", None, "3"),
    ("", "1", "1"),
    # TensorFlow, imported before, has read the level already.
    ("import sys; sys.modules['tensorflow'] = sys; ", None, "None"),
  ],
)
def test_the_level_is_that_of_the_user_if_any(before, level, expected):
  assert run(before + SHOW_LEVEL, level).stdout == f"{expected}\n"


def test_every_public_name_is_there():
  for name in tff_fair.__all__:
    assert getattr(tff_fair, name) is not None


@pytest.mark.parametrize(
  "name",
  [
    *("aggregators", "algorithms", "client_works", "rounds"),
    *("experiments", "finalizers", "methods", "metrics", "optimizers"),
    *("privacy", "runtime", "summing"),
  ],
)
def test_a_package_shows_public_names_alone(name):
  package = getattr(tff_fair, name)
  assert dir(package) == sorted(package.__all__)
  for public in package.__all__:
    assert getattr(package, public) is not None
  with pytest.raises(AttributeError, match="'build_nothing'"):
    _ = package.build_nothing
