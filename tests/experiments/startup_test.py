import gc
import os
import subprocess
import sys

import pytest

from tff_fair import experiments
from tff_fair.experiments import startup
from tff_fair.runtime import cgroups

pytestmark = pytest.mark.program

# Modules that are needed only by TFF, by rare runs or at the end of a run.
_UNUSED = (
  "matplotlib.figure",
  "sklearn.mixture",
  "tensorflow_probability.python.distributions",
)
_IN_ABSL = f"""
import sys
from absl import app
from tff_fair import experiments

def main(_):
  experiments.run
  assert "tensorflow_federated" in sys.modules
  print([name for name in {_UNUSED} if name in sys.modules])

  import tensorflow as tf
  layers = tf.keras.layers
  model = tf.keras.Sequential([layers.InputLayer((2, 3)), layers.Flatten()])
  print(model(tf.ones([1, 2, 3])).shape)

  import tensorflow_probability
  tensorflow_probability.distributions.Normal(0.0, 1.0).sample(seed=1)

app.run(main)
"""


def test_a_run_imports_no_more_than_it_needs_and_who_needs_more_gets_it():
  # Within an absl program, Keras could fail to build models.
  command = [sys.executable, "-c", _IN_ABSL]
  # TensorFlow has set this variable in the process of the tests.
  others = {k: v for k, v in os.environ.items() if k != "TF2_BEHAVIOR"}
  process = subprocess.run(
    command, capture_output=True, text=True, check=False, env=others
  )
  assert process.returncode == 0, process.stderr
  assert process.stdout == "[]\n(1, 6)\n"


# Tests of Python's garbage collector.


def test_garbage_waits_until_the_end():
  assert gc.isenabled()
  with startup.fast_import():
    assert not gc.isenabled()
    with startup.fast_import():
      pass
    assert not gc.isenabled()
  assert gc.isenabled()


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_collector_is_as_before_also_after_an_error(was_enabled):
  if not was_enabled:
    gc.disable()
  try:
    with pytest.raises(ImportError), startup.fast_import():
      raise ImportError
    assert gc.isenabled() == was_enabled
  finally:
    gc.enable()


# Tests of limits that the system sets.


@pytest.mark.parametrize(
  ("limit", "problem"),
  [("-n 24", "may have 24 open files"), ("-v 2097152", "of virtual memory")],
)
@pytest.mark.parametrize(
  "program",
  [
    "-m binaries.train --total_rounds=1 --output_dir={0}/run",
    "-c 'from tff_fair import experiments; experiments.run'",
  ],
)
def test_limits_that_no_run_fits_in_are_one_line(
  tmp_path, limit, problem, program
):
  command = f"ulimit {limit}; exec {sys.executable} {program.format(tmp_path)}"
  process = subprocess.run(
    ["bash", "-c", command], capture_output=True, text=True, check=False
  )
  *others, last = process.stderr.splitlines()
  assert problem in last
  assert "ulimit" in last
  if "-m" in program:
    assert (process.returncode, others) == (2, [])
  assert not (tmp_path / "run").exists()


def test_a_container_without_memory_for_a_run_is_told(monkeypatch):
  monkeypatch.setattr(cgroups, "memory", lambda: 256 * 2**20)
  with pytest.raises(experiments.RunError, match="may have 268,435,456 bytes"):
    startup.check_limits()
  monkeypatch.setattr(cgroups, "memory", lambda: 2**30)
  startup.check_limits()
