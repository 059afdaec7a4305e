import itertools

import numpy as np
import pytest

from tests.refusals import rejected
from tff_fair.metrics import ceiling
from tff_fair.metrics.client_losses import ClientLosses

pytestmark = pytest.mark.pure

# Least risks of _problem(seed), with weights in the ball of radius 5: the mean,
# the CVaR over 30 %, the largest loss, and half the mean plus half the CVaR.
# Computed by cvxpy 1.9.3 with Clarabel, at tolerances of 1e-9.
_CVXPY = {
  0: (0.86870629, 0.93923145, 0.93923145, 0.91172641),
  1: (0.61167844, 0.69301431, 0.69301431, 0.68042189),
  2: (3.7141078, 4.33080413, 4.33080416, 4.15884657),
  3: (0.97102506, 1.00562933, 1.00562933, 1.00270565),
  4: (0.27890096, 0.43302191, 0.45033466, 0.36359577),
  5: (5.17362951, 5.84097731, 5.8409773, 5.72546063),
}


def _problem(seed):
  """Returns rows, labels, clients and the loss of a small random problem."""
  rng = np.random.default_rng(seed)
  loss = ("softmax", "logistic", "squared")[seed % 3]
  num_outputs = {"softmax": 3, "logistic": 1, "squared": 2}[loss]
  client = np.repeat(np.arange(6), rng.integers(4, 15, 6))
  x = np.concatenate(
    [rng.normal(size=(client.size, 3)), np.ones((client.size, 1))], 1
  )
  of_client = rng.normal(size=(6, 4, num_outputs)) + rng.normal(
    size=(4, num_outputs)
  )
  z = np.einsum("nd,ndc->nc", x, of_client[client])
  if loss == "softmax":
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
  elif loss == "logistic":
    y = (z[:, 0] + rng.logistic(size=len(z)) > 0).astype(int)
  else:
    y = z + rng.normal(size=z.shape)
  return x, y, client, loss


def _losses(seed):
  x, y, client, loss = _problem(seed)
  return ClientLosses(x, y, client, loss, 3)


def _risks(number):
  p = np.full(number, 1 / number)
  return [
    ceiling.Risk(p),
    ceiling.Risk(p, 1.0, 0.3),
    ceiling.largest_loss(p),
    ceiling.Risk(p, 0.5, 0.3),
  ]


def _row_losses(outputs, y, loss):
  if loss == "softmax":
    odds = np.exp(outputs)
    return -np.log(odds[np.arange(len(y)), y] / odds.sum(1))
  if loss == "logistic":
    return np.log1p(np.exp(-(2 * y - 1) * outputs[:, 0]))
  return ((outputs - y) ** 2).mean(1)


@pytest.mark.parametrize("seed", range(3))
def test_losses_gradients_and_curvature_are_those_of_the_formula(seed):
  x, y, client, loss = _problem(seed)
  losses = _losses(seed)
  weights = np.random.default_rng(9).normal(size=np.prod(losses.shape))
  rows = _row_losses(x @ weights.reshape(losses.shape), y, loss)
  expected = [rows[client == k].mean() for k in range(6)]
  found = losses.derivatives(weights)
  np.testing.assert_allclose(found.values, expected, rtol=1e-12)

  h = 1e-5
  multipliers = np.random.default_rng(8).dirichlet(np.ones(6))
  hessian = losses.curvature(weights, multipliers)
  for direction in np.eye(weights.size):
    up, down = weights + h * direction, weights - h * direction
    slopes = (losses.values(up) - losses.values(down)) / (2 * h)
    np.testing.assert_allclose(found.gradients @ direction, slopes, atol=1e-8)
    change = (
      losses.derivatives(up).gradients - losses.derivatives(down).gradients
    )
    np.testing.assert_allclose(
      hessian @ direction, multipliers @ change / (2 * h), atol=1e-7
    )


@pytest.mark.parametrize("seed", _CVXPY)
def test_agrees_with_cvxpy(seed):
  for risk, expected in zip(_risks(6), _CVXPY[seed], strict=True):
    found = ceiling.least_risk(_losses(seed), risk, 5.0, 1e-7)
    assert found.value == pytest.approx(expected, abs=1e-6)
    assert found.bound <= expected + 1e-8
    assert found.gap <= 1e-7
    assert found.norm <= 5 + 1e-12


def test_the_certificate_holds_for_weights_of_any_kind():
  rng = np.random.default_rng(0)
  for seed in range(3):
    losses = _losses(seed)
    for risk in _risks(6):
      found = ceiling.least_risk(losses, risk, 2.0)
      assert found.gap <= 1e-4
      for _ in range(200):
        weights = rng.normal(size=np.prod(losses.shape))
        weights *= 2 * rng.random() / np.linalg.norm(weights)
        assert risk.evaluate(losses.values(weights)) >= found.bound


