"""FedMGDA+: Theorems 1 and 2, Pareto-stationary points with decaying steps.

Hu, Shaloudegi, Zhang, Yu, "Federated Learning Meets Multi-objective
Optimization" (FedMGDA+). The theorems are about FedMGDA, whose coefficients are
not bounded by epsilon.
"""

import typing

import numpy as np

import demonstrations
from demonstrations import Demonstration, at_most, rounds

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

_CURVATURE = np.array([1.0, 3.0])  # The smallest curvature is Theorem 2's c.
_OPTIMA = np.array([[0.0, 0.0], [2.0, 0.3], [1.2, 1.8]])
_NUM_STEPS = 200


def fedmgda_plus_theorem_1() -> Demonstration:
  """Shows that the direction vanishes if its variance over cohorts vanishes.

  One client is missing in round t with a probability that falls like 1 / t. So
  the standard deviation sigma_t falls like 1 / sqrt(t), and sigma_t eta_t is
  summable.
  """
  rng = np.random.default_rng(0)
  w = np.array([6.0, -5.0])
  steps = np.arange(_NUM_STEPS)
  rates = (steps + 2) ** -0.6 / 3  # Rates are at most 1 / L.
  squared, noise = [], []
  for t, rate in zip(steps, rates, strict=True):
    gradients = _CURVATURE * (w - _OPTIMA)
    directions = np.array(
      [
        rounds.direction(rounds.MGDA, part, np.ones(len(part)))
        for part in [
          gradients,
          *(np.delete(gradients, k, axis=0) for k in range(len(_OPTIMA))),
        ]
      ]
    )
    missing = 1 / (t + 1)
    shares = np.array([1 - missing, *[missing / len(_OPTIMA)] * len(_OPTIMA)])
    around = directions - shares @ directions
    noise.append(rate * np.sqrt(shares @ np.sum(around**2, axis=1)))
    squared.append(directions[0] @ directions[0])
    w = w - rate * directions[rng.choice(len(shares), p=shares)]
  least = np.minimum.accumulate(squared)
  halves = np.array_split(np.array(noise), 2)

  def draw(figure: "Figure") -> None:
    left, right = figure.subplots(1, 2)
    left.loglog(steps + 1, np.maximum(least, 1e-20))
    left.set(title="least squared norm of the direction", xlabel="step")
    right.loglog(steps + 1, np.cumsum(noise))
    right.set(title="sum of sigma_t eta_t", xlabel="step")

  return Demonstration(
    "FedMGDA+, Theorem 1: Pareto-stationary points from samples of clients",
    "The clients of Theorem 2, steps of (t + 2)^-0.6 / 3. A round misses one "
    f"of them with the probability 1 / (t + 1). {len(steps)} steps.",
    [
      at_most(
        "The sum of sigma_t eta_t levels off; its second half, its first / 4:",
        halves[1].sum(),
        halves[0].sum() / 4,
      ),
      at_most(
        "min_t ||J(w_t) lambda_t||^2 gets to zero; at the end, at the start / "
        "1000:",
        float(least[-1]),
        float(least[0]) / 1000,
      ),
    ],
    draw,
  )


def fedmgda_plus_theorem_2() -> Demonstration:
  """Shows the distance to the Pareto set under steps of 2 / (c (t + 2))."""
  w = np.array([6.0, -5.0])
  path, longest = [w], 0.0
  for t in range(_NUM_STEPS):
    gradients = _CURVATURE * (w - _OPTIMA)
    longest = max(longest, np.linalg.norm(gradients, axis=1).max())
    rate = 2 / (_CURVATURE.min() * (t + 2))
    w = w - rate * rounds.direction(
      rounds.MGDA, gradients, np.ones(len(_OPTIMA))
    )
    path.append(w)
  steps = np.arange(_NUM_STEPS + 1)
  squared = np.array([rounds.distance_to_hull(w, _OPTIMA) ** 2 for w in path])
  bound = 4 * longest**2 / (_CURVATURE.min() ** 2 * (steps + 3))

  def draw(figure: "Figure") -> None:
    left, right = figure.subplots(1, 2)
    left.fill(
      *_OPTIMA.T, color=demonstrations.QUIET, alpha=0.4, label="Pareto set"
    )
    left.plot(*np.array(path).T, ".-", color=demonstrations.FIRST)
    left.set(title="weights")
    left.legend()
    right.loglog(
      steps + 1, np.maximum(squared, 1e-20), label="squared distance"
    )
    right.loglog(steps + 1, bound, color=demonstrations.SECOND, label="bound")
    right.set(xlabel="step", title="distance to the Pareto set")
    right.legend()

  return Demonstration(
    "FedMGDA+, Theorem 2: the distance to Pareto-stationary points",
    "Three clients with quadratic objectives of equal curvature, 1 and 3: the "
    f"Pareto set is the triangle of their optima. {_NUM_STEPS} steps.",
    [
      at_most(
        "||w_t - w_t*||^2 <= 4 M^2 / (c^2 (t + 3)) at each step; largest "
        "quotient of the two:",
        float(np.max(squared / bound)),
        1.0,
      ),
      at_most(
        "The distance vanishes; at the end:", float(np.sqrt(squared[-1])), 1e-2
      ),
    ],
    draw,
  )
