import subprocess
import sys

import pytest

pytestmark = pytest.mark.program

# What a rare kind of run needs, or TensorFlow Federated, or the end of a run.
_UNUSED = (
  "matplotlib.figure",
  "sklearn.mixture",
  "tensorflow_probability.python.distributions",
)
_PROGRAM = f"""
import sys
from tff_fair import experiments

experiments.run
assert "tensorflow_federated" in sys.modules
print(*(name for name in {_UNUSED} if name in sys.modules))

import tensorflow_probability

tensorflow_probability.distributions.Normal(0.0, 1.0).sample(seed=1)
print("drawn")
"""


def test_a_run_imports_no_more_than_it_needs_and_who_needs_more_gets_it():
  process = subprocess.run(
    [sys.executable, "-c", _PROGRAM],
    capture_output=True,
    text=True,
    check=False,
  )
  assert process.returncode == 0, process.stderr
  assert process.stdout == "\ndrawn\n"
