"""The methods, implemented again in NumPy (float64) from their definitions.

Nothing here is shared with the library: local training is plain SGD on softmax
regression, AdaFed is the paper's orthogonalization, FedMGDA+'s program is
solved by scipy.

Each method takes a few lines, and `METHODS` at the end describes its whole
round.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special

from tests import hulls, small_problem


@dataclasses.dataclass
class Client:
  """What the server knows about a client in a round."""

  client_id: int
  num_examples: int
  loss: float
  accuracy: float
  update: np.ndarray
  effective_steps: float
  gradient_norm: float
  initial_loss: float
  learning_rate: float = small_problem.LEARNING_RATE


def _split(theta):
  kernel_size = small_problem.NUM_FEATURES * small_problem.NUM_CLASSES
  kernel = theta[:kernel_size].reshape(small_problem.NUM_FEATURES, -1)
  return kernel, theta[kernel_size:]


def loss_and_gradient(theta, x, y):
  kernel, bias = _split(theta)
  logits = x.astype(np.float64) @ kernel + bias
  logits -= logits.max(axis=1, keepdims=True)
  log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
  loss = -log_p[np.arange(len(y)), y].mean()
  residual = np.exp(log_p)
  residual[np.arange(len(y)), y] -= 1
  residual /= len(y)
  return loss, np.concatenate([(x.T @ residual).ravel(), residual.sum(axis=0)])


def accuracy(theta, x, y):
  kernel, bias = _split(theta)
  return np.mean(np.argmax(x @ kernel + bias, axis=1) == y)


def run_client(
  theta,
  client_id,
  *,
  epochs=1,
  learning_rate=small_problem.LEARNING_RATE,
  mu=0.0,
  momentum=0.0,
  slope=lambda _: 1.0,
  correction=0.0,
) -> Client:
  """Runs local SGD; `slope` maps a loss to the derivative of its transform.

  `correction` is added to every gradient.
  """
  x, y = small_problem.client_arrays()[client_id]
  loss, gradient = loss_and_gradient(theta, x, y)
  w, optimizer = theta.copy(), Momentum(learning_rate, momentum)
  # The velocity and the path of a weight whose gradient is always one.
  unit, units = 0.0, Momentum(1.0, momentum)
  for _ in range(epochs):
    for start in range(0, len(y), small_problem.BATCH_SIZE):
      batch = slice(start, start + small_problem.BATCH_SIZE)
      batch_loss, g = loss_and_gradient(w, x[batch], y[batch])
      g = slope(batch_loss) * g + mu * (w - theta) + correction
      w = w - optimizer.step(g)
      unit += units.step(1)
  return Client(
    client_id=client_id,
    num_examples=len(y),
    loss=loss,
    accuracy=accuracy(theta, x, y),
    update=theta - w,
    effective_steps=unit,
    gradient_norm=float(np.linalg.norm(gradient)),
    initial_loss=loss_and_gradient(initial_theta(), x, y)[0],
    learning_rate=learning_rate,
  )


def initial_theta():
  return np.concatenate(
    [w.ravel().astype(np.float64) for w in small_problem.initial_weights()]
  )


def _arrays(clients):
  n = np.array([c.num_examples for c in clients], np.float64)
  f = np.array([c.loss for c in clients])
  updates = np.stack([c.update for c in clients])
  return n / n.sum(), f, updates


def fedavg(clients):
  p, _, updates = _arrays(clients)
  return p @ updates


def _ratio(numerator, denominator, otherwise=0.0):
  """Returns the quotient where both are positive, else `otherwise`."""
  found = np.full(
    np.broadcast_shapes(numerator.shape, denominator.shape), otherwise
  )
  moves = (numerator > 0) & (denominator > 0)
  return np.divide(numerator, denominator, out=found, where=moves)


def _units(updates):
  norms = np.linalg.norm(updates, axis=1, keepdims=True)
  return np.divide(updates, norms, out=np.zeros_like(updates), where=norms > 0)


def fedavg_n(clients):
  p, _, updates = _arrays(clients)
  return p @ _units(updates)


def qfedavg(clients, q=0.1, lipschitz=None):
  """Follows Algorithm 2 as printed; L is 1 / each client's rate by default."""
  _, f, updates = _arrays(clients)
  bounds = np.array([lipschitz or 1 / c.learning_rate for c in clients])
  w = bounds[:, np.newaxis] * updates
  h = q * f ** (q - 1) * (w**2).sum(axis=1) + bounds * f**q
  return (f**q) @ w / h.sum()


