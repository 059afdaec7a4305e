"""Tests of methods from a user's file or an installed package."""

import dataclasses
import importlib.metadata
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from binaries.flags import run_flags
from tests import source_tree
from tests.methods import cohorts, in_graph
from tests.refusals import rejected
from tests.tasks.user_code.user_task_test import Point
from tff_fair import (
  aggregators,
  algorithms,
  methods,
  summing,
  types,
  user_functions,
)
from tff_fair.experiments import RunSpec
from tff_fair.experiments.sweeps import sweep_file
from tff_fair.methods import maxfl, registry, user_method

FILE = source_tree.ROOT / "examples" / "my_method.py"
NAME = f"{FILE}:MaxFl"
HEAD = """
import dataclasses
import tensorflow as tf
from tff_fair import declared, types
from tff_fair.methods import building, fedavg
decorated = dataclasses.dataclass(frozen=True, kw_only=True)
"""
RULE = """
@decorated
class Mine(types.Rule):
  {}
  def coefficients(self, cohort, state):
    return types.RuleOutput({}, state)
"""
EVEN = "cohort.weight"
# Wrong contents of a file, and words that their errors must have.
WRONG = {
  "Mine = 3": ("expected a function", "3"),
  "def Mine(): pass": ("tff_fair.types.Rule", "building.builder"),
  "class Mine(types.Rule): pass": ("does not define coefficients",),
  RULE.format("share: float = 0.5", EVEN): ("share", "declared.value"),
  RULE.replace("@decorated", "").format(
    "share: float = declared.value(0.5, 'A share.')", EVEN
  ): ("share", "@dataclasses.dataclass"),
  RULE.format("batch_size: int = declared.value(1, 'A size.')", EVEN): (
    "batch_size",
    "option",
  ),
  RULE.format("size: int = declared.required('A size.')", EVEN): (
    "size",
    "default",
  ),
  RULE.format("signals = ('losses',)", EVEN): ("losses", "gradient_norm"),
  RULE.format("", "cohort.loss / 2"): ("line 12", "TypeError"),
  RULE.format("", "tf.cast(cohort.weight, tf.float32)"): ("float32",),
  RULE.format("", "cohort.weight[:1]"): ("[0.5]", "float64[2]"),
  RULE.format("", "cohort.weight / 0"): ("inf", "finite"),
  "raise ValueError('no')": ("line 7", "ValueError: no"),
  "def Other(): pass": ("has no Mine", "Other"),
}


@pytest.fixture
def file(tmp_path):
  """Returns a function that writes code to a file, and returns FILE:Mine."""

  def write(code):
    path = tmp_path / "mine.py"
    path.write_text(HEAD + code)
    return f"{path}:Mine"

  return write


def test_a_file_s_rule_is_a_method():
  assert methods.is_method(NAME)
  assert methods.canonical_name(NAME) == NAME
  assert methods.title(NAME, "uniform") == "MaxFl, equal weights"
  assert methods.reference(NAME).startswith("Cho, ")
  assert methods.reference(NAME).endswith("(TMLR 2024).")
  (sharpness,) = methods.hyperparameters(NAME).values()
  assert (sharpness.name, sharpness.default, sharpness.minimum) == (
    "sharpness",
    1.0,
    0,
  )
  assert methods.get(NAME).aggregations == methods.get("maxfl").aggregations
  assert methods.file_digest(NAME) == user_functions.digest(NAME)
  assert methods.file_digest("maxfl") is None
  # With the default sharpness, it is the library's own MaxFL.
  cohort = cohorts.of_losses([0.2, 1.5, -3.0])
  np.testing.assert_allclose(
    in_graph.apply(methods.make_rule(NAME, num_clients=3), cohort).coefficients,
    in_graph.apply(maxfl.MaxFlRule(), cohort).coefficients,
    rtol=1e-12,
  )


def test_a_factory_of_a_rule_takes_its_hyperparameters():
  rule: Any = methods.get(NAME).build.rule
  factory = aggregators.factory_of(rule)(sharpness=2.0, aggregation="stacked")
  assert isinstance(factory, summing.RuleFactory)
  assert factory.rule == rule(sharpness=2.0)
  assert factory.aggregation == "stacked"
  assert "sharpness: How fast" in str(type(factory).__init__.__doc__)


