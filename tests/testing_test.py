"""Tests that the checks for users' own rules can fail."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from examples import my_method
from tff_fair import declared, summing, testing, types
from tff_fair.methods import term, vred

pytestmark = pytest.mark.tff


def maxfl(cohort, sharpness=1.0):
  s = 1 / (1 + np.exp(-sharpness * cohort.loss))
  q = s * (1 - s)
  return q / (q.sum() + 1e-8)


def test_a_right_rule_passes():
  testing.check_rule(my_method.MaxFl, maxfl, settings=[{"sharpness": 0.3}])


@pytest.fixture
def without_sums(monkeypatch):
  monkeypatch.setattr(testing, "_check_sums", lambda _: None)


def rule_of(coefficients, **attributes):
  """Returns a rule whose coefficients are those of `coefficients(cohort)`."""

  def apply(self, cohort, state):
    del self
    return types.RuleOutput(coefficients(cohort), state)

  body = {"signals": ("loss",), "coefficients": apply, **attributes}
  return type("Wrong", (types.Rule,), body)


def by_log(cohort):
  return tf.math.log(cohort.loss)


def by_place(cohort):
  return tf.range(tf.size(cohort.loss), dtype=tf.int32) / 9


def of_more(cohort):
  return cohort.loss * cohort.accuracy


def of_float32(cohort):
  return tf.cast(cohort.loss, tf.float32)


WRONG = {
  "hard cohorts": (by_log, "no loss"),
  "order": (by_place, "Mismatched"),
  "equal clients": (by_place, "Mismatched"),
  "what is read": (of_more, "None"),
}


@pytest.mark.usefixtures("without_sums")
@pytest.mark.parametrize("check", WRONG)
def test_a_wrong_rule_fails(check):
  coefficients, words = WRONG[check]
  with pytest.raises(AssertionError, match="Wrong") as raised:
    testing.check_rule(rule_of(coefficients))
  (line,) = (
    text for text in str(raised.value).splitlines() if text.startswith(check)
  )
  assert words in line


@pytest.mark.usefixtures("without_sums")
def test_the_order_of_ids_may_count():
  testing.check_rule(rule_of(by_place), is_ordered=True)


def test_a_rule_without_a_reference_needs_no_secure_sums(monkeypatch):
  monkeypatch.setattr(summing, "supported_aggregations", lambda _: ["secure"])
  testing.check_rule(term.TermRule)


@pytest.mark.usefixtures("without_sums")
def test_other_coefficients_than_the_reference_s_fail():
  with pytest.raises(AssertionError, match=r"reference.*Mismatched"):
    testing.check_rule(my_method.MaxFl, lambda cohort, **_: maxfl(cohort) * 1.1)


@pytest.mark.usefixtures("without_sums")
def test_a_form_that_does_not_hold_fails():
  class Wrong(my_method.MaxFl):
    def log_weight(self, cohort):
      return 2.0 * super().log_weight(cohort)

    def coefficients(self, cohort, state):
      q = tf.exp(super().log_weight(cohort))
      return types.RuleOutput(q / tf.reduce_sum(q), state)

  with pytest.raises(AssertionError, match="form"):
    testing.check_rule(Wrong)


@pytest.mark.usefixtures("without_sums")
@pytest.mark.parametrize("name", ["covariate", "terms"])
def test_values_that_depend_on_other_clients_fail(name):
  def centred(self, cohort):
    del self
    found = cohort.loss - tf.reduce_mean(cohort.loss)
    return {"more": found} if name == "terms" else found

  # The coefficients are right, since VRed subtracts the mean.
  rule = type("Wrong", (vred.VRedRule,), {name: centred})
  with pytest.raises(AssertionError, match=r"form: .*Mismatched"):
    testing.check_rule(rule)


def test_a_sum_that_gives_another_direction_fails(monkeypatch):
  monkeypatch.setattr(
    testing,
    "make_cohort",
    lambda updates, **_: testing._random_cohort(len(updates)),
  )
  with pytest.raises(AssertionError, match="sums"):
    testing.check_rule(my_method.MaxFl)


def test_a_field_that_is_not_declared_is_named():
  @dataclasses.dataclass(frozen=True, kw_only=True)
  class Plain(my_method.MaxFl):
    share: float = 0.5

  class Undecorated(my_method.MaxFl):
    share: float = declared.value(0.5, "A share.")

  for rule in (Plain, Undecorated):
    with pytest.raises(AssertionError, match="share"):
      testing.check_rule(rule)
