"""FedFV: Figure 1 and Theorems 1 to 4.

Wang, Fan, Qi, Wen, Wang, Yu, "Federated Learning with Fair Averaging" (IJCAI
2021).
"""

import typing

import numpy as np

import demonstrations
from demonstrations import Demonstration, at_most, rounds
from tff_fair.methods.fedfv import FedFvRule

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

_FEDFV = FedFvRule(alpha=0.0)
_NUM_TRIPLES = 200
_NUM_SETS = 300  # The number of sets of conflicting gradients.
_NUM_PROBLEMS = 30


def fedfv_figure_1() -> Demonstration:
  """Shows that FedFV follows the longest gradient less than the mean does."""
  # All pairs conflict, and ||g_a|| > ||g_b|| > ||g_c||.
  angles = np.radians([90.0, 205.0, 335.0])
  lengths = np.array([3.0, 1.5, 0.8])
  gradients = lengths[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
  loss = 1 / lengths  # The longest update is the first target of projections.
  mean = gradients.mean(axis=0)
  fair = rounds.direction(_FEDFV, gradients, loss)
  units = np.stack([rounds.unit_vector(g) for g in gradients])
  of_mean, of_fair = (
    units @ rounds.unit_vector(mean),
    units @ rounds.unit_vector(fair),
  )

  def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    for name, g in zip(("g_a", "g_b", "g_c"), gradients, strict=True):
      demonstrations.draw_arrow(axes, g, name, demonstrations.QUIET)
    demonstrations.draw_arrow(axes, mean, "mean", demonstrations.FIRST)
    demonstrations.draw_arrow(axes, fair, "FedFV", demonstrations.SECOND)
    axes.set(xlim=(-2, 2), ylim=(-1.5, 3.2), aspect="equal")

  products = gradients @ gradients.T
  return Demonstration(
    "FedFV, Figure 1: the longest gradient dominates the mean",
    "In the plane, projections that help one client may cost another one. "
    f"Three gradients of lengths {', '.join(f'{x:g}' for x in lengths)}.",
    [
      at_most(
        "Each pair conflicts; largest inner product:",
        products[np.triu_indices(3, 1)].max(),
        0.0,
      ),
      at_most(
        "The mean goes against g_c, FedFV with it; their cosines with g_c:",
        of_mean[2],
        of_fair[2],
      ),
      at_most(
        "FedFV favours the longest gradient less; its cosine with FedFV, with "
        "the mean:",
        of_fair[0],
        of_mean[0],
      ),
      at_most(
        f"Of {_NUM_TRIPLES} random such triples of 10 numbers, clients whom "
        "FedFV harms, whom the mean harms:",
        *_count_harmed(),
      ),
    ],
    draw,
  )


def _count_harmed() -> tuple[int, int]:
  """Counts clients that conflict with FedFV's direction, and with the mean."""
  rng = np.random.default_rng(0)
  by_fedfv = by_mean = found = 0
  while found < _NUM_TRIPLES:
    gradients = rng.normal(size=(3, 10)) * [[3.0], [1.5], [0.8]]
    if (gradients @ gradients.T)[np.triu_indices(3, 1)].max() >= 0:
      continue
    found += 1
    fair = rounds.direction(_FEDFV, gradients, np.arange(3.0))
    by_fedfv += int(np.sum(gradients @ fair < -1e-12))
    by_mean += int(np.sum(gradients @ gradients.mean(axis=0) < 0))
  return by_fedfv, by_mean


def fedfv_theorem_2() -> Demonstration:
  """Shows bounds on conflicts; they fall in the order of projection targets.

  Theorems 1 and 2 are about sets of gradients in which each projection resolves
  a conflict. Both bound how much the projected mean opposes each gradient.
  """
  rng = np.random.default_rng(0)
  last = by_first = by_second = rise = 0.0
  found = 0
  while found < _NUM_SETS:
    gradients = _conflicting_gradients(rng)
    paths = _projections(gradients)
    if paths is None:
      continue
    found += 1
    m, lengths = len(gradients), np.linalg.norm(gradients, axis=1)
    mean = _projected_mean(gradients, np.arange(float(m)))
    against = np.maximum(0.0, -gradients @ mean / lengths)
    first, second = _bounds_of_conflicts(gradients, paths)
    last = max(last, against[-1])
    by_first = max(by_first, np.max(against[:-1] / first[:-1]))
    by_second = max(by_second, np.max((against * lengths)[:-1] / second[:-1]))
    rise = max(rise, np.diff(first).max())

  def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    targets = np.arange(1, m + 1)
    axes.plot(targets, first, "o-", label="bound of Theorem 1")
    axes.plot(targets, against, "s-", label="conflict")
    axes.set(xlabel="place in the order of projections", xticks=targets)
    axes.legend()

  return Demonstration(
    "FedFV, Theorems 1 and 2: later targets of projections conflict less",
    f"{_NUM_SETS} random sets of 3 to 6 gradients of ten numbers. In each, all "
    "projections meet a conflict; the cosines' bounds are measured.",
    [
      at_most(
        "Theorem 1: a client's conflict is at most its bound; largest "
        "quotient:",
        by_first,
        1.0,
      ),
      at_most(
        "Theorem 1: the bound falls from each place to the next; largest rise:",
        rise,
        0.0,
      ),
      at_most("The last target has no conflict; largest:", last, 1e-6),
      at_most(
        "Theorem 2: -g_k g' <= (m - 1) / m max ||g||^2 f(m, k, eps_1, eps_2); "
        "largest quotient:",
        by_second,
        1.0,
      ),
    ],
    draw,
  )


def _conflicting_gradients(rng: np.random.Generator) -> np.ndarray:
  """Returns 3 to 6 pairwise conflicting gradients, [m, 10]."""
  m = int(rng.integers(3, 7))
  corners = np.eye(m, 10) - np.eye(m, 10).mean(axis=0)  # Corners of a simplex.
  gradients = corners + rng.normal(scale=0.05, size=(m, 10))
  return gradients * rng.uniform(0.3, 3.0, size=(m, 1))


def _projections(gradients: np.ndarray) -> np.ndarray | None:
  """Returns g_i^(k), g_i after the first k targets, float64[m + 1, m, d].

  Returns None if a projection has no conflict to resolve, since the theorems
  exclude such sets.
  """
  now = gradients.copy()
  paths = [now.copy()]
  for k, target in enumerate(gradients):
    for i in range(len(gradients)):
      if i != k:
        if now[i] @ target >= 0:
          return None
        now[i] -= (now[i] @ target) / (target @ target) * target
    paths.append(now.copy())
  return np.array(paths)


def _bounds_of_conflicts(
  gradients: np.ndarray, paths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the bounds of Theorems 1 and 2 for each gradient, float64[m].

  With the direction g', Theorem 1 bounds -g_k g' / ||g_k||, and Theorem 2
  bounds -g_k g'.
  """
  m = len(gradients)
  units = np.stack([rounds.unit_vector(g) for g in gradients])
  met = [  # The cosine at each projection of g_i^(k - 1) on g_k.
    rounds.unit_vector(paths[k][i]) @ units[k]
    for k in range(m)
    for i in range(m)
    if i != k
  ]
  cosines = np.abs([*met, *(units @ units.T)[np.triu_indices(m, 1)]])
  least, most = cosines.min(), cosines.max()
  lengths = np.linalg.norm(paths, axis=2)
  steps = np.array([lengths[j].sum() - lengths[j, j] for j in range(m)])
  first = most**2 / m * np.array([steps[k:].sum() for k in range(1, m + 1)])
  shrink = np.sqrt(1 - least**2)
  powers = shrink ** (m - np.arange(1, m + 1))
  f = most**2 * shrink * (1 - powers) / (1 - shrink)
  return first, (m - 1) / m * lengths[0].max() ** 2 * f


def fedfv_theorem_3() -> Demonstration:
  """Shows that two clients reach a Pareto-stationary point."""
  optima = np.array([[-1.0, 0.5], [1.5, -0.5]])
  curvature = np.array([[1.0, 0.3], [0.2, 1.0]])  # L = 1.
  theta, path = np.array([-1.0, 2.5]), []
  for _ in range(600):
    gradients = curvature * (theta - optima)
    loss = rounds.quadratics(theta, optima, curvature)
    path.append(
      [
        *theta,
        loss.mean(),
        rounds.distance_to_hull(np.zeros_like(theta), gradients),
      ]
    )
    theta = theta - _projected_mean(gradients, loss)
  numbers = np.array(path)
  means = numbers[:, 2]

  def draw(figure: "Figure") -> None:
    left, right = figure.subplots(1, 2)
    left.plot(*numbers[:, :2].T, ".-", color=demonstrations.FIRST, markersize=3)
    left.plot(*optima.T, "x", color=demonstrations.SECOND, label="optima")
    left.set(title="weights")
    left.legend()
    right.loglog(np.arange(1, len(path) + 1), numbers[:, 3])
    right.set(title="least norm in the hull of the gradients", xlabel="step")

  return Demonstration(
    "FedFV, Theorem 3: two clients reach a Pareto-stationary point",
    "Two convex quadratic objectives with L = 1, steps of 1/L, alpha = 0, "
    "without the last rescaling, as in the paper's proof.",
    [
      at_most(
        "The mean objective never rises; largest rise:",
        np.diff(means).max(),
        1e-12,
      ),
      at_most(
        "The gradients' hull gets to zero; least norm at the end, at the "
        "start / 1000:",
        numbers[-1, 3],
        numbers[0, 3] / 1000,
      ),
    ],
    draw,
  )


def fedfv_theorem_4() -> Demonstration:
  """Shows that several clients reach a Pareto-stationary point.

  The theorem assumes that FedFV's direction has a cosine above 1/2 with the
  mean gradient, and is not longer than it. FedFV's last step, which rescales
  the direction, makes both equally long.
  """
  rng = np.random.default_rng(0)
  rise, outside, ends, curves = 0.0, 0, [], []
  for _ in range(_NUM_PROBLEMS):
    optima = rng.normal(size=(5, 3))
    curvature = rng.uniform(0.2, 1.0, size=(5, 3))  # L = 1.
    theta, path = 3 * rng.normal(size=3), []
    for _ in range(300):
      gradients = curvature * (theta - optima)
      losses = rounds.quadratics(theta, optima, curvature)
      mean = gradients.mean(axis=0)
      direction = rounds.direction(_FEDFV, gradients, losses)
      path.append(
        [
          losses.mean(),
          rounds.distance_to_hull(np.zeros_like(theta), gradients),
        ]
      )
      if rounds.unit_vector(mean) @ rounds.unit_vector(direction) <= 0.5:
        outside += 1
        break
      theta = theta - direction
    numbers = np.array(path)
    curves.append(numbers[:, 1])
    rise = max(rise, np.diff(numbers[:, 0]).max(initial=0.0))
    ends.append(numbers[:, 1].min() / numbers[0, 1])

  def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    for curve in curves:
      axes.semilogy(np.maximum(curve, 1e-12), color=demonstrations.FIRST)
    axes.set(title="least norm in the hull of the gradients", xlabel="step")

  return Demonstration(
    "FedFV, Theorem 4: several clients reach a Pareto-stationary point",
    f"{_NUM_PROBLEMS} random problems of five convex quadratic objectives with "
    "L = 1, steps of 1/L, alpha = 0. A run ends where the theorem's angle does "
    f"not hold: {outside} do.",
    [
      at_most("The mean objective never rises; largest rise:", rise, 1e-12),
      at_most(
        "The gradients' hull gets to zero; largest least norm, by that at the "
        "start:",
        max(ends),
        1e-3,
      ),
    ],
    draw,
  )


def _projected_mean(gradients: np.ndarray, loss: np.ndarray) -> np.ndarray:
  """Returns FedFV's direction before rescaling to the mean's norm."""
  output = rounds.apply(_FEDFV, gradients, loss)
  length = float(output.measurements["norm_before_rescaling"])
  return length * rounds.unit_vector(output.coefficients.numpy() @ gradients)
