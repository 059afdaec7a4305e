"""AdaFed: Figure 1, Theorems 4.1 and 5.1, a limitation of Theorems 5.3 to 5.5.

Hamidi, Yang, "AdaFed: Fair Federated Learning via Adaptive Common Descent
Direction" (TMLR 2024).
"""

import typing
from collections.abc import Mapping, Sequence

import numpy as np

import demonstrations
from demonstrations import Check, Demonstration, at_most, rounds
from tff_fair.methods.adafed import AdaFedRule

if typing.TYPE_CHECKING:
  from matplotlib.axes import Axes
  from matplotlib.figure import Figure

_ADAFED = AdaFedRule(gamma=1.0)
_OPTIMA = np.array([[-1.0, 0.0], [1.0, 0.0]])
_STARTS = np.array([[-1.6, 1.2], [-0.4, 1.5], [0.9, 1.1], [1.7, 0.6]])
_NUM_STEPS = 80


def _losses(theta: np.ndarray) -> np.ndarray:
  """Returns both clients' f_k = ||theta - theta_k||^2 / 2."""
  return np.sum((theta - _OPTIMA) ** 2, axis=1) / 2


def _descend(rule: typing.Any, theta: np.ndarray) -> np.ndarray:
  """Returns the losses of both clients over the steps, float64[steps + 1, 2].

  f_k is 1-smooth. Theorem 5.1 allows steps of up to 2 min_k |f_k| for AdaFed,
  and of up to 2 for MGDA; the rates here are a tenth of these.
  """
  path = [_losses(theta)]
  for _ in range(_NUM_STEPS):
    loss = path[-1]
    rate = 0.2 * (loss.min() if rule is _ADAFED else 1.0)
    theta = theta - rate * rounds.direction(rule, theta - _OPTIMA, loss)
    path.append(_losses(theta))
  return np.array(path)


def adafed_figure_1() -> Demonstration:
  """Shows where MGDA and AdaFed end, and how gradient norms affect MGDA."""
  paths = {
    name: [_descend(rule, start) for start in _STARTS]
    for name, rule in (("MGDA", rounds.MGDA), ("AdaFed", _ADAFED))
  }
  gaps = {
    name: np.array([abs(path[-1, 0] - path[-1, 1]) for path in of_rule])
    for name, of_rule in paths.items()
  }
  off_front = max(
    abs(np.sqrt(2 * path[-1]).sum() - 2)
    for of_rule in paths.values()
    for path in of_rule
  )
  rises = max(np.diff(path, axis=0).max() for path in paths["AdaFed"])
  short, long = np.array([1.0, 0.4]), np.array([0.2, 2.6])
  raw = np.stack([short, long])
  normed = np.stack([rounds.unit_vector(short), rounds.unit_vector(long)])
  bent, even = (
    rounds.direction(rounds.MGDA, pair, np.ones(2)) for pair in (raw, normed)
  )

  def draw(figure: "Figure") -> None:
    left, middle, right = figure.subplots(1, 3)
    _draw_paths(left, paths)
    _draw_hull(middle, raw, bent, "(b) lengths differ")
    _draw_hull(right, normed, even, "(c) lengths are 1")

  return Demonstration(
    "AdaFed, Figure 1: MGDA may end anywhere on the Pareto front",
    f"Two clients, f_k = ||theta - theta_k||^2 / 2, {len(_STARTS)} starts, "
    f"{_NUM_STEPS} steps.",
    [
      at_most(
        "All end on the front: sqrt(2 f_1) + sqrt(2 f_2) = 2 there; farthest:",
        off_front,
        1e-3,
      ),
      at_most("AdaFed raises no loss at any step; most:", rises, 1e-12),
      at_most(
        "|f_1 - f_2| at the end, on average over starts, AdaFed and MGDA:",
        gaps["AdaFed"].mean(),
        gaps["MGDA"].mean(),
      ),
      at_most(
        "(b) The least-norm vector is nearer to the shorter gradient; angles:",
        _angle(bent, short),
        _angle(bent, long),
      ),
      at_most(
        "(c) Between gradients of length 1 it bisects the angle; difference:",
        abs(_angle(even, short) - _angle(even, long)),
        1e-6,
      ),
    ],
    draw,
  )


def _draw_paths(
  axes: "Axes", paths: Mapping[str, Sequence[np.ndarray]]
) -> None:
  # The Pareto front: f_1 and f_2 on the segment between the optima.
  front = np.array(
    [_losses(np.array([x, 0.0])) for x in np.linspace(-1, 1, 101)]
  )
  axes.plot(*front.T, color=demonstrations.QUIET, label="Pareto front")
  for (name, of_rule), color in zip(
    paths.items(), (demonstrations.FIRST, demonstrations.SECOND), strict=True
  ):
    for number, path in enumerate(of_rule):
      label = None if number else name
      axes.plot(*path.T, color=color, linewidth=1, label=label)
      axes.plot(*path[-1], "o", color=color)
  axes.set(title="(a)", xlabel="loss of client 1", ylabel="loss of client 2")
  axes.legend()


