"""Tests of every rule: the checks for users, and hard cohorts."""

import functools
import importlib
import inspect
import itertools
import pkgutil

import numpy as np
import pytest
import tensorflow as tf

from tests.cases import Cases
from tests.methods import cohorts, in_graph
from tests.methods.settings import (
  EXTRA,
  HARD,
  RULE_CLASSES,
  numpy_direction,
  rules_of,
)
from tff_fair import methods, testing, types
from tff_fair.methods import fedavg_n, fedmdfg


def test_every_rule_is_covered():
  found = {
    member
    for module in pkgutil.iter_modules(methods.__path__, f"{methods.__name__}.")
    for member in vars(importlib.import_module(module.name)).values()
    if inspect.isclass(member)
    and issubclass(member, types.Rule)
    and member.__module__ == module.name
    and not inspect.isabstract(member)
  }
  # The rule with a line search reports NaN for a client without a slope.
  found.remove(fedmdfg.SearchingFedMdfgRule)
  assert set(RULE_CLASSES.values()) == found
  assert set(EXTRA) <= set(RULE_CLASSES)


def in_every_setting(names=RULE_CLASSES, *cases):
  """Turns a check into a test of each rule in all its settings and `cases`."""

  def decorate(check):
    @pytest.mark.parametrize("name", names)
    def test(name):
      with Cases() as tried:
        for arguments in itertools.product(rules_of(name), *cases):
          with tried.case(*arguments):
            check(*arguments)

    return test

  return decorate


# Ids, ages and updates; client 0 is in every hard cohort, the others in none.
REMEMBERED = (
  [9, 8, 0],
  [1, 1, 2],
  np.random.default_rng(2).normal(size=[3, 9]),
)


@functools.cache
def hard_cohort(case, remembers=False):
  """Returns the cohort, and the updates to which its coefficients belong."""
  updates = np.asarray(HARD[case]["updates"])
  if not remembers:
    return cohorts.make(**HARD[case]), updates
  remembered_ids, ages, old = REMEMBERED
  old = old[:, : updates.shape[1]]
  cohort = cohorts.make(**HARD[case], remembered=(remembered_ids, ages, old))
  return cohort, np.concatenate([updates, old])


def hard_cohort_for(rule, case):
  return hard_cohort(case, remembers=rule.remembered_rounds > 0)


@functools.cache
def later_state(rule):
  """Returns a rule's state after three rounds with some of the clients."""
  state = rule.initialize()
  if not tf.nest.flatten(state):
    return state
  for seed, client_id in enumerate(([0, 1, 3], [1, 2, 7], [3, 7, 9])):
    cohort = cohorts.random_for(rule, 3, seed=seed, client_id=client_id)
    state = in_graph.apply(rule, cohort, state).state
  return state


@functools.cache
def first_output(rule, case):
  """Returns a rule's output for a hard cohort in the first round."""
  return in_graph.apply(rule, hard_cohort_for(rule, case)[0])


@functools.cache
def later_output(rule, case):
  """Returns a rule's output in a later state; without state, its first one."""
  state = later_state(rule)
  if not tf.nest.flatten(state):
    return first_output(rule, case)
  return in_graph.apply(rule, hard_cohort_for(rule, case)[0], state)


@in_every_setting(RULE_CLASSES, HARD)
def test_hard_cohorts_give_finite_numbers(rule, case):
  _, updates = hard_cohort_for(rule, case)
  first, later = first_output(rule, case), later_output(rule, case)
  for output in [first] if later is first else [first, later]:
    c = output.coefficients
    assert c.dtype == np.float64
    assert c.shape == (len(updates),)
    assert np.all(np.isfinite(c))
    assert np.all(np.isfinite(c @ updates))
    reported = dict(output.measurements)
    # `beta_max` is infinite if no beta is too large.
    assert reported.pop("beta_max", 1.0) > 0
    handed_on = (reported, output.for_finalizer, output.state)
    assert all(np.all(np.isfinite(x)) for x in tf.nest.flatten(handed_on))


# Methods whose reference also holds for hard cohorts. Gram rules have tests of
# their own; q-FedAvg and N-AccAdam have limits that formulas do not show.
FOLLOWED = (
  *("fedavg", "fedavg_n", "fednova", "term", "drfl", "vred", "semi_vred"),
  *("delta_fl", "gifair", "fedfa", "adafedadam", "maxfl"),
  "fedgini",
)


@in_every_setting(FOLLOWED, HARD)
def test_hard_cohorts_have_the_coefficients_of_numpy(rule, case):
  cohort, updates = hard_cohort_for(rule, case)
  c = first_output(rule, case).coefficients
  # Orthogonal updates of these norms reveal each client's coefficient.
  norms = np.ones_like(c)
  if rule.geometry is types.Geometry.NORMS:
    norms = np.linalg.norm(updates, axis=1)
  clients = cohorts.clients(cohort, np.diag(norms))
  expected = numpy_direction(rule, clients, {})
  np.testing.assert_allclose(
    c * norms, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max()
  )


def test_a_zero_update_has_no_weight_as_updates_arrive():
  cohort = cohorts.make([[3.0, 4.0], [0.0, 0.0]])
  log_weight = np.asarray(fedavg_n.FedAvgNRule().log_weight(cohort))
  np.testing.assert_allclose(np.exp(log_weight), [0.1, 0], rtol=1e-14)


@pytest.mark.parametrize("name", RULE_CLASSES)
def test_the_checks_for_users_pass(name, monkeypatch):
  # Hard cohorts are above; `process_contract_test` has the sums.
  for check in ("_check_hard_cohorts", "_check_sums"):
    monkeypatch.setattr(testing, check, lambda _: None)
  testing.check_rule(
    RULE_CLASSES[name],
    settings=[vars(rule) for rule in rules_of(name)[1:]],
    is_ordered=name == "fedfv",
  )


@in_every_setting()
def test_rules_cannot_be_changed(rule):
  for hparam in vars(rule):
    with pytest.raises(AttributeError):
      setattr(rule, hparam, 0.5)
