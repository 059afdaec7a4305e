"""AdaFedAdam: Theorems 1 and 2, on a convex problem.

Ju, Zhang, Toor, Hellander, "Accelerating Fair Federated Learning: Adaptive
Federated Adam" (2024), Appendix A: no momentum (beta1 = 0), alpha = 0.

Both theorems bound the mean of ||grad F(x_t)||^2 over T steps in terms of
F(x_1) - F(x*). They assume eta <= epsilon / 2 L and
1 - beta2 <= epsilon^2 / 16 G^2.
"""

import typing
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import demonstrations
from demonstrations import Check, Demonstration, at_most, rounds
from tff_fair.finalizers import certain_adam
from tff_fair.methods.adafedadam import AdaFedAdamRule, NAccAdamRule
from tff_fair.types import Rule

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

_EPSILON = 0.1
_NUM_STEPS = 200
_LOCAL_RATE = 0.2


class _Problem(NamedTuple):
  """L-smooth logistic regression, with gradient entries up to G."""

  features: np.ndarray  # float64[n, d], multiplied by the label, -1 or 1.

  def loss(self, x: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0, -self.features @ x)))

  def gradient(self, x: np.ndarray) -> np.ndarray:
    slope = -1 / (1 + np.exp(self.features @ x))
    return slope @ self.features / len(self.features)

  @property
  def smoothness(self) -> float:
    size = len(self.features)
    return float(np.linalg.norm(self.features, 2) ** 2 / (4 * size))

  @property
  def bound(self) -> float:
    return float(np.abs(self.features).mean(axis=0).max())

  def local_update(self, x: np.ndarray, num_steps: int) -> np.ndarray:
    """Returns Delta = x - SGD(x), after `num_steps` steps with full batches."""
    trained = x.copy()
    for _ in range(num_steps):
      trained = trained - _LOCAL_RATE * self.gradient(trained)
    return x - trained

  def minimum(self) -> float:
    """Returns F(x*), by Newton's method."""
    x = np.zeros(self.features.shape[1])
    for _ in range(50):
      p = 1 / (1 + np.exp(-self.features @ x))
      hessian = (self.features.T * (p * (1 - p))) @ self.features
      step = len(self.features) * np.linalg.solve(hessian, self.gradient(x))
      x = x - step
    return self.loss(x)


def _problem() -> _Problem:
  rng = np.random.default_rng(1)
  features = rng.normal(size=(200, 6))
  noisy = features @ rng.normal(size=6) + rng.normal(size=200)
  return _Problem(features * np.sign(noisy)[:, None])


def _settings(problem: _Problem) -> certain_adam.CertainAdamSettings:
  """Returns the largest eta and the least beta2 that the theorems allow."""
  return certain_adam.CertainAdamSettings(
    learning_rate=_EPSILON / (2 * problem.smoothness),
    beta1=0.0,
    beta2=1 - _EPSILON**2 / (16 * problem.bound**2),
    epsilon=_EPSILON,
  )


# A function from weights to the pseudo-gradient g and its certainty C.
_PseudoGradient: typing.TypeAlias = typing.Callable[
  [np.ndarray], tuple[np.ndarray, float]
]


class _Path(NamedTuple):
  """Measurements at each server step, and the initial loss."""

  squared_norm: np.ndarray  # ||grad F(x_t)||^2.
  ratio: np.ndarray  # R_t, the least |g_i / grad_i|.
  length: np.ndarray  # P_t, ||g|| / ||grad F||.
  certainty: np.ndarray  # C_t.
  start: float  # F(x_1).


def _descend(problem: _Problem, pseudo_gradient: _PseudoGradient) -> _Path:
  """Takes the library's Adam steps from zero weights; returns measurements."""
  x = np.zeros(problem.features.shape[1])
  specs = (tf.TensorSpec(x.shape, tf.float64),)
  state = certain_adam.initial_state(_settings(problem), specs)
  rows = []
  for _ in range(_NUM_STEPS):
    gradient = problem.gradient(x)
    g, certainty = pseudo_gradient(x)
    norm = np.linalg.norm(gradient)
    rows.append(
      [
        norm**2,
        np.min(np.abs(g / gradient)),
        np.linalg.norm(g) / norm,
        certainty,
      ]
    )
    state, (weights,) = certain_adam.take_step(
      state,
      (tf.constant(x),),
      (tf.constant(g),),
      tf.constant(certainty, tf.float32),
    )
    x = np.asarray(weights)
  squared_norm, ratio, length, certainties = np.array(rows).T
  start = problem.loss(np.zeros_like(x))
  return _Path(squared_norm, ratio, length, certainties, start)