def _angle(first: np.ndarray, second: np.ndarray) -> float:
  """Returns the angle between two vectors, in degrees."""
  cosine = np.clip(
    rounds.unit_vector(first) @ rounds.unit_vector(second), -1, 1
  )
  return float(np.degrees(np.arccos(cosine)))


def _draw_hull(
  axes: "Axes", gradients: np.ndarray, d: np.ndarray, title: str
) -> None:
  axes.plot(*gradients.T, color=demonstrations.QUIET, label="convex hull")
  for name, vector in (("g_1", gradients[0]), ("g_2", gradients[1])):
    demonstrations.draw_arrow(axes, vector, name, demonstrations.FIRST)
  demonstrations.draw_arrow(axes, d, "d", demonstrations.SECOND)
  limits = (-0.1, 1.15 * gradients.max())
  axes.set(title=title, aspect="equal", xlim=limits, ylim=limits)
  axes.legend(loc="upper right")


def adafed_theorem_4_1() -> Demonstration:
  """Shows that slopes <g_k, d> are positive and proportional to |f_k|^gamma."""
  rng = np.random.default_rng(0)
  m, gamma = 8, 2.0
  gradients = rng.normal(size=(m, 50)) * rng.lognormal(size=(m, 1))
  loss = np.sort(rng.lognormal(size=m))
  d = rounds.direction(AdaFedRule(gamma=gamma), gradients, loss)
  slopes = gradients @ d
  inverse_norms = [1 / (g @ g) for g in _orthogonalized(gradients, loss**gamma)]
  expected = loss**gamma / sum(inverse_norms)
  error = np.max(np.abs(slopes / expected - 1))

  def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    places = np.arange(m)
    axes.bar(places - 0.2, loss / loss.max(), 0.4, label="loss f_k")
    axes.bar(
      places + 0.2,
      slopes / slopes.max(),
      0.4,
      color=demonstrations.SECOND,
      label="slope <g_k, d>",
    )
    axes.set(xlabel="client", ylabel="share of the largest")
    axes.legend()

  return Demonstration(
    "AdaFed, Theorem 4.1: d descends for all, faster where losses are larger",
    f"{m} random gradients of 50 numbers, random losses, gamma = {gamma:g}.",
    [
      Check(
        "Condition (I), all slopes are positive; least:",
        f"{slopes.min():.6g} > 0",
        bool(slopes.min() > 0),
      ),
      Check(
        "Condition (II), slopes ascend with the losses; least difference:",
        f"{np.diff(slopes).min():.6g} > 0",
        bool(np.diff(slopes).min() > 0),
      ),
      at_most(
        "Slopes are |f_k|^gamma / sum_j 1/||g_j~||^2 (Eq. 18), with the "
        "paper's orthogonalization; largest relative error:",
        error,
        1e-8,
      ),
    ],
    draw,
  )


def _orthogonalized(
  gradients: np.ndarray, slopes: np.ndarray
) -> list[np.ndarray]:
  """Returns the paper's orthogonalized gradients g_k~ (Eqs. 5 and 6)."""
  basis: list[np.ndarray] = []
  for g, slope in zip(gradients, slopes, strict=True):
    shares = [(g @ b) / (b @ b) for b in basis]
    rest = g - sum(
      (s * b for s, b in zip(shares, basis, strict=True)), np.zeros_like(g)
    )
    basis.append(rest / (slope - sum(shares)))
  return basis


def adafed_theorem_5_1() -> Demonstration:
  """Shows the largest step that does not increase any client's loss."""
  rng = np.random.default_rng(0)
  rise, least, longest_rise, num_steps = -np.inf, 0.0, np.inf, 0
  curves = []
  for _ in range(10):
    optima = rng.normal(size=(4, 10))
    curvature = rng.uniform(0.1, 1.0, size=(4, 10))
    curvature[:, 0] = 1.0  # L = 1.
    theta, path = 3 * rng.normal(size=10), []
    for _ in range(100):
      loss = rounds.quadratics(theta, optima, curvature)
      gradients = curvature * (theta - optima)
      d = rounds.direction(_ADAFED, gradients, loss)
      path.append(loss)
      moved = rounds.quadratics(theta - 2 * loss.min() * d, optima, curvature)
      rise, num_steps = max(rise, np.max((moved - loss) / loss)), num_steps + 1
      theta = theta - 2 * loss.min() * d
    curves.append(np.max(path, axis=1))
    # If the curvature is L in all directions, the bound is exact.
    theta, even = 3 * rng.normal(size=10), np.ones((4, 10))
    loss = rounds.quadratics(theta, optima, even)
    d = rounds.direction(_ADAFED, theta - optima, loss)
    change = [
      np.max(
        rounds.quadratics(theta - rate * loss.min() * d, optima, even) - loss
      )
      for rate in (2.0, 2.02)
    ]
    least = max(least, abs(change[0]))
    longest_rise = min(longest_rise, change[1])

  def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    for curve in curves:
      axes.semilogy(curve, color=demonstrations.FIRST)
    axes.set(title="largest loss of a client", xlabel="step")

  return Demonstration(
    "AdaFed, Theorem 5.1: steps after which no loss has grown",
    "10 random problems of four quadratic objectives with L = 1, gamma = 1, "
    f"{num_steps} steps, each the largest allowed one, 2 min_k f_k / L.",
    [
      at_most("No loss grows; largest rise, by the loss:", rise, 1e-12),
      at_most(
        "Where all curvatures are L, the least loss keeps its value; largest "
        "change:",
        least,
        1e-9,
      ),
      at_most(
        "There, a step longer by a hundredth raises it each time; 0, least "
        "rise:",
        0.0,
        longest_rise,
      ),
    ],
    draw,
  )