def term(clients, t=1.0, loss_cap=np.inf):
  p, f, updates = _arrays(clients)
  tilted = np.log(p) + t * np.minimum(f, loss_cap)
  return scipy.special.softmax(tilted) @ updates


def _deviation_penalized(clients, beta, positive_part):
  p, f, updates = _arrays(clients)
  deviation = f - p @ f
  if positive_part:
    deviation = np.maximum(deviation, 0)
  mean = p @ updates
  return mean + 2 * beta * (p * deviation) @ (updates - mean)


def vred(clients, beta=0.1):
  return _deviation_penalized(clients, beta, positive_part=False)


def semi_vred(clients, beta=0.1):
  return _deviation_penalized(clients, beta, positive_part=True)


def fedmgda_plus(clients, epsilon=0.1, normalize=True):
  p, _, points = _arrays(clients)
  if normalize:
    points = _units(points)
  bounds = [(max(0, q - epsilon), min(1, q + epsilon)) for q in p]
  weights = least_on_simplex(
    lambda x: np.sum((x @ points) ** 2),
    lambda x: 2 * points @ (x @ points),
    p,
    bounds,
  )
  return weights @ points


def least_on_simplex(objective, gradient, start, bounds=None):
  solution = scipy.optimize.minimize(
    objective,
    start,
    jac=gradient,
    bounds=bounds or [(0, 1)] * len(start),
    constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
    method="SLSQP",
    options={"ftol": 1e-15, "maxiter": 1000},
  )
  return solution.x


def adafed(clients, gamma=1.0, hull=False):
  """Orthogonalizes with slopes, then weights by 1/norm^2: Eqs. 5, 6, 14.

  With `hull`, the point of least norm in the convex hull replaces a direction
  with a negative coefficient.
  """
  _, f, updates = _arrays(clients)
  slopes = np.abs(f) ** gamma
  basis: list[np.ndarray] = []
  for g, slope in zip(updates, slopes, strict=True):
    shares = [(g @ b) / (b @ b) for b in basis]
    numerator = g - sum(
      (s * b for s, b in zip(shares, basis, strict=True)), np.zeros_like(g)
    )
    basis.append(numerator / (slope - sum(shares)))
  inverse = np.array([1 / (b @ b) for b in basis])
  direction = inverse / inverse.sum() @ np.stack(basis)
  coefficients = np.linalg.lstsq(updates.T, direction, rcond=None)[0]
  if not hull or coefficients.min() >= 0:
    return direction
  points = updates / slopes[:, np.newaxis]
  return hulls.least_norm(points) @ points


def accumulated(clients):
  return fedavg(clients) / small_problem.LEARNING_RATE


def fednova(clients):
  p, _, updates = _arrays(clients)
  steps = np.array([c.effective_steps for c in clients])
  return (p @ steps) * (_ratio(p, steps) @ updates)


def project_to_simplex(v):
  """Projects by the sorted partial sums of Duchi et al., Fig. 1."""
  descending = np.sort(v)[::-1]
  shifts = (np.cumsum(descending) - 1) / np.arange(1, len(v) + 1)
  return np.maximum(v - shifts[np.flatnonzero(descending > shifts)[-1]], 0)


def afl(clients, memory, num_clients, lambda_learning_rate=0.1):
  _, f, updates = _arrays(clients)
  weights = memory.setdefault("lambda", np.full(num_clients, 1 / num_clients))
  ids = [c.client_id for c in clients]
  # If all clients of the cohort have weight 0, the model does not change.
  direction = weights[ids] @ updates / (weights[ids].sum() or 1)
  ascended = weights.copy()
  ascended[ids] += lambda_learning_rate * f
  memory["lambda"] = project_to_simplex(ascended)
  return direction