def _right_side(problem: _Problem, path: _Path) -> float:
  """Returns (F(x_1) - F(x*)) (sqrt(beta2) G + epsilon) / (eta T)."""
  settings = _settings(problem)
  scale = np.sqrt(settings.beta2) * problem.bound + _EPSILON
  room = path.start - problem.minimum()
  return float(room * scale / (settings.learning_rate * _NUM_STEPS))


def _pseudo_gradient(
  problem: _Problem, rule: Rule, num_steps: tuple[int, ...]
) -> _PseudoGradient:
  """Returns a function from weights to pseudo-gradient and certainty."""

  def pseudo_gradient(x: np.ndarray) -> tuple[np.ndarray, float]:
    updates = np.stack([problem.local_update(x, n) for n in num_steps])
    ones = np.ones(len(num_steps))
    output = rounds.apply(
      rule,
      updates,
      problem.loss(x) * ones,
      initial_loss=np.log(2) * ones,
      gradient_norm=np.linalg.norm(problem.gradient(x)) * ones,
      learning_rate=_LOCAL_RATE * ones,
    )
    certainty = float(output.for_finalizer["certainty"])
    return output.coefficients.numpy() @ updates, certainty

  return pseudo_gradient


def n_accadam_theorem_1() -> Demonstration:
  """Shows the bound of Theorem 1, for Adam with updates of N local steps."""
  problem = _problem()
  rule = NAccAdamRule()
  paths = {
    n: _descend(problem, _pseudo_gradient(problem, rule, (n,)))
    for n in (1, 5, 20)
  }
  checks = []
  for n, path in paths.items():
    # This is the bound in the proof, before it is specialized to R_t = N.
    factor = path.ratio / path.length - 0.5
    checks.append(
      at_most(
        f"N = {n}: mean of (R_t / P_t - 1/2) ||grad F||^2 within the bound:",
        float(np.mean(factor * path.squared_norm)),
        _right_side(problem, path),
      )
    )
  return Demonstration(
    "AdaFedAdam, Theorem 1: Adam on accumulated updates (N-AccAdam)",
    f"Logistic regression, 200 examples, {_NUM_STEPS} steps of the largest "
    "rate the theorem allows, full batches.",
    checks,
    _drawing({f"N = {n}": path for n, path in paths.items()}),
  )


def adafedadam_theorem_2() -> Demonstration:
  """Shows the bound of Theorem 2, for clients with the same data."""
  problem = _problem()
  rule = AdaFedAdamRule(alpha=0.0)

  paths = {
    name: _descend(problem, _pseudo_gradient(problem, rule, num_steps))
    for name, num_steps in (
      ("one step each", (1, 1, 1)),
      ("1, 4 and 9 steps", (1, 4, 9)),
    )
  }
  checks = [
    Check(
      "One local step is Adam itself: C_t = 1 and R_t = 1; found:",
      f"{paths['one step each'].certainty.max():.6g}, "
      f"{paths['one step each'].ratio.min():.6g}",
      bool(
        np.allclose(paths["one step each"].certainty, 1, atol=1e-6)
        and np.allclose(paths["one step each"].ratio, 1, atol=1e-6)
      ),
    )
  ]
  for name, path in paths.items():
    # C of Algorithm 1, log(eta' / eta) + 1, already includes the theorem's 1.
    scale = 2 / (path.ratio.min() * path.certainty.min())
    checks.append(
      at_most(
        f"{name}: mean of ||grad F||^2 within the bound:",
        float(np.mean(path.squared_norm)),
        float(scale * _right_side(problem, path)),
      )
    )
  return Demonstration(
    "AdaFedAdam, Theorem 2: AdaFedAdam converges",
    "Logistic regression, three clients with the same 200 examples, "
    f"{_NUM_STEPS} steps of the largest rate the theorem allows.",
    checks,
    _drawing(paths),
  )


def _drawing(paths: dict[str, _Path]) -> typing.Callable[["Figure"], None]:
  def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    for (name, path), color in zip(
      paths.items(),
      (demonstrations.FIRST, demonstrations.SECOND, demonstrations.THIRD),
      strict=False,
    ):
      axes.semilogy(path.squared_norm, color=color, label=name)
    axes.set(xlabel="step", ylabel="||grad F||^2")
    axes.legend()

  return draw
