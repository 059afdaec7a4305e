"""Tests of properties of every rule: equivariance, hard cohorts, purity."""

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
from tff_fair import declared, methods, types
from tff_fair.methods import fedavg_n, fedfv, fedmdfg


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


@in_every_setting()
def test_a_round_is_a_function_of_cohort_and_state(rule):
  cohort, before = cohorts.random_for(rule, 5), later_state(rule)
  first, again = (in_graph.apply(rule, cohort, before) for _ in range(2))
  tf.nest.map_structure(np.testing.assert_array_equal, first, again)
  # The types of a state stay the same from round to round.
  tf.nest.assert_same_structure(first.state, rule.initialize())
  for new, old in zip(
    tf.nest.flatten(first.state),
    tf.nest.flatten(rule.initialize()),
    strict=True,
  ):
    assert (new.dtype, new.ndim) == (old.dtype.as_numpy_dtype, old.shape.rank)


def by_order_of_ids(rule, case):
  """Returns whether `rule` is FedFV's and depends on places in the cohort.

  Then only the ascending order of ids, which the aggregation ensures, makes the
  result independent of the order of arrival.
  """
  if not isinstance(rule, fedfv.FedFvRule) or rule.alpha == 1:
    return False
  loss = HARD[case].get("loss", [1, 1])
  ties = len(set(loss)) < len(loss)
  return ties or (rule.order == "random" and len(loss) > 2)


@in_every_setting(RULE_CLASSES, HARD)
def test_order_of_clients_does_not_matter(rule, case):
  if by_order_of_ids(rule, case):
    return
  cohort, updates = hard_cohort_for(rule, case)
  m, state = len(cohort.client_id), later_state(rule)
  c = later_output(rule, case).coefficients
  order = np.roll(np.arange(m)[::-1], 1)
  other = in_graph.apply(rule, cohorts.permuted(cohort, order), state)
  # Coefficients may differ where many of them give the same direction.
  norms = np.linalg.norm(updates, axis=1)
  typical = np.median(norms)
  tolerance = 1e-6 * np.abs(c) @ norms
  tolerance += 1e-12 * max(typical * max(abs(c)), min(typical, 1))
  reordered = np.concatenate([updates[order], updates[m:]])
  np.testing.assert_allclose(
    other.coefficients @ reordered, c @ updates, rtol=0, atol=tolerance
  )


@in_every_setting()
def test_coefficients_go_with_their_clients(rule):
  if getattr(rule, "order", None) == "random":
    return
  cohort, state = cohorts.random_for(rule, 6), later_state(rule)
  order = np.array([3, 0, 5, 1, 2, 4])
  there = in_graph.apply(rule, cohort, state)
  back = in_graph.apply(rule, cohorts.permuted(cohort, order), state)
  np.testing.assert_allclose(
    back.coefficients, there.coefficients[order], rtol=1e-6, atol=1e-12
  )
  tf.nest.map_structure(
    lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-15),
    back.state,
    there.state,
  )


@in_every_setting(RULE_CLASSES, ("identical clients", "all updates zero"))
def test_equal_clients_are_treated_equally(rule, case):
  # Two-phase sums look up coefficients by a client's values, so equal clients
  # must get equal ones. Later states distinguish clients by participation, so
  # this test is of the first round.
  updates = np.repeat(HARD[case]["updates"], 2, axis=0)
  cohort = cohorts.make(
    updates,
    np.full(len(updates), 0.7),
    remembered=cohorts.none_remembered(rule, updates),
  )
  c = cohorts.coefficients(rule, cohort)
  np.testing.assert_allclose(c, c[0], rtol=1e-9)