def delta_fl(clients, alpha=0.5):
  p, f, updates = _arrays(clients)
  reached = min(v for v in f if p[f <= v].sum() >= 1 - alpha - 1e-9)
  kept = [k for k in range(len(f)) if f[k] >= reached]
  return p[kept] @ updates[kept] / p[kept].sum()


def gifair(clients, fraction=0.5):
  p, f, updates = _arrays(clients)
  if len(f) == 1:
    return updates[0]
  ranks = np.array([np.sign(v - f).sum() for v in f])
  return (p + fraction * p.min() / (len(f) - 1) * ranks) @ updates


def fairfed(clients, memory, beta=1.0, num_clients=None):
  """Returns FairFed's direction for deviations of 0, which all callers have."""
  del beta, num_clients
  p, _, updates = _arrays(clients)
  w = [
    memory.setdefault(c.client_id, own)
    for c, own in zip(clients, p, strict=True)
  ]
  return np.array(w) @ updates / np.sum(w)


def uniform_mean(clients, num_clients=None, lambda_learning_rate=0.1):
  del num_clients, lambda_learning_rate
  return _arrays(clients)[2].mean(0)


def fedfa(clients, memory, b=0.5):
  _, _, updates = _arrays(clients)
  counts = memory.setdefault("counts", {})
  for c in clients:
    counts[c.client_id] = counts.get(c.client_id, 0) + 1
  a = np.array([c.accuracy for c in clients])
  s = np.array([counts[c.client_id] for c in clients], np.float64)

  def shares(argument):
    bits = -np.log2(np.clip(argument, 1e-6, 1))
    return (
      bits / bits.sum() if bits.sum() else np.full(len(bits), 1 / len(bits))
    )

  accuracy_share = a / a.sum() if a.sum() else np.zeros_like(a)
  c = (1 - b) * shares(accuracy_share) + b * shares(1 - s / s.sum())
  return c @ updates


def fedfv(clients, memory, alpha=0.1, tau=0, order="loss"):
  clients = sorted(clients, key=lambda c: (c.loss, c.client_id))
  m = len(clients)
  updates = [c.update for c in clients]
  first_kept = m if alpha == 0 else math.ceil((m - 1) * (1 - alpha) - 1e-9)
  targets = list(range(m)) if order == "loss" else list(range(m))[::-1]
  projected = []
  for i in range(m):
    g = updates[i].copy()
    if i < first_kept:
      for j in targets:
        if j != i and g @ updates[j] < 0:
          g -= (g @ updates[j]) / (updates[j] @ updates[j]) * updates[j]
    projected.append(g)
  g = np.mean(projected, axis=0)
  t = memory.setdefault("t", 0)
  # Each client's latest round and update.
  latest = memory.setdefault("latest", {})
  cohort = {c.client_id for c in clients}
  if t >= tau:
    for age in range(tau, 0, -1):
      conflicting = [
        h
        for k, (when, h) in latest.items()
        if when == t - age and k not in cohort and h @ g < 0
      ]
      if conflicting:
        g_con = np.sum(conflicting, axis=0)
        if g @ g_con < 0:
          g = g - (g @ g_con) / (g_con @ g_con) * g_con
  for c in clients:
    latest[c.client_id] = (t, c.update)
  memory["t"] = t + 1
  mean_norm = np.linalg.norm(np.mean(updates, axis=0))
  return g / np.linalg.norm(g) * mean_norm


def pseudo_gradient(clients, alpha=1.0):
  """Returns AdaFedAdam's g and C_t; clients that do not move count as C = 1."""
  p, f, updates = _arrays(clients)
  initial, gradient, eta = (
    np.array([getattr(c, name) for c in clients])
    for name in ("initial_loss", "gradient_norm", "learning_rate")
  )
  improved = np.where(initial > 0, _ratio(f, initial), 1)
  log_w = np.log(p) + scipy.special.xlogy(alpha, improved)
  w = scipy.special.softmax(log_w) if np.isfinite(log_w).any() else 0 * p
  own_rate = _ratio(np.linalg.norm(updates, axis=1), gradient)
  certainty = 1 + w @ np.log(_ratio(own_rate, eta, otherwise=1.0))
  return w * _ratio(np.ones_like(p), own_rate) @ updates, certainty


