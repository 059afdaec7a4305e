"""Finds the least risk over clients that a linear model can reach.

The risk of the N clients' losses f is max over lambda in Lambda of
sum lambda_k f_k, with Lambda = {(1 - s) p + s u: u_k <= 1 / (share N), u in the
simplex}. For s = 0 this is the mean with weights p, and for s = 1 the CVaR: the
mean loss of the worst share of the clients. The risk is minimized over the
weights W, float64[d, C], of a linear model with d features and C outputs, in
the ball |W| <= R.

The certificate: for any lambda in Lambda, F = sum lambda_k f_k is convex in W,
and at most the risk. So for any W', the least risk in the ball is at least

    L = F(W') - <grad F(W'), W'> - R |grad F(W')|.

The gap is the risk of the weights W found, minus L.

The solver is a method of multipliers: u maximizes <u, f> - (mu / 2) |u - v|^2,
where v is the last u (Rockafellar, "Augmented Lagrangians and Applications of
the Proximal Point Algorithm in Convex Programming", 1976). The ball's
multiplier is found in the same way. W minimizes the resulting smooth function,
by Newton steps with conjugate gradients.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

from tff_fair import declared
from tff_fair.declared import FieldError
from tff_fair.metrics import vectors
from tff_fair.metrics.client_losses import Array, ClientLosses, Derivatives

_MAX_STEPS = 400  # Newton steps in total.
_MAX_PRODUCTS = 150  # Products with the Hessian in a Newton step.
_ACCURACY = 0.01  # Residual of a Newton step relative to the gradient.
_MAX_INNER = 40  # Newton steps between two updates of v.
_DAMPING = 1.0  # Damping of the first step.
_MAX_IDLE = 8  # Successive updates of v without a Newton step.
_SHRINK = 0.2  # Multiplies mu if the last update of v helped little.
_TOUCH = 0.999  # W counts as at the ball's edge if |W| / R is at least this.


@dataclasses.dataclass(frozen=True)
class Risk:
  """A convex risk of the losses of N clients."""

  weights: Array  # p, float64[N], each client's weight in the mean.
  tail: float = 0.0  # s in [0, 1], the CVaR's weight.
  # The share of the clients over which the CVaR is the mean, in (0, 1]; up to
  # 1 / N, this is one client.
  share: float = 0.1

  @property
  def cap(self) -> float:
    """The largest u_k that is allowed."""
    return min(1.0, 1 / (self.share * self.weights.size))

  def multipliers(self, u: Array) -> Array:
    """Returns lambda = (1 - s) p + s u."""
    return (1 - self.tail) * self.weights + self.tail * u

  def worst_multipliers(self, losses: Array) -> Array:
    """Returns the lambda that maximizes sum lambda_k f_k, for f = `losses`."""
    return self.multipliers(worst_tail(losses, self.cap))

  def evaluate(self, losses: Array) -> float:
    """Returns the risk, from the clients' losses, float64[N]."""
    return float(self.worst_multipliers(losses) @ losses)


def largest_loss(weights: Array) -> Risk:
  """Returns the risk that is the largest loss over clients."""
  return Risk(weights, 1.0, 1 / weights.size)


def worst_tail(losses: Array, cap: float) -> Array:
  """Returns the u in the simplex with u_k <= cap that maximizes <u, losses>."""
  u = np.zeros_like(losses)
  order = np.argsort(-losses, kind="stable")
  u[order] = np.clip(1 - cap * np.arange(losses.size), 0, cap)
  return u / u.sum()


def project_to_tail(point: Array, cap: float) -> Array:
  """Returns the u in the simplex with u_k <= cap that is nearest to `point`."""
  # sum clip(point - t, 0, cap) decreases in t, and is linear between `breaks`.
  upper = point - cap
  breaks = np.unique(np.concatenate([point, upper]))
  low, high = 0, breaks.size - 1
  while high - low > 1:
    middle = (low + high) // 2
    if np.clip(point - breaks[middle], 0, cap).sum() >= 1:
      low = middle
    else:
      high = middle
  inside = (point > breaks[low]) & (upper < breaks[high])
  full = upper >= breaks[high]
  shift = breaks[low]
  if inside.any():
    shift = (point[inside].sum() + cap * full.sum() - 1) / inside.sum()
  u: Array = np.clip(point - shift, 0, cap)
  return u / u.sum()


