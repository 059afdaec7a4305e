"""Computes clients' mean losses under a model that is linear in its weights.

A row x of d features has C outputs, x W, with W float64[d, C]. f_k(W) is the
mean of a convex loss over the rows of client k, for N clients. A column of ones
in x gives the model a bias. `ceiling` minimizes risks of these losses.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from scipy import linalg

from tff_fair import declared
from tff_fair.declared import FieldError

Loss = Literal["softmax", "logistic", "squared"]
LOSSES: tuple[str, ...] = get_args(Loss)
Array = npt.NDArray[np.float64]

# Diagonals grow by this share, so that singular matrices can be factored.
_DAMPING = 1e-9
# Up to this many multiplications, each class has its own preconditioner.
_CHEAP = 3e9
_ROWS = 2048  # Rows to multiply at once.


class Derivatives(NamedTuple):
  """Clients' losses, float64[N], and their gradients, float64[N, d * C]."""

  values: Array
  gradients: Array


class ClientLosses:
  """The losses of clients as functions of the weights of a linear model."""

  def __init__(
    self,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    client: npt.ArrayLike,
    loss: Loss,
    num_classes: int | None = None,
  ) -> None:
    """Checks the rows, and sorts them by client.

    Args:
      x: float[n, d], finite; float32 is not converted, to save memory.
      y: For "softmax" int[n], classes below `num_classes`. For "logistic" 0 or
        1; the one output is the log odds. For "squared" float[n] or
        float[n, t]; the loss is the mean over the t numbers.
      client: int[n], client ids from 0 to N - 1, each with at least one row.
      loss: The loss of a row.
      num_classes: C, for "softmax"; by default, the largest class plus 1.

    Raises:
      FieldError: If an argument is invalid.
    """
    declared.check_choice("loss", loss, LOSSES)
    rows, labels, ids = np.asarray(x), np.asarray(y), np.asarray(client)
    _check_rows(rows, labels, ids)
    order = np.argsort(ids, kind="stable")
    if not (np.diff(ids) >= 0).all():
      rows, labels = rows[order], labels[order]
    self.loss = loss
    self.x = rows if rows.dtype == np.float32 else rows.astype(np.float64)
    found, self.counts = np.unique(ids, return_counts=True)
    is_wrong = found != np.arange(found.size)
    if is_wrong.any():
      raise FieldError(
        "client",
        f"has no row of client {int(is_wrong.argmax())}; number the clients "
        "without gaps.",
      )
    ends = np.cumsum(self.counts)
    pairs = zip(ends - self.counts, ends, strict=True)
    self._parts = [slice(start, end) for start, end in pairs]
    # The last weights, and the outputs for these weights.
    self._last: tuple[Array, Array] | None = None
    self.y, self.num_outputs = _labels(labels, loss, num_classes)

  @property
  def num_clients(self) -> int:
    """The number of clients, N."""
    return self.counts.size

  @property
  def shape(self) -> tuple[int, int]:
    """The shape of the weights, (d, C)."""
    return self.x.shape[1], self.num_outputs

  def values(self, weights: Array) -> Array:
    """Returns f_k(W), float64[N], for `weights`, float64[d * C]."""
    outputs = self._outputs(weights)
    found = np.empty(self.num_clients)
    for k, part in enumerate(self._parts):
      found[k] = self._losses(outputs[part], self.y[part]).mean()
    return found

  def derivatives(self, weights: Array) -> Derivatives:
    """Returns all f_k(W) and their gradients, in float64."""
    outputs = self._outputs(weights)
    gradients = np.empty((self.num_clients, weights.size))
    for k, part in enumerate(self._parts):
      residuals = self._residuals(outputs[part], self.y[part])
      summed = _float64(self.x[part]).T @ residuals
      gradients[k] = summed.ravel() / self.counts[k]
    return Derivatives(self.values(weights), gradients)

  def curvature(self, weights: Array, multipliers: Array) -> "Curvature":
    """Returns the Hessian of sum_k multipliers_k f_k at `weights`."""
    of_row = np.repeat(multipliers / self.counts, self.counts)[:, None]
    if self.loss == "squared":
      scale = 2 * of_row / self.num_outputs
      return Curvature(self.x, scale, None)
    probabilities = self._probabilities(self._outputs(weights))
    if self.loss == "logistic":
      scale = of_row * probabilities * (1 - probabilities)
      return Curvature(self.x, scale, None)
    return Curvature(self.x, of_row, probabilities)

  def _outputs(self, weights: Array) -> Array:
    """Returns the outputs x W, and keeps them for the next call with this W."""
    if self._last is None or self._last[0] is not weights:
      matrix = weights.reshape(self.shape)
      outputs = np.empty((len(self.x), self.num_outputs))
      for part in self._parts:
        outputs[part] = _float64(self.x[part]) @ matrix
      self._last = weights, outputs
    return self._last[1]

  def _losses(self, outputs: Array, y: np.ndarray) -> Array:
    if self.loss == "squared":
      return np.mean((outputs - y) ** 2, axis=1)
    if self.loss == "logistic":
      (logits,) = outputs.T
      return np.logaddexp(0, logits) - y * logits
    shifted = outputs - outputs.max(1, keepdims=True)
    at_label = shifted[np.arange(len(y)), y]
    losses: Array = np.log(np.exp(shifted).sum(1)) - at_label
    return losses

  def _probabilities(self, outputs: Array) -> Array:
    if self.loss == "logistic":
      return np.exp(-np.logaddexp(0, -outputs))
    odds = np.exp(outputs - outputs.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    return odds

  def _residuals(self, outputs: Array, y: np.ndarray) -> Array:
    if self.loss == "squared":
      return 2 * (outputs - y) / self.num_outputs
    probabilities = self._probabilities(outputs)
    if self.loss == "logistic":
      return probabilities - y[:, None]
    # The label's residual p - 1 would lose digits near p = 1. It equals minus
    # the sum of the other probabilities, which loses none.
    at_label = np.arange(len(y)), y
    probabilities[at_label] = 0
    probabilities[at_label] = -probabilities.sum(1)
    return probabilities


class Curvature:
  """A Hessian, float64[d * C, d * C], as a linear operator."""

  def __init__(
    self, x: np.ndarray, scale: Array, probabilities: Array | None
  ) -> None:
    self._x = x
    self._scale = scale.astype(x.dtype)
    self._probabilities = (
      None if probabilities is None else probabilities.astype(x.dtype)
    )

  def __matmul__(self, vector: Array) -> Array:
    """Returns the product with a vector."""
    matrix = vector.reshape(self._x.shape[1], -1).astype(self._x.dtype)
    found = np.zeros(matrix.shape)
    for start in range(0, len(self._x), _ROWS):  # So the rows fit into a cache.
      rows = slice(start, start + _ROWS)
      outputs = self._x[rows] @ matrix
      if self._probabilities is not None:
        weights = self._probabilities[rows]
        outputs -= np.einsum("nc,nc->n", weights, outputs)[:, None]
        outputs *= weights
      outputs *= self._scale[rows]
      found += self._x[rows].T @ outputs
    return found.ravel()

  def preconditioner(self, num_outputs: int, ridge: float) -> "Blocks":
    """Factors the Hessian's block of each class plus `ridge` * identity.

    If that would take too long, factors the mean of the blocks instead.
    """
    if self._probabilities is None:
      scales = self._scale
    else:
      scales = self._scale * self._probabilities * (1 - self._probabilities)
      if self._x.size * self._x.shape[1] * num_outputs > _CHEAP:
        scales = scales.mean(1, keepdims=True)
    return Blocks(
      [_factor(self._x, scale, ridge) for scale in scales.T], num_outputs
    )


class Blocks:
  """A factored matrix with one block for each class, or one for all classes."""

  def __init__(self, factors: list[Array], num_outputs: int) -> None:
    self._factors = factors
    self._num_outputs = num_outputs

  def solve(self, right: Array) -> Array:
    """Solves the system for right-hand sides `right`, float64[..., d * C]."""
    shape = right.shape
    blocks = right.reshape(
      -1, shape[-1] // self._num_outputs, self._num_outputs
    )
    found = np.empty_like(blocks)
    if len(self._factors) == 1:
      flat = blocks.transpose(1, 0, 2).reshape(blocks.shape[1], -1)
      solved = linalg.cho_solve((self._factors[0], True), flat)
      found[:] = solved.reshape(
        blocks.shape[1], -1, self._num_outputs
      ).transpose(1, 0, 2)
      return found.reshape(shape)
    for number, factor in enumerate(self._factors):
      found[:, :, number] = linalg.cho_solve(
        (factor, True), blocks[:, :, number].T
      ).T
    return found.reshape(shape)


def _factor(x: np.ndarray, scale: Array, ridge: float) -> Array:
  """Returns the Cholesky factor of x^T diag(scale) x + ridge I, damped."""
  scaled = x * np.sqrt(scale)[:, None]
  matrix = (scaled.T @ scaled).astype(np.float64)
  diagonal = np.einsum("ii->i", matrix)
  damping = _DAMPING if x.dtype == np.float64 else 1e-5
  floor = damping * max(diagonal.max(initial=0), 1e-300)
  while True:
    trial = matrix.copy()
    np.einsum("ii->i", trial)[:] += damping * diagonal + floor * 1e-6 + ridge
    try:
      factor: Array = linalg.cholesky(trial, lower=True, overwrite_a=True)
    except linalg.LinAlgError:
      damping, floor = 100 * damping, 100 * floor
    else:
      return factor


def _float64(x: np.ndarray) -> Array:
  found: Array = x.astype(np.float64, copy=False)
  return found


def _check_rows(x: np.ndarray, y: np.ndarray, client: np.ndarray) -> None:
  """Raises `FieldError` unless rows, labels and clients are valid and match."""
  if x.ndim != 2 or not x.size or x.dtype.kind not in "fiu":
    raise FieldError(
      "x",
      "expected numbers, a row for each example, found the shape "
      f"{x.shape} of {x.dtype}.",
    )
  if client.dtype.kind not in "iu" or client.min(initial=0) < 0:
    raise FieldError("client", "expected ids of clients, 0 and above.")
  for name, array in (("y", y), ("client", client)):
    if len(array) != len(x) or (name == "client" and array.ndim != 1):
      raise FieldError(
        name,
        f"expected {len(x):,} entries, one for each row of x, found the shape "
        f"{array.shape}.",
      )
  for name, array in (("x", x), ("y", y)):
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
      raise FieldError(name, "expected finite numbers, found others.")


def _labels(
  y: np.ndarray, loss: Loss, num_classes: int | None
) -> tuple[np.ndarray, int]:
  """Returns the labels as `loss` needs them, and the number of outputs."""
  if loss == "squared":
    if y.ndim > 2:
      raise FieldError("y", f"expected a number or several, found {y.shape}.")
    values = y.astype(np.float64).reshape(len(y), -1)
    return values, values.shape[1]
  if y.ndim != 1 or (y != np.floor(y)).any() or y.min() < 0:
    raise FieldError("y", "expected class numbers, 0 and above.")
  number = 2 if loss == "logistic" else num_classes or int(y.max()) + 1
  if y.max() >= number:
    raise FieldError(
      "y", f"expected classes below {number}, found {int(y.max())}."
    )
  return y.astype(np.int64), 1 if loss == "logistic" else max(number, 2)