def adafedadam(clients, memory, alpha=1.0):
  """Returns the whole step, 0.001 * C_t * m_hat / (sqrt(v_hat) + eps)."""
  g, certainty = pseudo_gradient(clients, alpha)
  certainty = max(certainty, 1e-3)
  beta1, beta2 = 0.9**certainty, 0.999**certainty
  m = memory.get("m", 0) * beta1 + (1 - beta1) * g
  v = memory.get("v", 0) * beta2 + (1 - beta2) * g**2
  c1, c2 = memory.get("c1", 1) * beta1, memory.get("c2", 1) * beta2
  memory.update(m=m, v=v, c1=c1, c2=c2)
  return certainty * 0.001 * (m / (1 - c1)) / (np.sqrt(v / (1 - c2)) + 1e-8)


def drfl(clients, q=1.0):
  p, f, updates = _arrays(clients)
  logs = np.log(p) + scipy.special.xlogy(q, np.maximum(f, 0))
  return (
    scipy.special.softmax(logs if logs.max() > -np.inf else np.log(p)) @ updates
  )


CDFS = {
  "weibull": lambda x: 1 - np.exp(-(x**2)),
  "exponential": lambda x: 1 - np.exp(-x),
  "frechet": lambda x: np.exp(-1 / x) if x > 0 else 0.0,
  "gumbel": lambda x: np.exp(-np.exp(-(x - 1))),
  "logistic": lambda x: 1 / (1 + np.exp(-(x - 1))),
  "normal": lambda x: scipy.special.ndtr(x - 1),
}


def cdf_of_losses(f, transform):
  f = np.maximum(f, 0)
  mean = np.mean(f)
  x = f / mean if mean > 0 else np.ones(len(f))
  return np.array([CDFS[transform](value) for value in x])


def aaggff_s_mixing(memory, ids, f, num_clients, transform="gumbel"):
  """Returns a round's mixing coefficients, which depend on all past rounds."""
  n = num_clients
  pi = memory.setdefault("pi", np.full(n, 1 / n))
  own = cdf_of_losses(f, transform) / n
  r = np.full(n, own.mean())
  r[ids] = own
  rounds = memory.setdefault("rounds", [])
  rounds.append((-r / (1 + pi @ r), pi))

  def objective(x):
    return 2 * x @ x + sum(
      g @ x + n / 8 * (g @ (x - before)) ** 2 for g, before in rounds
    )

  def gradient(x):
    return 4 * x + sum(
      g + n / 4 * (g @ (x - before)) * g for g, before in rounds
    )

  memory["pi"] = least_on_simplex(objective, gradient, pi)
  return memory["pi"]


def aaggff_d_mixing(memory, ids, f, num_clients, transform="gumbel"):
  n = num_clients
  pi = memory.setdefault("pi", np.full(n, 1 / n))
  share = len(ids) / n
  own = share * cdf_of_losses(f, transform)
  mean = own.mean()
  estimate = np.full(n, mean)
  estimate[ids] += (own - mean) / share
  g = -estimate / (1 + mean) + mean * (pi @ (estimate - mean)) / (1 + mean) ** 2
  memory["G"] = memory.get("G", 0) + g
  memory["t"] = memory.get("t", 0) + 1
  rate = math.sqrt(math.log(n)) / ((2 + share) * math.sqrt(memory["t"] + 1))
  exponent = -memory["G"] * rate
  weights = np.exp(exponent - exponent.max())
  memory["pi"] = weights / weights.sum()
  return memory["pi"]


def _mixed(mixing):
  def direction(clients, memory, num_clients, **hparams):
    _, f, updates = _arrays(clients)
    ids = [c.client_id for c in clients]
    pi = mixing(memory, ids, f, num_clients, **hparams)
    return pi[ids] @ updates / pi[ids].sum()

  return direction