def lower_bound(
  found: Derivatives, weights: Array, multipliers: Array, radius: float
) -> float:
  """Returns L for W' = `weights`: a lower bound on the risk in the ball."""
  gradient = multipliers @ found.gradients
  slope = gradient @ weights + radius * linalg.norm(gradient)
  # Losses are not negative, so 0 is a bound, too.
  return max(0.0, float(multipliers @ found.values - slope))


class Ceiling(NamedTuple):
  """The least risk found, and a lower bound on all risks in the ball."""

  value: float  # The risk at `weights`.
  bound: float  # L; no weights in the ball have a smaller risk.
  weights: Array  # W, float64[d, C], with |W| <= radius.
  radius: float  # R.

  @property
  def gap(self) -> float:
    """The most by which weights in the ball could reduce the risk further."""
    return max(0.0, self.value - self.bound)

  @property
  def norm(self) -> float:
    """The norm of the weights, |W|."""
    return float(linalg.norm(self.weights))

  @property
  def is_at_boundary(self) -> bool:
    """Whether W is at the ball's edge, so that a larger ball may help."""
    return self.norm >= _TOUCH * self.radius


def least_risk(
  losses: ClientLosses,
  risk: Risk,
  radius: float,
  tolerance: float = 1e-4,
  start: Array | None = None,
) -> Ceiling:
  """Minimizes a risk over the weights in a ball.

  Args:
    losses: The losses of N clients.
    risk: What to minimize; its weights are float64[N].
    radius: R, above 0.
    tolerance: The gap at which to stop. If rounding or the limit on steps
      prevents that, the gap of the result is larger.
    start: Weights to begin with, float64[d, C]; by default 0.

  Raises:
    FieldError: If an argument is invalid.
  """
  _check(losses, risk, radius, tolerance)
  start = np.zeros(losses.shape) if start is None else start
  if np.shape(start) != losses.shape or not np.isfinite(start).all():
    raise FieldError(
      "start", f"expected finite numbers of the shape {losses.shape}."
    )
  weights = np.ravel(start).copy()
  anchor = np.full(losses.num_clients, 1 / losses.num_clients)
  return _Search(losses, risk, radius, tolerance, weights, anchor).run()


def _check(
  losses: ClientLosses, risk: Risk, radius: float, tolerance: float
) -> None:
  for name, number in (("radius", radius), ("tolerance", tolerance)):
    declared.check_number(name, number, minimum=0, exclude_minimum=True)
  share, tail = risk.share, risk.tail
  declared.check_number(
    "share", share, minimum=0, exclude_minimum=True, maximum=1
  )
  declared.check_number("tail", tail, minimum=0, maximum=1)
  weights = vectors.per_client("weights", risk.weights)
  if weights.size != losses.num_clients:
    raise FieldError(
      "weights",
      f"expected {losses.num_clients} numbers, one for each client, found "
      f"{weights.size}.",
    )
  if not (weights >= 0).all() or abs(weights.sum() - 1) > 1e-6:
    raise FieldError("weights", "expected numbers of at least 0 that sum to 1.")


class _Point(NamedTuple):
  """Weights, and the value of the augmented function for these weights."""

  weights: Array  # W, float64[d * C].
  found: Derivatives  # Has gradients only after `_with_gradients`.
  u: Array  # The tail's multipliers.
  ball: float  # The multiplier of the ball.
  value: float  # The augmented function.


