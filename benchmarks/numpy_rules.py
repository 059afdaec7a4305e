"""Fair methods' rules in NumPy (float64), for many settings at once.

A rule maps a round's signals to each setting's server step, [S, P]. No rule
shares code with the library. Shapes are for S settings, K clients and P
weights; all clients take part in each round.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special

# The key in `Round.memory` of what clients add to gradients, [S, K, P].
CORRECTION = "correction"


class Round(NamedTuple):
  """A round in S settings: the clients' updates [S, K, P] and their signals."""

  update: np.ndarray
  loss: np.ndarray  # [S, K], losses before training.
  initial_loss: np.ndarray  # [S, K], losses of the initial weights.
  gradient_norm: np.ndarray  # [S, K], norms of the gradients before training.
  accuracy: np.ndarray | None  # [S, K], before training, for FedFA.
  num_steps: np.ndarray  # [K], numbers of clients' optimizer steps.
  weight: np.ndarray  # [K], client weights with sum 1.
  rates: np.ndarray  # [S], client learning rates.
  value: np.ndarray  # [S], values of the method's hyperparameter.
  memory: dict[str, Any]  # What the rule keeps for the next round.


def _combine(c: np.ndarray, r: Round) -> np.ndarray:
  return np.einsum("sk,skp->sp", c, r.update)


def _units(update: np.ndarray) -> np.ndarray:
  """Returns updates, [..., P], each divided by its norm unless that is 0."""
  norms = np.linalg.norm(update, axis=-1, keepdims=True)
  return np.divide(update, norms, np.zeros_like(update), where=norms > 0)


def _fedavg(r: Round) -> np.ndarray:
  return _combine(np.broadcast_to(r.weight, r.loss.shape), r)


def _scaffold(r: Round) -> np.ndarray:
  """Returns FedAvg's step; updates the correction of clients' gradients."""
  mean_gradient = r.update / (r.rates[:, None, None] * r.num_steps[:, None])
  of_server = r.memory.get("of_server", np.zeros_like(r.update[:, :1]))
  change = mean_gradient - of_server
  of_clients = r.memory.get("of_clients", 0) + change
  of_server = of_server + change.mean(1, keepdims=True)
  r.memory.update(of_server=of_server, of_clients=of_clients)
  r.memory[CORRECTION] = of_server - of_clients
  return _fedavg(r)


def _qfedavg(r: Round) -> np.ndarray:
  bound, q = 1 / r.rates[:, None], r.value[:, None]
  squared = bound**2 * np.square(r.update).sum(-1)
  h = q * r.loss ** (q - 1) * squared + bound * r.loss**q
  return _combine(bound * r.loss**q / h.sum(1, keepdims=True), r)


def _term(r: Round) -> np.ndarray:
  tilted = np.log(r.weight) + r.value[:, None] * r.loss
  return _combine(special.softmax(tilted, 1), r)


def _fedfv(r: Round) -> np.ndarray:
  num_settings, m, _ = r.update.shape
  gram = r.update @ np.swapaxes(r.update, 1, 2)
  order = np.argsort(r.loss, axis=1, kind="stable")
  rank = np.argsort(order, axis=1)
  first = np.ceil((m - 1) * (1 - r.value) - 1e-9)
  keeps = rank >= first[:, None]
  a = np.broadcast_to(np.eye(m), gram.shape).copy()
  every = np.arange(num_settings)
  for target in order.T:
    column = gram[every, :, target]
    slope = np.einsum("sij,sj->si", a, column)
    own = np.arange(m) == target[:, None]
    squared = column[every, target][:, None]
    share = np.divide(slope, squared, np.zeros_like(slope), where=squared > 0)
    a[every, :, target] -= np.where((slope < 0) & ~keeps & ~own, share, 0)
  g = _combine(a.mean(1), r)
  norm = np.linalg.norm(r.update.mean(1), axis=1) / np.linalg.norm(g, axis=1)
  return g * norm[:, None]