def fedmdfg(clients, theta=11.25):
  """Works on the vectors themselves; the hull may have a further point g_h."""
  _, f, updates = _arrays(clients)
  norms = np.linalg.norm(updates, axis=1)
  f, updates = f[norms > 0], updates[norms > 0]
  norms = norms[norms > 0]
  m = len(f)
  g = norms.mean() * updates / norms[:, None]
  points = list(g)
  e = np.full(m, 1 / math.sqrt(m))
  unit_loss = f / np.linalg.norm(f) if f.any() else e
  if math.degrees(math.acos(min(1.0, e @ unit_loss))) > theta:
    h = (e @ unit_loss) * unit_loss - e
    points.append(h / np.linalg.norm(h) @ g)
  hull = np.array(points)
  d = hulls.least_norm(hull) @ hull
  return d / np.linalg.norm(d) * np.linalg.norm(g.mean(axis=0))


def maxfl(clients):
  _, f, updates = _arrays(clients)
  q = scipy.special.expit(f) * scipy.special.expit(-f)
  return q @ updates / (q.sum() + 1e-8)


def fedgini(clients, epsilon=0.5):
  """Weights clients by the rank of their losses; equal losses share weights."""
  _, f, updates = _arrays(clients)
  m, order = len(f), np.argsort(f)
  sum_of_terms = max((m - 1) * m * (m + 1) / 3, 1)
  w = np.empty(m)
  for i, k in enumerate(order):
    w[k] = 1 + (1 - epsilon) * i * (i + 1) / sum_of_terms
  w = np.array([w[f == value].mean() for value in f])
  return w @ updates / w.sum()


def upgrad(clients):
  """Works on the vectors themselves, by non-negative least squares."""
  _, _, updates = _arrays(clients)
  units, norms = _units(updates), np.linalg.norm(updates, axis=1)
  added = [
    scipy.optimize.nnls(units.T, -unit, maxiter=100 * len(units))[0]
    for unit in units
  ]
  return np.mean(norms[:, None] * (units + np.array(added) @ units), axis=0)


def _singular(updates):
  """Returns the singular value decomposition without values that round to 0."""
  left, values, right = np.linalg.svd(updates, full_matrices=False)
  keep = values > 1e-6 * values.max(initial=0)
  return left[:, keep], values[keep], right[keep]


def imtl_g(clients):
  _, _, updates = _arrays(clients)
  left, values, _ = _singular(updates)
  v = left / values**2 @ (left.T @ np.linalg.norm(updates, axis=1))
  if abs(v.sum()) <= 1e-9 * abs(v).sum():
    return np.zeros(updates.shape[1])
  return v @ updates / v.sum()


def nash_mtl(clients):
  """Works on the vectors themselves; scipy solves for the log coefficients."""
  _, _, updates = _arrays(clients)
  units = _units(updates)[updates.any(axis=1)]

  def gaps(log_c):
    return np.exp(log_c) * (units @ (np.exp(log_c) @ units)) - 1

  found = scipy.optimize.root(gaps, np.zeros(len(units)), tol=1e-13)
  assert abs(found.fun).max(initial=0) < 1e-9
  return np.exp(found.x) @ units


def aligned_mtl(clients):
  _, _, updates = _arrays(clients)
  left, values, right = _singular(updates)
  even = np.full(len(updates), 1 / len(updates))
  # B maps the updates to rows whose only singular value is the least one.
  return values.min(initial=np.inf) * (even @ left) @ right


def searched_factor(clients, theta, d, server_rate, line_search):
  """Returns FedMDFG's step factor, chosen by the losses after trial steps."""
  data = small_problem.client_arrays()
  movable = [c for c in clients if c.update.any()]
  factors = [2.0**j for j in range(line_search, -line_search - 1, -1)]
  totals = []
  for factor in factors:
    length = server_rate * factor
    losses = [
      loss_and_gradient(theta - length * d, *data[c.client_id])[0]
      for c in movable
    ]
    if all(
      c.loss - loss >= 1e-4 * length * (c.update @ d) / c.learning_rate
      for c, loss in zip(movable, losses, strict=True)
    ):
      return factor
    totals.append(sum(losses))
  return factors[int(np.argmin(totals))]


class Momentum:
  """SGD with momentum; `step` returns what to subtract from the weights."""

  def __init__(self, learning_rate=1.0, momentum=0.0):
    self._rate, self._momentum = learning_rate, momentum
    self._velocity = 0.0

  def step(self, g):
    self._velocity = self._momentum * self._velocity + g
    return self._rate * self._velocity


