"""Tests that demonstrations' claims hold, and that a false claim is noticed."""

import pathlib

import numpy as np
import pytest

import demonstrations
from demonstrations import Check, Demonstration, rounds
from tests.cases import one_of_each
from tff_fair.methods.fedmgda_plus import FedMgdaPlusRule


@pytest.mark.parametrize(
  "name", one_of_each(demonstrations.NAMES, demonstrations._MODULES.get)
)
def test_the_claims_hold_and_are_drawn(name, tmp_path):
  found = demonstrations.demonstrate(name)
  assert found.holds, found.describe()
  assert len(found.checks) >= 2
  path = tmp_path / f"{name}.png"
  found.save(path)
  assert path.read_bytes().startswith(b"\x89PNG")


def test_a_claim_that_fails_shows():
  checks = [
    demonstrations.at_most("Small:", 1.0, 2.0),
    demonstrations.at_most("Large:", 3.0, 2.0),
    demonstrations.at_most("None:", float("nan"), 2.0),
  ]
  assert [check.holds for check in checks] == [True, False, False]
  found = Demonstration("Title", "Setting.", checks, print)
  assert not found.holds
  assert found.describe().splitlines() == [
    "Title",
    "Setting.",
    "[holds] Small: 1 <= 2",
    "[FAILS] Large: 3 <= 2",
    "[FAILS] None: nan <= 2",
  ]
  assert Demonstration("T", "S", [Check("c", "f", True)], print).holds


def test_rounds_on_vectors_take_the_rule_of_the_library():
  vectors = np.array([[1.0, 0.0], [0.0, 2.0]])
  rule = FedMgdaPlusRule(epsilon=1.0, normalize=False)
  d = rounds.direction(rule, vectors, np.ones(2))
  np.testing.assert_allclose(d, [0.8, 0.4], atol=1e-6)  # Computed by hand.


def test_names_are_those_of_functions_in_their_files():
  with pytest.raises(ValueError, match="'x'"):
    demonstrations.demonstrate("x")
  folder = pathlib.Path(demonstrations.__file__).parent
  for name, module in demonstrations._MODULES.items():
    text = (folder / f"{module}.py").read_text()
    assert f"def {name}() -> Demonstration:" in text