def _fedmdfg(r: Round) -> np.ndarray:
  return np.stack([*map(_fedmdfg_of_one, r.update, r.loss)])


def _fedmdfg_of_one(update: np.ndarray, loss: np.ndarray) -> np.ndarray:
  is_finite = np.isfinite(loss) & np.isfinite(np.square(update).sum(1))
  if not is_finite.any():  # If all clients diverge, the library returns 0, too.
    return np.zeros(update.shape[1])
  update, loss = update[is_finite], loss[is_finite]
  norms = np.linalg.norm(update, axis=1)
  g = norms.mean() * _units(update)
  e = np.full(len(loss), len(loss) ** -0.5)
  unit = loss / np.linalg.norm(loss)
  hull = g
  if np.degrees(np.arccos(min(1.0, e @ unit))) > 11.25:
    h = (e @ unit) * unit - e
    hull = np.vstack([g, h / np.linalg.norm(h) @ g])
  scale = np.linalg.norm(hull, axis=1).mean()
  system = np.vstack([hull.T / scale, np.ones(len(hull))])
  share, _ = optimize.nnls(system, np.eye(len(system))[-1], maxiter=10_000)
  d = share / share.sum() @ hull
  norm = np.linalg.norm(d)
  if norm <= 1e-6 * norms.mean():
    return np.zeros_like(d)
  return d / norm * np.linalg.norm(g.mean(0))


def _vred(r: Round) -> np.ndarray:
  return _by_deviations(r, r.loss)


def _semi_vred(r: Round) -> np.ndarray:
  mean = (r.weight * r.loss).sum(1, keepdims=True)
  return _by_deviations(r, np.maximum(r.loss - mean, 0))


def _by_deviations(r: Round, deviation: np.ndarray) -> np.ndarray:
  centred = deviation - (r.weight * deviation).sum(1, keepdims=True)
  return _combine(r.weight * (1 + 2 * r.value[:, None] * centred), r)


def _fedmgda_plus(r: Round) -> np.ndarray:
  unit = _units(r.update)
  epsilon = r.value[:, None]
  lower, upper = (
    np.maximum(r.weight - epsilon, 0),
    np.minimum(r.weight + epsilon, 1),
  )
  start = np.broadcast_to(r.weight, r.loss.shape)
  return _combine(
    least_norm(unit, start, lower, upper), r._replace(update=unit)
  )


def _adafed(r: Round) -> np.ndarray:
  """Returns AdaFed's step by the affine or, if that fails, the convex hull."""
  is_finite = np.isfinite(r.update).all((1, 2)) & np.isfinite(r.loss).all(1)
  update = np.where(is_finite[:, None, None], r.update, 0)
  slope = np.where(is_finite[:, None], r.loss ** r.value[:, None], 1)
  u, singular, _ = np.linalg.svd(update, full_matrices=False)
  squared = np.square(singular)
  is_used = squared > 1e-12 * squared.max(1, keepdims=True)
  inverse = np.divide(1, squared, np.zeros_like(squared), where=is_used)
  of_slope = np.einsum("smr,sm->sr", u, slope)
  solution = np.einsum("smr,sr->sm", u, inverse * of_slope)
  reached = np.einsum("smr,sr->sm", u, is_used * of_slope)
  affine = solution / (solution * slope).sum(1, keepdims=True)
  points = r._replace(update=update / slope[..., None])
  start = np.full_like(slope, 1 / slope.shape[1])
  convex = least_norm(points.update, start, 0 * slope, 1 + 0 * slope)
  length = np.linalg.norm(_combine(affine * slope, points), axis=1)
  shortest = np.linalg.norm(points.update, axis=2).min(1)
  residual = np.linalg.norm(reached - slope, axis=1)
  leaves = residual > 1e-6 * np.linalg.norm(slope, axis=1)
  leaves |= ~(length <= shortest * (1 + 1e-9))
  d = _combine(np.where(leaves[:, None], convex, affine * slope), points)
  return np.where(is_finite[:, None], d, np.nan)