class Adam:
  """Adam as in its paper; `tffs` adds epsilon before v's bias correction."""

  def __init__(
    self, learning_rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8, tffs=False
  ):
    self._rate, self._beta1, self._beta2 = learning_rate, beta1, beta2
    self._epsilon, self._tffs = epsilon, tffs
    self._t, self._m, self._v = 0, 0.0, 0.0

  def step(self, g):
    self._t += 1
    self._m = self._beta1 * self._m + (1 - self._beta1) * g
    self._v = self._beta2 * self._v + (1 - self._beta2) * g**2
    missing = 1 - self._beta2**self._t
    epsilon = self._epsilon / (np.sqrt(missing) if self._tffs else 1)
    m = self._m / (1 - self._beta1**self._t)
    return self._rate * m / (np.sqrt(self._v / missing) + epsilon)


def _server(build, **settings):
  def step(theta, d, memory):
    optimizer = memory.setdefault("optimizer", build(**settings))
    return theta - optimizer.step(d)

  return step


def _propfair_slope(loss, m=5.0):
  return 1 / (m - loss) if m - loss >= 0.2 else 1 / m


class Neutral(NamedTuple):
  """A setting with which a method equals the method `other`."""

  setting: Mapping[str, object]  # Hyperparameters, or a batch size.
  other: str
  client_weighting: str = "num_examples"  # The weighting of `other`.


@dataclasses.dataclass
class Method:
  """A method: its direction, its settings at clients and its server step.

  Tests of its process compare the first settings in `variants` with NumPy; long
  tests also compare the other settings and the defaults.
  """

  direction: Callable[..., np.ndarray]
  local: Mapping[str, object] = dataclasses.field(default_factory=dict)
  server: Callable[..., np.ndarray] = lambda theta, d, _: theta - d
  stateful: bool = False
  controlled: bool = False  # Whether SCAFFOLD corrects the steps of clients.
  neutral: Neutral | None = None
  variants: tuple[Mapping[str, object], ...] = ()


