"""What every rule keeps: values, equivariance, hard cohorts, bad settings."""

import itertools

import numpy as np
import pytest

from tests import reference
from tests.rules import cohorts
from tff_fair import types
from tff_fair.rules import (
  adafed,
  fedavg,
  fedavg_n,
  fedmgda_plus,
  qfedavg,
  term,
  vred,
)

RULE_CLASSES = {
  "fedavg": fedavg.FedAvgRule,
  "fedavg_n": fedavg_n.FedAvgNRule,
  "qfedavg": qfedavg.QFedAvgRule,
  "term": term.TermRule,
  "vred": vred.VRedRule,
  "semi_vred": vred.SemiVRedRule,
  "fedmgda_plus": fedmgda_plus.FedMgdaPlusRule,
  "adafed": adafed.AdaFedRule,
}
SETTINGS = [
  ("fedavg", {}),
  ("fedavg_n", {}),
  *[("qfedavg", {"q": q}) for q in (0, 0.125, 1, 2.5, 15)],
  *[("term", {"t": t}) for t in (0, 1.0, -2, 1000, -1000)],
  *[("vred", {"beta": beta}) for beta in (0, 0.1, 50.0)],
  *[("semi_vred", {"beta": beta}) for beta in (0, 0.1, 50.0)],
  *[
    ("fedmgda_plus", {"epsilon": epsilon, "normalize": normalize})
    for epsilon in (0, 0.1, 1)
    for normalize in (True, False)
  ],
  *[("adafed", {"gamma": gamma}) for gamma in (0, 0.5, 1.0, 10)],
]
IDS = ["-".join(map(str, (n, *kw.values()))) for n, kw in SETTINGS]
every_setting = pytest.mark.parametrize(("name", "hparams"), SETTINGS, ids=IDS)

_ROWS = np.random.default_rng(1).normal(size=(4, 9))
# Updates, losses and numbers of examples (equal if None).
HARD = {
  "one client": (_ROWS[:1], [0.7], None),
  "identical clients": (_ROWS[[0, 0]], [0.7, 0.7], None),
  "identical updates": (_ROWS[[0, 0, 1]], [0.7, 0.2, 1.0], None),
  "opposite updates": ([_ROWS[0], -_ROWS[0]], [0.7, 0.2], None),
  "all updates zero": (np.zeros([3, 9]), [0.7, 0.2, 1.0], None),
  "one update zero": (_ROWS * [[1], [0], [1], [1]], [0.7, 0.2, 1, 2], None),
  "more clients than weights": (_ROWS[:, :2], [0.7, 0.2, 1.0, 2.0], None),
  "no loss": (_ROWS, [0, 0, 0, 0], None),
  "one loss zero": (_ROWS, [0.7, 0, 1, 2], None),
  "tiny losses": (_ROWS, [1e-30, 2e-30, 3e-30, 5e-30], None),
  "huge losses": (_ROWS, [1e6, 2e6, 3e6, 5e6], None),
  "tiny and huge losses": (_ROWS, [1e-30, 1, 1e6, 0.3], None),
  "negative losses": (_ROWS, [-1.0, -2.0, 0.5, -1e6], None),
  "one update huge": (_ROWS * [[1e30], [1], [1], [1]], [1, 2, 0.5, 1], None),
  "one update tiny": (_ROWS * [[1e-30], [1], [1], [1]], [1, 2, 0.5, 1], None),
  "all updates huge": (_ROWS * 1e38, [1, 2, 0.5, 1], None),
  "all updates tiny": (_ROWS * 1e-38, [1, 2, 0.5, 1], None),
  "unequal sizes": (_ROWS, [1, 2, 0.5, 1], [1, 1e9, 3, 2**24]),
}


@pytest.mark.parametrize("m", [1, 2, 7])
@pytest.mark.parametrize(
  ("name", "hparams"),
  # Where exp(t f) does not overflow in the reference; see term_test.
  [(name, kw) for name, kw in SETTINGS if abs(kw.get("t", 0)) < 100],
)
def test_direction_is_that_of_numpy(name, hparams, m):
  updates, loss, num_examples = cohorts.random(m, d=23, seed=m)
  cohort = cohorts.make(updates, loss, num_examples)
  direction = cohorts.coefficients(RULE_CLASSES[name](**hparams), cohort)
  clients = cohorts.clients(updates, loss, num_examples)
  expected = getattr(reference, name)(clients, **hparams)
  # The program's reference solution is good to about 1e-8 itself.
  tolerance = 1e-6 if name == "fedmgda_plus" else 1e-9
  np.testing.assert_allclose(
    direction @ updates, expected, rtol=0, atol=tolerance * abs(expected).max()
  )


