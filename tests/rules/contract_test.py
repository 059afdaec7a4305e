"""What every rule keeps: equivariance, hard cohorts, purity, bad settings."""

import functools
import importlib
import inspect
import itertools
import pkgutil

import numpy as np
import pytest
import tensorflow as tf

from tests.rules import cohorts, in_graph
from tests.rules.settings import (
  HARD,
  RULE_CLASSES,
  SETTINGS,
  each_of,
  label,
)
from tff_fair import rules, types

every_setting = each_of(SETTINGS)


def test_every_rule_is_covered():
  found = {
    member
    for module in pkgutil.iter_modules(rules.__path__, f"{rules.__name__}.")
    for member in vars(importlib.import_module(module.name)).values()
    if inspect.isclass(member)
    and issubclass(member, types.Rule)
    and member.__module__ == module.name
    and not inspect.isabstract(member)
  }
  assert set(RULE_CLASSES.values()) == found
  assert {name for name, _ in SETTINGS} == set(RULE_CLASSES)


# Ids, ages and updates; client 0 is in every hard cohort, the others in none.
REMEMBERED = (
  [9, 8, 0],
  [1, 1, 2],
  np.random.default_rng(2).normal(size=[3, 9]),
)


def hard_cohort(rule, case):
  """The cohort, and all updates that its coefficients are for."""
  updates = np.asarray(HARD[case]["updates"])
  if not rule.remembered_rounds:
    return cohorts.make(**HARD[case]), updates
  remembered_ids, ages, old = REMEMBERED
  old = old[:, : updates.shape[1]]
  cohort = cohorts.make(**HARD[case], remembered=(remembered_ids, ages, old))
  return cohort, np.concatenate([updates, old])


def random_cohort(rule, m, *, seed=0, client_id=None):
  """Unequal clients, with nobody remembered."""
  updates, loss, num_examples = cohorts.random(m, d=23, seed=seed)
  nobody = ([], [], np.zeros([0, 23]))
  return cohorts.make(
    updates,
    loss,
    num_examples,
    client_id=client_id,
    remembered=nobody if rule.remembered_rounds else None,
    **cohorts.random_signals(m, seed),
  )


@functools.cache
def later_state(rule):
  """The state after three rounds, in which some clients took part."""
  state = None
  for seed, client_id in enumerate(([0, 1, 3], [1, 2, 7], [3, 7, 9])):
    cohort = random_cohort(rule, 3, seed=seed, client_id=client_id)
    state = in_graph.apply(rule, cohort, state).state
  return state


@pytest.mark.parametrize("case", HARD)
@every_setting
def test_hard_cohorts_give_finite_numbers(name, hparams, case):
  rule = RULE_CLASSES[name](**hparams)
  cohort, updates = hard_cohort(rule, case)
  for state in (None, later_state(rule)):
    output = in_graph.apply(rule, cohort, state)
    c = output.coefficients
    assert c.dtype == np.float64
    assert c.shape == (len(updates),)
    assert np.all(np.isfinite(c))
    assert np.all(np.isfinite(c @ updates))
    reported = dict(output.measurements)
    # Infinite: no beta is too large.
    assert reported.pop("beta_max", 1.0) > 0
    handed_on = (reported, output.for_finalizer, output.state)
    assert all(np.all(np.isfinite(x)) for x in tf.nest.flatten(handed_on))


@every_setting
def test_a_round_is_a_function_of_cohort_and_state(name, hparams):
  rule = RULE_CLASSES[name](**hparams)
  cohort, before = random_cohort(rule, 5), later_state(rule)
  first, again = (in_graph.apply(rule, cohort, before) for _ in range(2))
  tf.nest.map_structure(np.testing.assert_array_equal, first, again)
  # Types stay: the state of one round is what the next one gets.
  tf.nest.assert_same_structure(first.state, rule.initialize())
  for new, old in zip(
    tf.nest.flatten(first.state),
    tf.nest.flatten(rule.initialize()),
    strict=True,
  ):
    assert (new.dtype, new.ndim) == (old.dtype.as_numpy_dtype, old.shape.rank)


def by_order_of_ids(name, hparams, case):
  """Whether FedFV looks at the place of a client in the cohort.

  Then only the ascending order of ids, which the aggregation sees to, makes the
  result independent of the order of arrival.
  """
  if name != "fedfv" or hparams["alpha"] == 1:
    return False
  loss = HARD[case].get("loss", [1, 1])
  ties = len(set(loss)) < len(loss)
  return ties or (hparams["order"] == "random" and len(loss) > 2)


_ANY_ORDER = [
  (name, kw, case)
  for (name, kw), case in itertools.product(SETTINGS, HARD)
  if not by_order_of_ids(name, kw, case)
]