METHODS: Mapping[str, Method] = {
  "fedavg": Method(fedavg),
  "fedavg_n": Method(fedavg_n),
  "fedprox": Method(
    fedavg, local={"mu": 0.01}, neutral=Neutral({"mu": 0.0}, "fedavg")
  ),
  "fedadam": Method(fedavg, server=_server(Adam, tffs=True)),
  "fednova": Method(fednova, neutral=Neutral({"batch_size": 1000}, "fedavg")),
  "qfedavg": Method(
    qfedavg,
    neutral=Neutral({"q": 0.0}, "fedavg", "uniform"),
    variants=({"q": 5.0, "lipschitz": 2.0},),
  ),
  "afl": Method(
    afl,
    stateful=True,
    neutral=Neutral({"lambda_learning_rate": 0.0}, "fedavg", "uniform"),
  ),
  "term": Method(
    term, neutral=Neutral({"t": 0.0}, "fedavg"), variants=({"t": -3.0},)
  ),
  "propfair": Method(fedavg, local={"slope": _propfair_slope}),
  "delta_fl": Method(
    delta_fl,
    neutral=Neutral({"alpha": 1.0}, "fedavg"),
    variants=({"alpha": 0.3},),
  ),
  "gifair": Method(gifair, neutral=Neutral({"fraction": 0.0}, "fedavg")),
  "fedfa": Method(
    fedfa,
    local={"momentum": 0.9},
    server=_server(Momentum, momentum=0.5),
    stateful=True,
  ),
  "ditto": Method(fedavg, neutral=Neutral({"lam": 0.0}, "fedavg")),
  "scaffold": Method(fedavg, controlled=True),
  "fedmgda_plus": Method(
    fedmgda_plus,
    neutral=Neutral({"epsilon": 0.0}, "fedavg_n"),
    variants=({"epsilon": 0.4}, {"epsilon": 1.0, "normalize": False}),
  ),
  "fedmgda": Method(
    lambda clients: fedmgda_plus(clients, epsilon=1, normalize=False)
  ),
  "mgda_prox": Method(
    fedmgda_plus,
    local={"mu": 0.1},
    neutral=Neutral({"epsilon": 0.0, "mu": 0.0}, "fedavg_n"),
  ),
  "adafed": Method(
    adafed, variants=({"gamma": 0.5}, {"hull": True, "gamma": 2.0})
  ),
  "vred": Method(vred, neutral=Neutral({"beta": 0.0}, "fedavg")),
  "semi_vred": Method(
    semi_vred,
    neutral=Neutral({"beta": 0.0}, "fedavg"),
    variants=({"beta": 2.0},),
  ),
  "fedfv": Method(
    fedfv,
    stateful=True,
    neutral=Neutral({"alpha": 1.0, "tau": 0}, "fedavg", "uniform"),
    variants=(
      {"tau": 2},
      {"tau": 1, "alpha": 0.0},
      {"alpha": 0.5, "order": "reverse"},
    ),
  ),
  # No `neutral`: adafedadam_process_test checks when it equals Adam.
  "adafedadam": Method(adafedadam, stateful=True),
  "drfl": Method(
    drfl, neutral=Neutral({"q": 0.0}, "fedavg"), variants=({"q": 3.0},)
  ),
  "aaggff_s": Method(
    _mixed(aaggff_s_mixing),
    stateful=True,
    variants=({"transform": "frechet"},),
  ),
  "aaggff_d": Method(
    _mixed(aaggff_d_mixing), stateful=True, variants=({"transform": "normal"},)
  ),
  "fedmdfg": Method(
    fedmdfg,
    variants=({"theta": 1.0}, {"line_search": 3}, {"theta": 89.0}),
  ),
  "n_accadam": Method(accumulated, server=_server(Adam)),
  "maxfl": Method(maxfl),
  "fedgini": Method(
    fedgini,
    neutral=Neutral({"epsilon": 1.0}, "fedavg", "uniform"),
    variants=({"epsilon": 0.1},),
  ),
  # `fairfed_test` also covers deviations.
  "fairfed": Method(fairfed, stateful=True),
  # `drfa_test` also covers the draws, and the step of lambda.
  "drfa": Method(uniform_mean),
  "upgrad": Method(upgrad),
  "imtl_g": Method(imtl_g),
  "nash_mtl": Method(nash_mtl),
  "aligned_mtl": Method(aligned_mtl),
}


def run(
  name: str,
  cohorts,
  *,
  epochs=1,
  client_factor=lambda _: 1.0,
  server_factor=lambda _: 1.0,
  line_search=0,
  population=None,
  **hparams,
) -> np.ndarray:
  """Returns the weights after a round for each cohort, from the initial ones.

  `client_factor` multiplies the clients' learning rate in round t, and
  `server_factor` the server's step. `line_search` is FedMDFG's. `population` is
  the number of clients, for SCAFFOLD.
  """
  method = METHODS[name]
  server_control, controls = 0.0, {}
  theta, memory, server_memory = initial_theta(), {}, {}
  for t, cohort in enumerate(cohorts):
    rate = client_factor(t) * small_problem.LEARNING_RATE
    clients = [
      run_client(
        theta,
        k,
        epochs=epochs,
        learning_rate=rate,
        correction=server_control - controls.get(k, 0.0),
        **method.local,
      )
      for k in cohort
    ]
    if method.controlled:
      before = [controls.get(c.client_id, 0.0) for c in clients]
      for c, old in zip(clients, before, strict=True):
        mean_step = c.update / (c.effective_steps * rate)
        controls[c.client_id] = old - server_control + mean_step
      after = [controls[c.client_id] for c in clients]
      changes = [new - old for new, old in zip(after, before, strict=True)]
      server_control = server_control + sum(changes) / population
    if method.stateful:
      direction = method.direction(clients, memory, **hparams)
    else:
      direction = method.direction(clients, **hparams)
    if line_search:
      direction = direction * searched_factor(
        clients, theta, direction, server_factor(t), line_search
      )
    step = method.server(theta, direction, server_memory) - theta
    theta = theta + server_factor(t) * step
  return theta
