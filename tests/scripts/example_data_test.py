"""Tests that a script reproduces the data files in examples/."""

import subprocess
import sys

import numpy as np

from tests import source_tree


def test_the_data_of_the_examples_are_made_again(tmp_path):
  script = source_tree.ROOT / "scripts" / "example_data.py"
  subprocess.run([sys.executable, script, tmp_path], check=True, timeout=60)
  kept = source_tree.ROOT / "examples"
  patients = (kept / "clinics.csv").read_text()
  assert (tmp_path / "clinics.csv").read_text() == patients
  found, expected = (
    np.load(tmp_path / "sensors.npz"),
    np.load(kept / "sensors.npz"),
  )
  assert sorted(found) == sorted(expected) == ["client", "x", "y"]
  for name in found:
    np.testing.assert_array_equal(found[name], expected[name])