@pytest.mark.parametrize(
  ("name", "hparams", "case"),
  _ANY_ORDER,
  ids=[f"{label(n, kw)}-{case}" for n, kw, case in _ANY_ORDER],
)
def test_order_of_clients_does_not_matter(name, hparams, case):
  rule = RULE_CLASSES[name](**hparams)
  cohort, updates = hard_cohort(rule, case)
  m, state = len(cohort.client_id), later_state(rule)
  c = in_graph.apply(rule, cohort, state).coefficients
  order = np.roll(np.arange(m)[::-1], 1)
  other = in_graph.apply(rule, cohorts.permuted(cohort, order), state)
  # Where many coefficients give the same direction, they may differ.
  norms = np.linalg.norm(updates, axis=1)
  typical = np.median(norms)
  tolerance = 1e-6 * np.abs(c) @ norms
  tolerance += 1e-12 * max(typical * max(abs(c)), min(typical, 1))
  reordered = np.concatenate([updates[order], updates[m:]])
  np.testing.assert_allclose(
    other.coefficients @ reordered, c @ updates, rtol=0, atol=tolerance
  )


@each_of([(n, kw) for n, kw in SETTINGS if kw.get("order") != "random"])
def test_coefficients_go_with_their_clients(name, hparams):
  rule = RULE_CLASSES[name](**hparams)
  cohort, state = random_cohort(rule, 6), later_state(rule)
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


@pytest.mark.parametrize("case", ["identical clients", "all updates zero"])
@every_setting
def test_equal_clients_are_treated_equally(name, hparams, case):
  # The two-phase way finds a client's coefficient by its row. In the first
  # round: later ones know clients apart that have taken part unequally.
  rule = RULE_CLASSES[name](**hparams)
  updates = np.repeat(HARD[case]["updates"], 2, axis=0)
  nobody = ([], [], np.zeros([0, updates.shape[1]]))
  cohort = cohorts.make(
    updates,
    np.full(len(updates), 0.7),
    remembered=nobody if rule.remembered_rounds else None,
  )
  c = cohorts.coefficients(rule, cohort)
  np.testing.assert_allclose(c, c[0], rtol=1e-9)


@every_setting
def test_only_what_is_asked_for_is_read(name, hparams):
  rule = RULE_CLASSES[name](**hparams)
  cohort, state = random_cohort(rule, 5), later_state(rule)
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
    in_graph.apply(rule, cohort._replace(**hidden), state),
    in_graph.apply(rule, cohort, state),
  )


@each_of(
  [
    (name, kw)
    for name, kw in SETTINGS
    if issubclass(RULE_CLASSES[name], types.SeparableRule)
  ]
)
def test_separable_coefficients_have_their_form(name, hparams):
  rule = RULE_CLASSES[name](**hparams)
  assert isinstance(rule, types.SeparableRule)
  cohort = random_cohort(rule, 6)
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


@pytest.mark.parametrize(
  ("name", "hparams", "error", "message"),
  [
    ("adafed", {"gamma": -0.1}, ValueError, r"gamma in \[0, inf\).*-0\.1"),
    ("adafed", {"gamma": float("nan")}, ValueError, r"gamma in \[0, inf\)"),
    ("adafed", {"gamma": float("inf")}, ValueError, r"gamma in \[0, inf\)"),
    ("adafed", {"gamma": "1"}, TypeError, "gamma to be a number.*str"),
    ("adafed", {"gamma": None}, TypeError, "gamma to be a number"),
    ("fedmgda_plus", {"epsilon": -1}, ValueError, r"epsilon in \[0, 1\]"),
    ("fedmgda_plus", {"epsilon": 1.01}, ValueError, r"epsilon in \[0, 1\]"),
    ("fedmgda_plus", {"epsilon": True}, TypeError, "epsilon to be a number"),
    ("fedmgda_plus", {"normalize": 1}, TypeError, "normalize to be True or"),
    ("qfedavg", {"q": -1}, ValueError, r"q in \[0, inf\), found -1"),
    ("qfedavg", {"q": [1]}, TypeError, "q to be a number, found list"),
    ("qfedavg", {"lipschitz": 0}, ValueError, r"lipschitz in \(0, inf\)"),
    ("qfedavg", {"lipschitz": "1"}, TypeError, "lipschitz to be a number"),
    ("term", {"t": float("inf")}, ValueError, r"t in \(-inf, inf\)"),
    ("term", {"t": "1"}, TypeError, "t to be a number"),
    ("vred", {"beta": -1e-9}, ValueError, r"beta in \[0, inf\)"),
    ("semi_vred", {"beta": -1}, ValueError, r"beta in \[0, inf\)"),
    ("semi_vred", {"beta": 1j}, TypeError, "beta to be a number"),
  ],
)
def test_bad_settings_are_named(name, hparams, error, message):
  with pytest.raises(error, match=message):
    RULE_CLASSES[name](**hparams)


@every_setting
def test_rules_cannot_be_changed(name, hparams):
  rule = RULE_CLASSES[name](**hparams)
  for hparam in vars(rule):
    with pytest.raises(AttributeError):
      setattr(rule, hparam, 0.5)