@dataclasses.dataclass
class _Search:
  """A minimization by the method of multipliers, and its state."""

  losses: ClientLosses
  risk: Risk
  radius: float
  tolerance: float
  best_weights: Array  # float64[d * C], the start at first.
  anchor: Array  # v.
  ball: float = 0.0  # The ball's multiplier.
  ball_rate: float = 1.0  # The ball's penalty.
  smoothing: float = 1.0  # mu.
  damping: float = _DAMPING
  converged: bool = False
  steps: int = 0
  best: float = np.inf  # The least risk so far.
  bound: float = -np.inf  # The largest lower bound so far.

  def run(self) -> Ceiling:
    """Runs the minimization, and returns the best weights and bound found."""
    weights = self.best_weights
    values = self.losses.values(weights)
    # The losses' std may be 0, since W = 0 may give all clients equal losses;
    # their mean may be near 0, since a good start has small losses.
    mean, enough = float(values.mean()), 10 * self.tolerance
    spread = max(float(values.std()), 0.1 * mean, enough)
    self.smoothing = spread / self.risk.cap
    self.ball_rate = max(spread, 10 * enough)
    least = 1e-8 * self.smoothing  # For a smaller mu, rounding determines u.
    last, idle = np.inf, 0
    while self.steps < _MAX_STEPS and idle < _MAX_IDLE:
      before = self.steps
      point = self._minimize(weights)
      weights = point.weights
      if self._is_done():
        break
      slack = self._slack(point)
      if slack > 0.2 * last and self.converged:
        self.smoothing = max(_SHRINK * self.smoothing, least)
        self.ball_rate /= _SHRINK
      idle = idle + 1 if self.steps == before else 0
      last = slack
      self.anchor, self.ball = point.u, point.ball
    found = self.best_weights.reshape(self.losses.shape)
    return Ceiling(self.best, self.bound, found, self.radius)

  def _is_done(self) -> bool:
    return self.best - self.bound <= self.tolerance

  def _slack(self, point: _Point) -> float:
    """Returns how far a point's multipliers are from complementarity."""
    f = point.found.values
    slack = self.risk.evaluate(f) - float(self.risk.multipliers(point.u) @ f)
    excess = (point.weights @ point.weights / self.radius**2 - 1) / 2
    return slack + abs(point.ball * float(excess))

  def _minimize(self, weights: Array) -> _Point:
    """Minimizes the augmented function for a fixed v by Newton steps.

    The result is as exact as the next update of v needs.
    """
    point = self._with_gradients(self._evaluate(weights))
    self.converged = False
    for _ in range(_MAX_INNER):
      self._record(point)
      if self._is_done() or self.steps >= _MAX_STEPS:
        break
      gradient = self._gradient(point)
      remains = self.radius * linalg.norm(gradient) + gradient @ point.weights
      if remains <= 0.2 * max(self._slack(point), self.tolerance):
        self.converged = True
        break
      step = self._step(point)
      moved = self._line_search(point, *step)
      if moved is None:
        break
      self.steps += 1
      point = self._with_gradients(moved)
    return point

  def _evaluate(self, weights: Array) -> _Point:
    f = self.losses.values(weights)
    risk, mu = self.risk, self.smoothing
    u = project_to_tail(self.anchor + f / mu, risk.cap)
    value = risk.multipliers(u) @ f
    value -= risk.tail * mu / 2 * ((u - self.anchor) ** 2).sum()
    excess = float(weights @ weights / self.radius**2 - 1) / 2
    ball = max(0.0, self.ball + self.ball_rate * excess)
    value += (ball**2 - self.ball**2) / (2 * self.ball_rate)
    return _Point(weights, Derivatives(f, np.empty(0)), u, ball, float(value))

  def _with_gradients(self, point: _Point) -> _Point:
    return point._replace(found=self.losses.derivatives(point.weights))

  def _gradient(self, point: _Point) -> Array:
    """Returns the gradient of the augmented function."""
    gradient: Array = self.risk.multipliers(point.u) @ point.found.gradients
    return gradient + point.ball / self.radius**2 * point.weights

  def _record(self, point: _Point) -> None:
    """Updates the best weights, risk and lower bound with those of a point."""
    multipliers = self.risk.multipliers(point.u)
    bound = lower_bound(point.found, point.weights, multipliers, self.radius)
    self.bound = max(self.bound, bound)
    weights, f = point.weights, point.found.values
    norm = linalg.norm(weights)
    if norm > self.radius:
      weights = weights * (self.radius / norm)
      f = self.losses.values(weights)
    value = self.risk.evaluate(f)
    if value < self.best:
      self.best, self.best_weights = value, weights

  def _step(self, point: _Point) -> tuple[Array, float]:
    """Returns a descent direction of the augmented function, and its slope."""
    multipliers = self.risk.multipliers(point.u)
    # Clients with small multipliers may have large ones after the step, so each
    # client adds some curvature (Levenberg and Marquardt).
    floor = self.damping / multipliers.size
    hessian = self.losses.curvature(point.weights, multipliers + floor)
    ridge = point.ball / self.radius**2
    gradient = self._gradient(point)
    low_rank = self._low_rank(point)
    blocks = hessian.preconditioner(self.losses.num_outputs, ridge)

    def product(vector: Array) -> Array:
      found: Array = low_rank.T @ (low_rank @ vector)
      return found + ridge * vector + hessian @ vector

    precondition = _woodbury(blocks.solve, low_rank)
    direction = _conjugate_gradients(product, precondition, -gradient)
    length = linalg.norm(direction)
    if length > 2 * self.radius:
      direction *= 2 * self.radius / length
    return direction, float(gradient @ direction)

  def _low_rank(self, point: _Point) -> Array:
    """Returns A such that A^T A is the curvature that the multipliers add."""
    rows = []
    u, risk = point.u, self.risk
    free = (u > 0) & (u < risk.cap)
    if risk.tail and free.sum() > 1:
      gradients = point.found.gradients[free]
      gradients = gradients - gradients.mean(0)
      rows.append(np.sqrt(risk.tail / self.smoothing) * gradients)
    if point.ball > 0:
      factor = np.sqrt(self.ball_rate) / self.radius**2
      rows.append(factor * point.weights[None])
    return np.concatenate(rows) if rows else np.empty((0, point.weights.size))

  def _line_search(
    self, point: _Point, direction: Array, slope: float
  ) -> _Point | None:
    """Returns a point of smaller value, up to rounding, or None."""
    if not slope < 0:
      return None
    for exponent in range(30):
      length = 0.5**exponent
      trial = self._evaluate(point.weights + length * direction)
      if trial.value <= point.value + 1e-4 * length * slope:
        gained = 2 * (trial.value - point.value) / slope
        if exponent:
          self.damping *= min(1 / length, 16.0)
        elif gained > 0.8:
          self.damping *= 0.2
        elif gained < 0.3:
          self.damping *= 3
        return trial
      rounding = 1e-13 * max(abs(point.value), 1e-300)
      if -length * slope < rounding:
        # Rounding hides whether the value falls; the gradient may still fall.
        return trial if trial.value <= point.value + rounding else None
    return None


