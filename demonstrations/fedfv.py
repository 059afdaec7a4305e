"""FedFV: Figure 1 and Theorem 3.

Wang, Fan, Qi, Wen, Wang, Yu, "Federated Learning with Fair Averaging" (IJCAI
2021).
"""

import typing

import numpy as np

from demonstrations import demonstration, rounds
from demonstrations.demonstration import Demonstration, at_most
from tff_fair.methods.fedfv import FedFvRule

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

_FEDFV = FedFvRule(alpha=0.0)
_NUM_TRIPLES = 200


def fedfv_figure_1() -> Demonstration:
  """Shows that projections take clients that conflict less far back."""
  # Pairs conflict, and ||g_a|| > ||g_b|| > ||g_c||.
  angles = np.radians([90.0, 205.0, 335.0])
  lengths = np.array([3.0, 1.5, 0.8])
  gradients = lengths[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
  loss = 1 / lengths  # The longest update comes first.
  mean = gradients.mean(axis=0)
  fair = rounds.direction(_FEDFV, gradients, loss)
  units = np.stack([rounds.unit(g) for g in gradients])
  of_mean, of_fair = units @ rounds.unit(mean), units @ rounds.unit(fair)

  def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    for name, g in zip(("g_a", "g_b", "g_c"), gradients, strict=True):
      demonstration.draw_arrow(axes, g, name, demonstration.QUIET)
    demonstration.draw_arrow(axes, mean, "mean", demonstration.FIRST)
    demonstration.draw_arrow(axes, fair, "FedFV", demonstration.SECOND)
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
        *_harmed(),
      ),
    ],
    draw,
  )


def _harmed() -> tuple[int, int]:
  """Returns how many clients FedFV and the mean go against, in all triples."""
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


def fedfv_theorem_3() -> Demonstration:
  """Shows that two clients get to a Pareto-stationary point."""
  optima = np.array([[-1.0, 0.5], [1.5, -0.5]])
  curvature = np.array([[1.0, 0.3], [0.2, 1.0]])  # L = 1.
  theta, path = np.array([-1.0, 2.5]), []
  for _ in range(600):
    gradients = curvature * (theta - optima)
    loss = 0.5 * np.sum(curvature * (theta - optima) ** 2, axis=1)
    path.append([*theta, loss.mean(), _stationarity(gradients)])
    theta = theta - _projected_mean(gradients, loss)
  numbers = np.array(path)
  means = numbers[:, 2]

  def draw(figure: "Figure") -> None:
    left, right = figure.subplots(1, 2)
    left.plot(*numbers[:, :2].T, ".-", color=demonstration.FIRST, markersize=3)
    left.plot(*optima.T, "x", color=demonstration.SECOND, label="optima")
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


def _projected_mean(gradients: np.ndarray, loss: np.ndarray) -> np.ndarray:
  """Returns FedFV's direction before it is rescaled to the mean's norm."""
  output = rounds.apply(_FEDFV, gradients, loss)
  length = float(output.measurements["norm_before_rescaling"])
  return length * rounds.unit(output.coefficients.numpy() @ gradients)


def _stationarity(gradients: np.ndarray) -> float:
  """Returns the norm of the shortest vector between two gradients."""
  first, second = gradients
  difference = first - second
  squared = difference @ difference
  share = np.clip(first @ difference / squared if squared else 0.0, 0, 1)
  return float(np.linalg.norm(first - share * difference))