def test_a_builder_is_a_method(file):
  name = file("""
@decorated
class Extra(declared.Hyperparameters):
  mu: float = declared.value(0.1, "Pull.", minimum=0)

@building.builder(fedavg.FedAvgRule, Extra)
def Mine(model_fn, rule, extra, **options):
  raise NotImplementedError
""")
  assert algorithms.get(name).hparams == {"mu": 0.1}
  with rejected("hparams", "[0, inf)"):
    RunSpec(algorithm=name, hparams={"mu": -1})


@pytest.mark.parametrize("code", WRONG)
def test_what_is_no_rule_is_told_in_a_line(file, code):
  name = file(code)
  with rejected("algorithm", *WRONG[code]):
    RunSpec(algorithm=name)
  assert not methods.is_method(name)


def test_a_run_checks_hyperparameters_and_options():
  spec = RunSpec(algorithm=NAME, hparams={"sharpness": 2})
  assert spec.all_hparams == {"sharpness": 2.0}
  assert spec.short_name == "digits-MaxFl"
  assert spec.title == "MaxFl"
  assert RunSpec.from_toml(spec.to_toml()) == spec
  assert spec.vary(sharpness=[1, 2])[0].hparams == {"sharpness": 1.0}
  with rejected("hparams", "sharp", "sharpness=1"):
    RunSpec(algorithm=NAME, hparams={"sharp": 2})
  with rejected("algorithm", "my_method.py:NAME"):
    RunSpec(algorithm="my_method.py")


@pytest.mark.parametrize(
  ("text", "name", "grid"),
  [
    (NAME, NAME, None),
    (f"{NAME}:uniform", NAME, ["uniform"]),
    ("fedavg:uniform", "fedavg", ["uniform"]),
  ],
)
def test_a_sweep_tells_names_from_weights(text, name, grid):
  (method,) = sweep_file.from_methods([text], "--algorithms").methods
  assert method.algorithm == name
  found = [setting.values for setting in method.grid.values()]
  assert found == ([grid] if grid else [])


def test_a_record_s_code_does_not_run(file):
  name = file(RULE.format("", EVEN) + "\nraise SystemExit")
  with user_functions.reading_records():
    assert methods.is_blocked(name)
    spec = RunSpec(algorithm=name, hparams={"any": 1.0})
    assert methods.hyperparameters(name) == {}
    assert spec.title == "Mine"
  assert spec.all_hparams == {"any": 1.0}


def test_a_changed_file_is_another_version(file):
  name = file(RULE.format("", EVEN))
  first = methods.file_digest(name), methods.get(name).build
  file(RULE.format("", f"2 * {EVEN}"))
  assert methods.file_digest(name) != first[0]
  rule = methods.get(name).build.rule()
  c = in_graph.eagerly(rule, cohorts.of_losses([1.0])).coefficients
  np.testing.assert_array_equal(c, [2])


def test_an_installed_package_adds_methods(monkeypatch):
  points = [Point("theirs", NAME), Point("afl", NAME), Point("broken", "no:x")]
  monkeypatch.setattr(
    importlib.metadata, "entry_points", lambda **_: list(points)
  )
  registry._installed_methods.cache_clear()
  try:
    with pytest.warns(UserWarning, match="method afl of the package"):
      assert methods.names()[-2:] == ("broken", "theirs")
    assert methods.title("theirs") == "theirs"
    assert list(methods.hyperparameters("theirs")) == ["sharpness"]
    assert RunSpec(algorithm="theirs").short_name == "digits-theirs"
    with rejected("algorithm", "no module no"):
      RunSpec(algorithm="broken")
  finally:
    registry._installed_methods.cache_clear()


def test_loading_tries_every_kind_of_rule():
  @dataclasses.dataclass(frozen=True, kw_only=True)
  class OfPopulation(types.PopulationRule):
    geometry = types.Geometry.GRAM

    def initialize(self):
      return self.even()

    def coefficients(self, cohort, state):
      c = tf.gather(state, self.places(cohort))
      return types.RuleOutput(c * tf.linalg.trace(cohort.gram), state)

  built = user_method._builder(NAME, OfPopulation)
  assert built.rule is OfPopulation
  assert built.hyperparameters == ()


def test_the_catalog_explains_a_file_s_rule(file):
  assert "sharpness=1" in run_flags.catalog_entry(NAME)
  # The class in the file is not a task.
  name = file(RULE.format("share: float = 0.5", EVEN))
  with pytest.raises(ValueError, match="is not declared"):
    run_flags.check_name(name)