def _woodbury(
  solve: Callable[[Array], Array], low_rank: Array
) -> Callable[[Array], Array]:
  """Returns a solver for K + A^T A, given `solve` for K; A is `low_rank`."""
  if not len(low_rank):
    return solve
  solved = solve(low_rank)
  inner = np.eye(len(low_rank)) + low_rank @ solved.T
  factor = linalg.cho_factor((inner + inner.T) / 2)

  def solve_sum(right: Array) -> Array:
    found = solve(right)
    return found - solved.T @ linalg.cho_solve(factor, low_rank @ found)

  return solve_sum


def _conjugate_gradients(
  product: Callable[[Array], Array],
  precondition: Callable[[Array], Array],
  right: Array,
) -> Array:
  """Solves a semidefinite system with right-hand side `right`, approximately.

  `product` multiplies by the matrix; `precondition` approximates its inverse.
  """
  found = np.zeros_like(right)
  residual = right.copy()
  solved = precondition(residual)
  direction = solved
  square = first = float(residual @ solved)
  for _ in range(_MAX_PRODUCTS):
    if not square > 1e-300:
      break
    curved = product(direction)
    curvature = float(direction @ curved)
    if not curvature > 1e-14 * square:
      if not found.any():
        found = direction
      break
    length = square / curvature
    found = found + length * direction
    residual = residual - length * curved
    solved = precondition(residual)
    last, square = square, float(residual @ solved)
    if square <= _ACCURACY**2 * first:
      break
    direction = solved + square / last * direction
  return found