@pytest.mark.parametrize("case", HARD)
@every_setting
def test_hard_cohorts_give_finite_numbers(name, hparams, case):
  rule = RULE_CLASSES[name](**hparams)
  updates, loss, num_examples = HARD[case]
  cohort = cohorts.make(updates, loss, num_examples)
  c = cohorts.coefficients(rule, cohort)
  assert c.dtype == np.float64
  assert c.shape == (len(updates),)
  assert np.all(np.isfinite(c))
  assert np.all(np.isfinite(c @ updates))
  reported = cohorts.measurements(rule, cohort)
  assert reported.pop("beta_max", 1.0) > 0  # Infinite: no beta is too large.
  assert np.all(np.isfinite(list(reported.values())))


@pytest.mark.parametrize("case", HARD)
@every_setting
def test_order_of_clients_does_not_matter(name, hparams, case):
  rule = RULE_CLASSES[name](**hparams)
  cohort = cohorts.make(*HARD[case])
  updates = np.asarray(HARD[case][0])
  c = cohorts.coefficients(rule, cohort)
  order = np.roll(np.arange(len(c))[::-1], 1)
  other = cohorts.coefficients(rule, cohorts.permuted(cohort, order))
  # Where many coefficients give the same direction, they may differ.
  norms = np.linalg.norm(updates, axis=1)
  typical = np.median(norms)
  tolerance = 1e-6 * np.abs(c) @ norms
  tolerance += 1e-12 * max(typical * max(abs(c)), min(typical, 1))
  np.testing.assert_allclose(
    other @ updates[order], c @ updates, rtol=0, atol=tolerance
  )


@every_setting
def test_coefficients_go_with_their_clients(name, hparams):
  rule = RULE_CLASSES[name](**hparams)
  cohort = cohorts.make(*cohorts.random(6, d=23))
  order = np.array([3, 0, 5, 1, 2, 4])
  np.testing.assert_allclose(
    cohorts.coefficients(rule, cohorts.permuted(cohort, order)),
    cohorts.coefficients(rule, cohort)[order],
    rtol=1e-6,
    atol=1e-12,
  )


@pytest.mark.parametrize("case", ["identical clients", "all updates zero"])
@every_setting
def test_equal_clients_are_treated_equally(name, hparams, case):
  # The two-phase way finds a client's coefficient by its row.
  updates = np.repeat(HARD[case][0], 2, axis=0)
  cohort = cohorts.make(updates, np.full(len(updates), 0.7))
  c = cohorts.coefficients(RULE_CLASSES[name](**hparams), cohort)
  np.testing.assert_allclose(c, c[0], rtol=1e-9)


@every_setting
def test_only_what_is_asked_for_is_read(name, hparams):
  rule = RULE_CLASSES[name](**hparams)
  cohort = cohorts.make(*cohorts.random(5, d=8))
  known = {"client_id", "weight", "num_examples", *rule.signals}
  if rule.geometry is not types.Geometry.NONE:
    known.add("squared_norm")
  if rule.geometry is types.Geometry.GRAM:
    known.add("gram")
  hidden = dict.fromkeys(set(types.Cohort._fields) - known)
  output = rule.coefficients(cohort._replace(**hidden), rule.initialize())
  np.testing.assert_allclose(
    np.asarray(output.coefficients),
    cohorts.coefficients(rule, cohort),
    rtol=1e-9,
    atol=1e-12,
  )


@pytest.mark.parametrize(
  ("name", "hparams"),
  [
    (name, kw)
    for name, kw in SETTINGS
    if issubclass(RULE_CLASSES[name], types.SeparableRule)
  ],
)
def test_separable_coefficients_have_their_form(name, hparams):
  rule = RULE_CLASSES[name](**hparams)
  cohort = cohorts.make(*cohorts.random(6, d=8))
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


@pytest.mark.parametrize("name", RULE_CLASSES)
def test_rules_have_no_state_and_cannot_be_changed(name):
  rule = RULE_CLASSES[name]()
  assert rule.initialize() == ()
  cohort = cohorts.make(*cohorts.random(3, d=5))
  assert rule.coefficients(cohort, ()).state == ()
  for hparam in vars(rule):
    with pytest.raises(AttributeError):
      setattr(rule, hparam, 0.5)
