"""Semi-VRed: Lemma 3 and Example 1.

Malekmohammadi, Shaloudegi, Hu, Yu, "Towards Fair Federated Learning by
(Semi-)Variance Reduction", Section 4.3.2.
"""

import typing

import numpy as np
import scipy.optimize

from tff_fair.experiments.demonstrations import demonstration, rounds
from tff_fair.experiments.demonstrations.demonstration import (
  Demonstration,
  at_most,
)
from tff_fair.methods.vred import SemiVRedRule

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

_BETA = 2.0


def _objective(loss: np.ndarray) -> float:
  """Returns f_bar + beta / n sum [f_i - f_bar]_+^2 (Eq. 9)."""
  above = np.maximum(loss - loss.mean(), 0)
  return float(loss.mean() + _BETA * np.mean(above**2))


def semi_vred_lemma_3() -> Demonstration:
  """Shows that the objective is a sum over classes under label shift."""
  rng = np.random.default_rng(0)
  errors, shares, rare = [], rng.dirichlet(np.full(5, 0.2), size=40), []
  for _ in range(200):
    of_class = rng.lognormal(size=5)
    marginal = shares.mean(axis=0)
    by_class = marginal @ of_class + _BETA * np.mean(
      np.maximum((shares - marginal) @ of_class, 0) ** 2
    )
    found = _objective(shares @ of_class)
    errors.append(abs(found / by_class - 1))
    # What a class counts for in the gradient, and in that of the mean.
    above = np.maximum((shares - marginal) @ of_class, 0)
    weight = marginal + 2 * _BETA * np.mean(
      above[:, None] * (shares - marginal), axis=0
    )
    worst = np.argmax(of_class)
    rare.append([marginal[worst], weight[worst]])
  counts = np.array(rare)

  def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    axes.plot(*counts.T, ".", color=demonstration.FIRST)
    limits = [0, counts.max()]
    axes.plot(limits, limits, color=demonstration.QUIET, label="FedAvg")
    axes.set(
      xlabel="share of the class in all data",
      ylabel="weight of its loss in Semi-VRed's gradient",
      title="the class with the largest loss",
    )
    axes.legend()

  return Demonstration(
    "Semi-VRed, Lemma 3: the objective as a sum over classes",
    "40 clients, shares of 5 classes from a Dirichlet distribution (0.2), 200 "
    "random losses of the classes, beta = 2.",
    [
      at_most(
        "Eq. 9 of the clients' losses is Eq. 13 of the classes'; largest "
        "relative difference:",
        max(errors),
        1e-12,
      ),
      at_most(
        "The class of the largest loss counts more than its share; most that "
        "the share exceeds the weight:",
        float(np.max(counts[:, 0] - counts[:, 1])),
        1e-12,
      ),
    ],
    draw,
  )


def semi_vred_example_1() -> Demonstration:
  """Shows that a minority class gains where one client holds it."""
  n, alpha = 20, 0.1
  shares = np.full((n, 2), [alpha / 2, 1 - alpha / 2])
  shares[0] = shares[0, ::-1]
  # Classes at -1 and 1 with unit variance, a logistic model of slope 2.
  grid, weights = np.polynomial.hermite_e.hermegauss(60)
  weights = weights / weights.sum()

  def of_classes(threshold: float) -> np.ndarray:
    first = np.logaddexp(0, 2 * (grid - 1 - threshold)) @ weights
    second = np.logaddexp(0, -2 * (grid + 1 - threshold)) @ weights
    return np.array([first, second])

  def slopes(threshold: float) -> np.ndarray:
    h = 1e-5
    difference = of_classes(threshold + h) - of_classes(threshold - h)
    return np.asarray(difference / (2 * h))

  def objective(threshold: float) -> float:
    return _objective(shares @ of_classes(threshold))

  def mean(threshold: float) -> float:
    return float(np.mean(shares @ of_classes(threshold)))

  ends = {
    name: scipy.optimize.minimize_scalar(
      function, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10}
    ).x
    for name, function in (("FedAvg", mean), ("Semi-VRed", objective))
  }
  factor = _BETA * (n - 1) ** 2 * (1 - alpha) ** 2 / n**3
  differences, gradients = [], []
  for threshold in np.linspace(ends["FedAvg"], ends["Semi-VRed"], 9):
    first, second = of_classes(threshold)
    of_equation = mean(threshold) + factor * (first - second) ** 2
    differences.append(abs(objective(threshold) - of_equation))
    found = rounds.direction(
      SemiVRedRule(beta=_BETA),
      (shares @ slopes(threshold))[:, None],
      shares @ of_classes(threshold),
    )[0]
    h = 1e-5
    numeric = (objective(threshold + h) - objective(threshold - h)) / (2 * h)
    gradients.append(abs(found - numeric))
  losses = {name: of_classes(end) for name, end in ends.items()}

  def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    places = np.arange(2)
    for shift, (name, color) in enumerate(
      (("FedAvg", demonstration.FIRST), ("Semi-VRed", demonstration.SECOND))
    ):
      axes.bar(
        places + 0.4 * shift - 0.2, losses[name], 0.4, color=color, label=name
      )
    axes.set_xticks(places, ["class 1, of one client", "class 2, of others"])
    axes.set(ylabel="loss at the minimum")
    axes.legend()

  return Demonstration(
    "Semi-VRed, Example 1: the class that one of twenty clients holds",
    f"n = {n}, alpha = {alpha:g}, beta = {_BETA:g}; one threshold is learned.",
    [
      at_most(
        "The objective is Eq. 21 where class 1 does worse; largest difference:",
        max(differences),
        1e-12,
      ),
      at_most(
        "The rule's direction is its gradient; largest difference:",
        max(gradients),
        1e-7,
      ),
      at_most(
        "The loss of class 1 falls; at Semi-VRed's minimum, at FedAvg's:",
        losses["Semi-VRed"][0],
        losses["FedAvg"][0],
      ),
      at_most(
        "The losses of the classes come closer; difference there:",
        float(-np.diff(losses["Semi-VRed"])[0]),
        float(-np.diff(losses["FedAvg"])[0]),
      ),
    ],
    draw,
  )
