"""Tests of the contract of rules."""

import pytest

import tff_fair
from tff_fair import client_data, types


def test_public_names_are_those_of_the_module():
  assert tff_fair.ClientSignals is types.ClientSignals
  assert tff_fair.client_dataset is client_data.client_dataset


def test_rules_have_neutral_defaults():
  class Constant(types.Rule):
    def coefficients(self, cohort, state):
      return types.RuleOutput(cohort.weight, state)

  rule = Constant()
  assert rule.initialize() == ()
  assert rule.signals == ()
  assert rule.geometry is types.Geometry.NONE
  output = rule.coefficients(types.Cohort(0, 1.0, 1.0), ())
  assert output.measurements == {}
  with pytest.raises(TypeError, match="abstract"):
    types.Rule()  # type: ignore[abstract]


def test_separable_rules_have_no_covariate_unless_they_say_so():
  class Weighted(types.SeparableRule):
    def coefficients(self, cohort, state):
      return types.RuleOutput(cohort.weight, state)

    def log_weight(self, cohort):
      return cohort.weight

  assert Weighted().covariate(types.Cohort(0, 1.0, 1.0)) is None


def test_rules_read_known_signals_only():
  cohort = set(types.Cohort._fields)
  signals = set(types.ClientSignals._fields)
  assert signals < cohort
  assert {"client_id", "num_examples", "loss"} < signals