@in_every_setting()
def test_only_what_is_asked_for_is_read(rule):
  cohort, state = cohorts.random_for(rule, 5), later_state(rule)
  known = {"client_id", "weight", "num_examples", *rule.signals}
  if rule.geometry is not types.Geometry.NONE:
    known.add("squared_norm")
  if rule.geometry is types.Geometry.GRAM:
    known.add("gram")
  if rule.remembered_rounds:
    known.update(["remembered_id", "remembered_age"])
  hidden = dict.fromkeys(set(types.Cohort._fields) - known)
  tf.nest.map_structure(
    lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12),
    in_graph.eagerly(rule, cohort._replace(**hidden), state),
    in_graph.apply(rule, cohort, state),
  )


SEPARABLE = {
  name: rule
  for name, rule in RULE_CLASSES.items()
  if issubclass(rule, types.SeparableRule)
}


@in_every_setting(SEPARABLE)
def test_separable_coefficients_have_their_form(rule):
  cohort = cohorts.random_for(rule, 6)
  c = cohorts.coefficients(rule, cohort)
  # c_k = exp(l_k) (u + v x_k), with weights that are not normalized.
  as_they_come = cohort._replace(weight=cohort.num_examples)
  log_weight = np.asarray(rule.log_weight(as_they_come))
  x = rule.covariate(as_they_come)
  if x is None:
    expected = log_weight - log_weight.max()
    counted = c > 1e-200
    expected -= (expected - np.log(c, where=counted))[np.argmax(c)]
    np.testing.assert_allclose(np.log(c[counted]), expected[counted], rtol=1e-9)
  else:
    level = c / np.exp(log_weight)
    slopes = [
      (level[i] - level[j]) / (x[i] - x[j])
      for i, j in itertools.combinations(range(len(c)), 2)
    ]
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-6, atol=1e-15)


@in_every_setting([n for n, rule in SEPARABLE.items() if rule.can_use_sums()])
def test_coefficients_follow_from_sums(rule):
  cohort = cohorts.random_for(rule, 6)
  as_they_come = cohort._replace(weight=cohort.num_examples)
  if name_of_missing_reference(rule):
    assert rule.t > 0
    assert rule.loss_cap is None
    return
  e = np.exp(np.asarray(rule.log_weight(as_they_come)) - rule.log_reference())
  covariate = rule.covariate(as_they_come)
  x = np.zeros_like(e) if covariate is None else np.asarray(covariate)
  terms = rule.terms(as_they_come)
  weight, scale, first, second = (
    tf.constant(np.sum(values), tf.float64)
    for values in (cohort.num_examples, e, e * x, e * x**2)
  )
  sums = types.Sums(
    weight,
    scale,
    first,
    second,
    terms={n: tf.reduce_sum(values) for n, values in terms.items()},
  )
  output = rule.from_sums(sums)
  slope = 0 if output.slope is None else output.slope.numpy()
  c = e * (output.level.numpy() + slope * x)
  expected = in_graph.apply(rule, cohort)
  if e.sum() == 0:  # The tilt is so negative that all weights are 0.
    assert output.level == 0
    return
  np.testing.assert_allclose(
    c, expected.coefficients, rtol=1e-9, atol=1e-12 * np.abs(c).max()
  )
  for found, known in (
    (output.measurements, expected.measurements),
    (output.for_finalizer, expected.for_finalizer),
  ):
    for name in found.keys() & known.keys():
      np.testing.assert_allclose(found[name], known[name], rtol=1e-9)
  assert output.for_finalizer.keys() == expected.for_finalizer.keys()
  if "loss_variance" in output.measurements:
    weight = cohort.num_examples / np.sum(cohort.num_examples)
    mean = np.sum(weight * cohort.loss)
    np.testing.assert_allclose(
      output.measurements["loss_variance"],
      np.sum(weight * (cohort.loss - mean) ** 2),
      rtol=1e-9,
    )


def name_of_missing_reference(rule):
  """Returns the hyperparameter that `log_reference` lacks, or None."""
  try:
    rule.log_reference()
  except declared.FieldError as error:
    return error.field
  return None


@in_every_setting()
def test_rules_cannot_be_changed(rule):
  for hparam in vars(rule):
    with pytest.raises(AttributeError):
      setattr(rule, hparam, 0.5)