def least_norm(
  points: np.ndarray, start: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
  """Returns the weights of the least-norm combination of m points, [S, m].

  The weights have the sum 1 and lie within bounds. Points are [S, m, P], other
  arguments [S, m].
  """
  gram = points @ np.swapaxes(points, 1, 2)
  return _minimize_quadratic(gram, np.zeros_like(start), start, lower, upper)


def _minimize_quadratic(
  gram: np.ndarray,
  linear: np.ndarray,
  start: np.ndarray,
  lower: np.ndarray,
  upper: np.ndarray,
) -> np.ndarray:
  """Returns the x [S, m] that minimize x'Gx / 2 + b'x; G is `gram`, b `linear`.

  Each x has the sum 1 and lies within its bounds. An interior-point method
  solves the S problems at once.
  """
  largest = np.einsum("smm->sm", gram).max(1)
  scale = np.where(largest > 0, largest, 1)[:, None]
  gram, linear = gram / scale[..., None], linear / scale
  gram = np.where(np.isfinite(gram), gram, 0)
  ones = np.ones_like(start)
  x, y = start.copy(), np.zeros([len(start), 1])
  below, above = ones.copy(), ones.copy()
  for _ in range(60):
    a, b = x - lower, upper - x
    gap = (a * below + b * above).mean(1, keepdims=True)
    if gap.max() < 1e-13:
      break
    slope = np.einsum("sij,sj->si", gram, x) + linear - y
    to_a, to_b = 0.1 * gap / a, 0.1 * gap / b
    system = gram + (below / a + above / b)[..., None] * np.eye(x.shape[1])
    sides = np.stack([to_a - to_b - slope, ones], -1)
    moved, of_level = np.moveaxis(np.linalg.solve(system, sides), -1, 0)
    level = -moved.sum(1, keepdims=True) / of_level.sum(1, keepdims=True)
    step = moved + level * of_level
    to_below = to_a - below - below / a * step
    to_above = to_b - above + above / b * step
    length = np.ones_like(y)
    for room, change in (
      *((a, step), (b, -step)),
      *((below, to_below), (above, to_above)),
    ):
      most = np.divide(-room, change, np.inf * ones, where=change < 0)
      length = np.minimum(length, 0.99 * most.min(1, keepdims=True))
    reached = x + length * step
    # A problem that is solved keeps its x once rounding leaves no slack.
    moves = ((lower < reached) & (reached < upper)).all(1, keepdims=True)
    x, y = np.where(moves, reached, x), np.where(moves, y + length * level, y)
    below = np.where(moves, below + length * to_below, below)
    above = np.where(moves, above + length * to_above, above)
  return x


def _adafedadam(r: Round) -> np.ndarray:
  w = special.softmax(np.log(r.weight * r.loss / r.initial_loss), axis=1)
  own_rate = np.linalg.norm(r.update, axis=2) / r.gradient_norm
  log_ratio = np.log(own_rate / r.rates[:, None])
  certainty = np.maximum(1 + (w * log_ratio).sum(1), 1e-3)[:, None]
  g = _combine(w / own_rate, r)
  beta1, beta2, memory = 0.9**certainty, 0.999**certainty, r.memory
  memory["m"] = memory.get("m", 0) * beta1 + (1 - beta1) * g
  memory["v"] = memory.get("v", 0) * beta2 + (1 - beta2) * g**2
  memory["c1"] = memory.get("c1", np.ones_like(beta1)) * beta1
  memory["c2"] = memory.get("c2", np.ones_like(beta2)) * beta2
  m, v = memory["m"] / (1 - memory["c1"]), memory["v"] / (1 - memory["c2"])
  return certainty * r.value[:, None] * m / (np.sqrt(v) + 1e-8)


def _adam(r: Round, g: np.ndarray, *, tffs: bool = False) -> np.ndarray:
  """Returns Adam's step; `tffs` adds epsilon before v's bias correction."""
  memory = r.memory
  memory["t"] = memory.get("t", 0) + 1
  memory["m"] = 0.9 * memory.get("m", 0) + 0.1 * g
  memory["v"] = 0.999 * memory.get("v", 0) + 0.001 * g**2
  missing = 1 - 0.999 ** memory["t"]
  epsilon = 1e-8 / (np.sqrt(missing) if tffs else 1)
  m = memory["m"] / (1 - 0.9 ** memory["t"])
  return r.value[:, None] * m / (np.sqrt(memory["v"] / missing) + epsilon)


def _fedadam(r: Round) -> np.ndarray:
  return _adam(r, _fedavg(r), tffs=True)


def _n_accadam(r: Round) -> np.ndarray:
  return _adam(r, _fedavg(r) / r.rates[:, None])


def _fedavg_n(r: Round) -> np.ndarray:
  return _fedavg(r._replace(update=_units(r.update)))


def _fedmgda(r: Round) -> np.ndarray:
  start = np.broadcast_to(r.weight, r.loss.shape)
  weights = least_norm(r.update, start, 0 * start, 1 + 0 * start)
  return _combine(weights, r)


def _fednova(r: Round) -> np.ndarray:
  c = r.weight @ r.num_steps * r.weight / r.num_steps
  return _combine(np.broadcast_to(c, r.loss.shape), r)


def _afl(r: Round) -> np.ndarray:
  even = np.full(r.loss.shape, 1 / r.loss.shape[1])
  weights = r.memory.get("lambda", even)
  raised = weights + r.value[:, None] * r.loss
  # The projection onto the simplex, by sorted partial sums.
  descending = -np.sort(-raised, axis=1)
  shift = (descending.cumsum(1) - 1) / np.arange(1, raised.shape[1] + 1)
  last = (descending > shift).sum(1, keepdims=True) - 1
  of_last = np.take_along_axis(shift, np.maximum(last, 0), 1)
  r.memory["lambda"] = np.maximum(raised - of_last, 0)
  return _combine(weights, r)


def _delta_fl(r: Round) -> np.ndarray:
  order = np.argsort(-r.loss, axis=1)
  weight = r.weight[order]
  # Keeps clients in order of falling loss, until their weights reach the share.
  is_kept = weight.cumsum(1) - weight <= r.value[:, None] + 1e-9
  least = np.where(is_kept, np.take_along_axis(r.loss, order, 1), np.inf)
  c = r.weight * (r.loss >= least.min(1, keepdims=True))
  return _combine(c / c.sum(1, keepdims=True), r)


def _gifair(r: Round) -> np.ndarray:
  gaps = r.loss[:, :, None] - r.loss[:, None]
  strength = r.value * r.weight.min() / (r.weight.size - 1)
  return _combine(r.weight + strength[:, None] * np.sign(gaps).sum(2), r)


def _fedgini(r: Round) -> np.ndarray:
  m = r.loss.shape[1]
  i = np.arange(m)
  by_rank = 1 + (1 - r.value[:, None]) * i * (i + 1) * 3 / (m**3 - m)
  is_equal = r.loss[:, :, None] == r.loss[:, None]
  order = np.argsort(np.argsort(r.loss, axis=1), axis=1)
  own = np.take_along_axis(by_rank, order, 1)
  w = np.einsum("sij,sj->si", is_equal, own) / is_equal.sum(2)
  return _combine(w / w.sum(1, keepdims=True), r)


def _drfl(r: Round) -> np.ndarray:
  return _combine(
    special.softmax(np.log(r.weight * r.loss ** r.value[:, None]), 1), r
  )


def _maxfl(r: Round) -> np.ndarray:
  q = special.expit(r.loss) * special.expit(-r.loss)
  return _combine(q / (q.sum(1, keepdims=True) + 1e-8), r)


def _fedfa(r: Round) -> np.ndarray:
  assert r.accuracy is not None
  # All clients take part in all rounds, so all have the same participation.
  share = r.accuracy / r.accuracy.sum(1, keepdims=True)
  bits = -np.log2(np.clip(share, 1e-6, 1))
  of_accuracy = bits / bits.sum(1, keepdims=True)
  even, b = 1 / r.weight.size, r.value[:, None]
  d = _combine((1 - b) * of_accuracy + b * even, r)
  r.memory["velocity"] = 0.5 * r.memory.get("velocity", 0) + d
  return r.memory["velocity"]


def _response(r: Round) -> np.ndarray:
  """Returns AAggFF's responses: the Gumbel CDF of losses / their mean."""
  relative = r.loss / r.loss.mean(1, keepdims=True)
  return np.exp(-np.exp(1 - relative))


def _aaggff_s(r: Round) -> np.ndarray:
  num_settings, n = r.loss.shape
  pi = r.memory.get("pi", np.full(r.loss.shape, 1 / n))
  response = _response(r) / n
  g = -response / (1 + (pi * response).sum(1, keepdims=True))
  slope = 1 - n / 4 * (g * pi).sum(1, keepdims=True)
  r.memory["linear"] = r.memory.get("linear", 0) + slope * g
  of_round = n / 4 * g[:, :, None] * g[:, None]
  before = r.memory.get("gram", 4 * np.eye(n) + np.zeros([num_settings, 1, 1]))
  r.memory["gram"] = before + of_round
  start = np.full(pi.shape, 1 / n)
  r.memory["pi"] = _minimize_quadratic(
    r.memory["gram"], r.memory["linear"], start, 0 * pi, 1 + 0 * pi
  )
  return _combine(r.memory["pi"], r)


def _aaggff_d(r: Round) -> np.ndarray:
  n = r.loss.shape[1]
  pi = r.memory.get("pi", np.full(r.loss.shape, 1 / n))
  response = _response(r)
  mean = response.mean(1, keepdims=True)
  excess = (pi * (response - mean)).sum(1, keepdims=True)
  g = -response / (1 + mean) + mean * excess / (1 + mean) ** 2
  r.memory["gradient"] = r.memory.get("gradient", 0) + g
  r.memory["t"] = r.memory.get("t", 0) + 1
  rate = np.sqrt(np.log(n)) / (3 * np.sqrt(r.memory["t"] + 1))
  r.memory["pi"] = special.softmax(-r.memory["gradient"] * rate, 1)
  return _combine(r.memory["pi"], r)


def _upgrad(r: Round) -> np.ndarray:
  return np.stack([*map(_upgrad_of_one, r.update)])


def _upgrad_of_one(update: np.ndarray) -> np.ndarray:
  """Returns the mean of the updates after projection onto their dual cone."""
  norms = np.linalg.norm(update, axis=1)
  if not np.isfinite(norms).all():
    return np.full(update.shape[1], np.nan)
  units = _units(update)
  added = [
    optimize.nnls(units.T, -u, maxiter=100 * len(units))[0] for u in units
  ]
  return (norms[:, None] * (units + np.array(added) @ units)).mean(0)


def _singular_vectors(r: Round) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns left singular vectors, values, and which values are not 0."""
  update = np.where(np.isfinite(r.update), r.update, 0)
  left, values, _ = np.linalg.svd(update, full_matrices=False)
  return left, values, values > 1e-6 * values.max(1, keepdims=True)


def _imtl_g(r: Round) -> np.ndarray:
  left, values, is_used = _singular_vectors(r)
  inverse = np.divide(1, values**2, np.zeros_like(values), where=is_used)
  norms = np.linalg.norm(r.update, axis=2)
  v = np.einsum(
    "smr,sr->sm", left, inverse * np.einsum("smr,sm->sr", left, norms)
  )
  return _combine(v / v.sum(1, keepdims=True), r)


def _aligned_mtl(r: Round) -> np.ndarray:
  left, values, is_used = _singular_vectors(r)
  least = np.where(is_used, values, np.inf).min(1, keepdims=True)
  inverse = np.divide(1, values, np.zeros_like(values), where=is_used)
  c = np.einsum("smr,sr->sm", left, least * inverse * left.mean(1))
  return _combine(c, r)


def _nash_mtl(r: Round) -> np.ndarray:
  return np.stack([*map(_nash_mtl_of_one, _units(r.update))])


def _nash_mtl_of_one(units: np.ndarray) -> np.ndarray:
  """Returns sum_k c_k u_k with c_k <u_k, sum_j c_j u_j> = 1; 0 if none exists.

  These c minimize c'Mc / 2 - sum_k log c_k, with the Gram matrix M. Newton's
  steps are relative to c, so that their matrix is I + diag(c) M diag(c).
  """
  if not np.isfinite(units).all():
    return np.full(units.shape[1], np.nan)
  units = units[units.any(1)]
  gram = units @ units.T
  c = np.full(len(units), max(len(units), 1) ** -0.5)

  def value(c: np.ndarray) -> float:
    return 0.5 * c @ gram @ c - np.log(c).sum()

  for _ in range(100):
    gaps = 1 - c * (gram @ c)
    if np.abs(gaps).max(initial=0) < 1e-9 or c.max(initial=0) > 1e6:
      break  # Coefficients grow without bound if 0 is in the convex hull.
    relative = np.linalg.solve(np.eye(len(c)) + gram * np.outer(c, c), gaps)
    length = min(1.0, 0.99 / max(-relative.min(), 1e-9))
    least = 0.1 * gaps @ relative  # What the step must gain, per length.
    while value(c + length * c * relative) > value(c) - length * least:
      length /= 2
      if length < 1e-9:  # Only rounding is left.
        break
    c = c + length * c * relative
  solves = np.abs(1 - c * (gram @ c)).max(initial=0) <= 1e-6
  return c @ units if solves else np.zeros(units.shape[1])


class Method(NamedTuple):
  """How a method differs from FedAvg."""

  rule: Callable[[Round], np.ndarray] = _fedavg
  # Whether the rule needs losses or gradient norms, which take time to compute.
  needs_signals: bool = True
  momentum: float = 0.0  # Of the clients' SGD.
  # Names of hyperparameters:
  pull: str = ""  # The weight of the proximal term in clients' losses.
  utility: str = ""  # PropFair's M.
  personal_pull: str = (
    ""  # The weight of that term for Ditto's personal models.
  )


METHODS: dict[str, Method] = {
  "fedavg": Method(needs_signals=False),
  "fedprox": Method(needs_signals=False, pull="mu"),
  "propfair": Method(needs_signals=False, utility="m"),
  "ditto": Method(needs_signals=False, personal_pull="lam"),
  "scaffold": Method(_scaffold, needs_signals=False),
  "fedavg_n": Method(_fedavg_n, needs_signals=False),
  "fedadam": Method(_fedadam, needs_signals=False),
  "fednova": Method(_fednova, needs_signals=False),
  "n_accadam": Method(_n_accadam, needs_signals=False),
  "fedfa": Method(_fedfa, needs_signals=False, momentum=0.9),
  "fedmgda": Method(_fedmgda, needs_signals=False),
  "fedmgda_plus": Method(_fedmgda_plus, needs_signals=False),
  "mgda_prox": Method(_fedmgda_plus, needs_signals=False, pull="mu"),
  "upgrad": Method(_upgrad, needs_signals=False),
  "imtl_g": Method(_imtl_g, needs_signals=False),
  "nash_mtl": Method(_nash_mtl, needs_signals=False),
  "aligned_mtl": Method(_aligned_mtl, needs_signals=False),
  "qfedavg": Method(_qfedavg),
  "term": Method(_term),
  "afl": Method(_afl),
  "delta_fl": Method(_delta_fl),
  "gifair": Method(_gifair),
  "fedgini": Method(_fedgini),
  "drfl": Method(_drfl),
  "maxfl": Method(_maxfl),
  "aaggff_s": Method(_aaggff_s),
  "aaggff_d": Method(_aaggff_d),
  "fedfv": Method(_fedfv),
  "fedmdfg": Method(_fedmdfg),
  "adafedadam": Method(_adafedadam),
  "adafed": Method(_adafed),
  "vred": Method(_vred),
  "semi_vred": Method(_semi_vred),
}