def test_a_bound_from_afar_holds_too():
  losses, risk = _losses(0), _risks(6)[0]
  least = ceiling.least_risk(losses, risk, 5.0, 1e-7)
  rng = np.random.default_rng(1)
  for scale in (0.1, 1.0, 10.0):
    weights = scale * rng.normal(size=np.prod(losses.shape))
    bound = ceiling.lower_bound(
      losses.derivatives(weights), weights, risk.weights, 5.0
    )
    assert bound <= least.value


def test_the_tail_is_that_of_the_linear_program():
  rng = np.random.default_rng(2)
  for number, share in itertools.product((1, 2, 5, 30), (0.1, 0.35, 1.0)):
    losses = rng.normal(size=number)
    risk = ceiling.Risk(np.full(number, 1 / number), 1.0, share)
    # CVaR is the least t + (mean excess over t) / share, where t is a loss.
    excess = [
      t + min(1, 1 / (share * number)) * np.maximum(losses - t, 0).sum()
      for t in losses
    ]
    assert risk.evaluate(losses) == pytest.approx(min(excess))


def test_the_nearest_point_satisfies_its_conditions():
  rng = np.random.default_rng(3)
  for number, share in itertools.product((1, 3, 20), (0.05, 0.5, 1.0)):
    cap = min(1, 1 / (share * number))
    for scale in (0.0, 0.1, 100.0):
      point = scale * rng.normal(size=number)
      u = ceiling.project_to_tail(point, cap)
      assert u.sum() == pytest.approx(1)
      assert u.min() >= 0
      assert u.max() <= cap + 1e-12
      # <point - u, v - u> <= 0 for all v in the set; it is largest at `best`.
      best = ceiling.worst_tail(point - u, cap)
      assert (point - u) @ (best - u) <= 1e-9 * max(1, scale)


def test_a_ball_that_binds_is_reported():
  rng = np.random.default_rng(4)
  x, client = rng.normal(size=(60, 3)), np.repeat(np.arange(6), 10)
  losses = ClientLosses(x, (x[:, 0] > 0).astype(int), client, "logistic")
  for risk in _risks(6):
    found = ceiling.least_risk(losses, risk, 3.0)
    assert found.gap <= 1e-4
    assert found.is_at_boundary


def test_units_of_labels_and_features_do_not_matter():
  x, y, client, _ = _problem(2)
  scale = np.array([1e3, 1e-3, 1, 1])
  for risk in _risks(6):
    here = ceiling.least_risk(
      ClientLosses(x, y, client, "squared"), risk, 1e4, 1e-6
    )
    there = ceiling.least_risk(
      ClientLosses(x * scale, y * 1e5, client, "squared"), risk, 1e9, 1e4
    )
    assert there.value / 1e10 == pytest.approx(here.value, abs=2e-6)


def test_duplicates_change_nothing():
  x, y, client, loss = _problem(0)
  once = _losses(0)
  twice = ClientLosses(
    np.tile(np.c_[x, x[:, :1]], (2, 1)),
    np.tile(y, 2),
    np.concatenate([client, client + 6]),
    loss,
  )
  for one, two in zip(_risks(6), _risks(12), strict=True):
    small = ceiling.least_risk(once, one, 50.0, 1e-6)
    large = ceiling.least_risk(twice, two, 50.0, 1e-6)
    assert large.gap <= 1e-6
    assert large.value == pytest.approx(small.value, abs=1e-4)


def test_one_client_has_one_risk():
  x, y, _, loss = _problem(0)
  losses = ClientLosses(x, y, np.zeros(len(x), int), loss)
  values = [ceiling.least_risk(losses, r, 9.0, 1e-7).value for r in _risks(1)]
  np.testing.assert_allclose(values, values[0], atol=1e-7)


def test_wrong_arguments_are_refused():
  x, y, client, loss = _problem(0)
  good = {"x": x, "y": y, "client": client, "loss": loss}
  for name, wrong in (
    ("x", np.where(x > 1, np.nan, x)),
    ("x", x[:, 0]),
    ("y", y - 1),
    ("y", y[1:]),
    ("client", client + 1),
    ("client", client.astype(float)),
    ("client", client * 2**50),
    ("loss", "hinge"),
  ):
    with rejected(name):
      ClientLosses(**{**good, name: wrong})
  losses, p = _losses(0), np.full(6, 1 / 6)
  for name, arguments in (
    ("weights", (ceiling.Risk(p[:5]), 1.0)),
    ("weights", (ceiling.Risk(2 * p), 1.0)),
    ("share", (ceiling.Risk(p, 1.0, 0.0), 1.0)),
    ("tail", (ceiling.Risk(p, 1.5), 1.0)),
    ("radius", (ceiling.Risk(p), 0.0)),
    ("tolerance", (ceiling.Risk(p), 1.0, np.nan)),
    ("start", (ceiling.Risk(p), 1.0, 0.1, np.zeros(3))),
    ("start", (ceiling.Risk(p), 1.0, 0.1, np.full(losses.shape, np.nan))),
  ):
    with rejected(name):
      ceiling.least_risk(losses, *arguments)