def adafed_affine_hull() -> Demonstration:
  """Shows that d can vanish where a step could lower every client's loss.

  d is the least-norm point in the affine hull of the g_k / f_k^gamma. If a
  coefficient is negative, d may vanish far from any Pareto-stationary point.
  """
  ends = [_descend_quadratics(seed) for seed in range(8)]
  stuck = [end for end in ends if end.coefficients.min() < 0]
  others = [end for end in ends if end.coefficients.min() >= 0]

  def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    for end in ends:
      color = demonstrations.SECOND if end in stuck else demonstrations.FIRST
      axes.loglog(range(1, len(end.norms) + 1), end.norms, color=color)
    for label, color in (
      ("all coefficients positive at the end", demonstrations.FIRST),
      ("one negative: clients could all gain", demonstrations.SECOND),
    ):
      axes.plot([], [], color=color, label=label)
    axes.set(xlabel="step", ylabel="||d||")
    axes.legend()

  return Demonstration(
    "AdaFed, Theorems 5.3 to 5.5: a vanishing d need not be Pareto-stationary",
    "Three strongly convex quadratics of 5 numbers, curvatures in [0.5, 2], "
    "gamma = 1, steps (t + 2)^-0.6 as Theorem 5.5 allows, 8 seeds, until "
    f"||d|| < {_VANISHING_NORM:g}.",
    [
      at_most(
        "||d|| vanishes in each run; largest:",
        max(end.norms[-1] for end in ends),
        _VANISHING_NORM,
      ),
      Check(
        "Runs whose d vanishes with a negative coefficient:",
        f"{len(stuck)} of {len(ends)}",
        0 < len(stuck) < len(ends),
      ),
      at_most(
        "In them, the convex hull of the gradients stays away from 0; 0.05 "
        "and its least norm:",
        0.05,
        min(float(np.linalg.norm(end.common)) for end in stuck),
      ),
      at_most(
        "There, a step of 0.01 along that point lowers the loss of every "
        "client; largest change:",
        max(end.changes.max() for end in stuck),
        0.0,
      ),
      at_most(
        "In the others, the least norm of the convex hull vanishes; largest:",
        max(float(np.linalg.norm(end.common)) for end in others),
        10 * _VANISHING_NORM,
      ),
    ],
    draw,
  )


_VANISHING_NORM = 1e-4
_MOST_STEPS = 3000


class _End(typing.NamedTuple):
  """The end of a run on quadratics.

  Attributes:
    norms: ||d|| at each step.
    coefficients: float64[m], the coefficients c of the last step.
    common: float64[d], the least-norm point in the gradients' convex hull.
    changes: float64[m], changes of the losses by a step of 0.01 along `common`.
  """

  norms: Sequence[float]
  coefficients: np.ndarray
  common: np.ndarray
  changes: np.ndarray


def _descend_quadratics(seed: int) -> _End:
  """Runs AdaFed on f_k = (theta - theta_k)^T A_k (theta - theta_k) / 2."""
  rng = np.random.default_rng(seed)
  m, size = 3, 5
  axes = [np.linalg.qr(rng.normal(size=(size, size)))[0] for _ in range(m)]
  curvatures = np.stack(
    [a @ np.diag(rng.uniform(0.5, 2, size)) @ a.T for a in axes]
  )
  optima, theta = rng.normal(size=(m, size)), 2 * rng.normal(size=size)

  def gradients_and_losses(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    away = theta - optima
    gradients = np.einsum("kij,kj->ki", curvatures, away)
    return gradients, np.sum(away * gradients, axis=1) / 2

  norms: list[float] = []
  while not norms or (norms[-1] > _VANISHING_NORM and len(norms) < _MOST_STEPS):
    gradients, losses = gradients_and_losses(theta)
    coefficients = rounds.apply(_ADAFED, gradients, losses).coefficients.numpy()
    d = coefficients @ gradients
    step = (len(norms) + 2.0) ** -0.6
    norms.append(float(np.linalg.norm(d)))
    last, theta = theta, theta - step * d
  common = rounds.direction(rounds.MGDA, gradients, losses)
  return _End(
    norms,
    coefficients,
    common,
    gradients_and_losses(last - 0.01 * common)[1] - losses,
  )
