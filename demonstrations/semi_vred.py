"""Semi-VRed: Lemma 3 and Example 1.

Malekmohammadi, Yu, "Semi-Variance Reduction for Fair Federated Learning"
(arXiv 2406.16193), Section 4.3.2.
"""

import functools
import typing
from collections.abc import Mapping

import numpy as np
import scipy.optimize

import demonstrations
from demonstrations import Demonstration, at_most, rounds
from tff_fair.methods.vred import SemiVRedRule

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

_BETA = 2.0
# Example 1: all clients except the first have a share alpha / 2 of class 1; the
# first has this share of class 2.
_NUM_CLIENTS, _ALPHA = 20, 0.1
_SHARES = np.array(
  [
    [1 - _ALPHA / 2, _ALPHA / 2],
    *[[_ALPHA / 2, 1 - _ALPHA / 2]] * (_NUM_CLIENTS - 1),
  ]
)
_STEP = 1e-5  # The step of difference quotients.
# Quadrature points for expectations over a standard normal distribution.
_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


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
    # A class's weight in the objective's gradient, compared with its share.
    above = np.maximum((shares - marginal) @ of_class, 0)
    weight = marginal + 2 * _BETA * np.mean(
      above[:, None] * (shares - marginal), axis=0
    )
    worst = np.argmax(of_class)
    rare.append([marginal[worst], weight[worst]])
  counts = np.array(rare)

  def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    axes.plot(*counts.T, ".", color=demonstrations.FIRST)
    limits = [0, counts.max()]
    axes.plot(limits, limits, color=demonstrations.QUIET, label="FedAvg")
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
  """Shows that Semi-VRed lowers the loss of a class that one client holds."""
  ends = {
    name: scipy.optimize.minimize_scalar(
      function, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10}
    ).x
    for name, function in (
      ("FedAvg", _example_mean),
      ("Semi-VRed", _example_objective),
    )
  }
  thresholds = np.linspace(ends["FedAvg"], ends["Semi-VRed"], 9)
  losses = {name: _class_losses(end) for name, end in ends.items()}
  return Demonstration(
    "Semi-VRed, Example 1: the class that one of twenty clients holds",
    f"n = {_NUM_CLIENTS}, alpha = {_ALPHA:g}, beta = {_BETA:g}; one threshold "
    "is learned.",
    [
      at_most(
        "The objective is Eq. 21 where class 1 does worse; largest difference:",
        max(map(_error_of_equation, thresholds)),
        1e-12,
      ),
      at_most(
        "The rule's direction is its gradient; largest difference:",
        max(map(_error_of_direction, thresholds)),
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
    functools.partial(_draw_losses, losses),
  )


def _class_losses(threshold: float) -> np.ndarray:
  """Returns the loss of a logistic model of slope 2 on each class, float64[2].

  The inputs of the classes are normal with means -1 and 1 and unit variance.
  """
  first = np.logaddexp(0, 2 * (_POINTS - 1 - threshold)) @ _WEIGHTS
  second = np.logaddexp(0, -2 * (_POINTS + 1 - threshold)) @ _WEIGHTS
  return np.array([first, second]) / _WEIGHTS.sum()


def _example_objective(threshold: float) -> float:
  return _objective(_SHARES @ _class_losses(threshold))


def _example_mean(threshold: float) -> float:
  return float(np.mean(_SHARES @ _class_losses(threshold)))


def _error_of_equation(threshold: float) -> float:
  """Returns the difference between the objective and Eq. 21."""
  factor = _BETA * (_NUM_CLIENTS - 1) ** 2 * (1 - _ALPHA) ** 2 / _NUM_CLIENTS**3
  first, second = _class_losses(threshold)
  of_equation = _example_mean(threshold) + factor * (first - second) ** 2
  return abs(_example_objective(threshold) - of_equation)


def _error_of_direction(threshold: float) -> float:
  """Returns how far the rule's direction is from the objective's gradient."""
  after, before = threshold + _STEP, threshold - _STEP
  slopes = (_class_losses(after) - _class_losses(before)) / (2 * _STEP)
  found = rounds.direction(
    SemiVRedRule(beta=_BETA),
    (_SHARES @ slopes)[:, None],
    _SHARES @ _class_losses(threshold),
  )[0]
  numeric = _example_objective(after) - _example_objective(before)
  return float(abs(found - numeric / (2 * _STEP)))


def _draw_losses(losses: Mapping[str, np.ndarray], figure: "Figure") -> None:
  axes = figure.subplots()
  places = np.arange(2)
  for shift, (name, color) in enumerate(
    (("FedAvg", demonstrations.FIRST), ("Semi-VRed", demonstrations.SECOND))
  ):
    axes.bar(
      places + 0.4 * shift - 0.2, losses[name], 0.4, color=color, label=name
    )
  axes.set_xticks(places, ["class 1, of one client", "class 2, of others"])
  axes.set(ylabel="loss at the minimum")
  axes.legend()
