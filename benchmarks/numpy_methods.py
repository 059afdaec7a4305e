"""Fair methods for linear models in NumPy (float64), for many settings at once.

Used by benchmarks with tens of thousands of short runs: a run takes a hundredth
of the time of a federated run. All clients take part in each round, with one
epoch of SGD in batches of 64. The rules share no code with the library's.
Shapes are for K clients with up to n examples, F features, C outputs, P = F C
weights and S settings.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize, special, stats

from tasks.task import Split, Task
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import ACCURACY, RMSE
from tff_fair.experiments.sweeps import bench

_BATCH = 64


class Data(NamedTuple):
  """The examples of all clients in a split, padded to the largest client."""

  x: np.ndarray  # [K, n, F], the last feature is 1.
  y: np.ndarray  # [K, n, C], one-hot classes, or numbers with C = 1.
  num_examples: np.ndarray  # [K].

  @property
  def mask(self) -> np.ndarray:
    """Returns which rows are examples, [K, n]."""
    return np.arange(self.x.shape[1]) < self.num_examples[:, None]


class Model(NamedTuple):
  """A linear model that predicts classes, or a number."""

  is_number: bool

  def residual(self, out: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the gradient of each example's loss with respect to `out`."""
    if self.is_number:
      return 2 * (out - y)
    return special.softmax(out, -1) - y

  def loss(self, out: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the loss of each example."""
    if self.is_number:
      return np.square(out - y)[..., 0]
    return special.logsumexp(out, -1) - (out * y).sum(-1)


def pad_clients(split: Split, num_classes: int | None) -> Data:
  """Returns the padded examples of all clients, with a feature that is 1."""
  parts = [split.load(k) for k in range(split.num_examples.size)]
  most = max(int(split.num_examples.max()), 1)
  x = np.zeros([len(parts), most, parts[0][0].shape[-1] + 1])
  y = np.zeros([len(parts), most, num_classes or 1])
  for k, (of_client, labels) in enumerate(parts):
    n = len(labels)
    x[k, :n, :-1], x[k, :n, -1] = of_client, 1.0
    y[k, :n] = np.eye(num_classes)[labels] if num_classes else labels[:, None]
  return Data(x, y, split.num_examples)


def outputs(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
  """Returns outputs [K, n, S, C], for x [K, n, F], theta [K or 1, F, S, C]."""
  flat = x @ theta.reshape(*theta.shape[:2], -1)
  return flat.reshape(*flat.shape[:2], *theta.shape[2:])


def gradient(x: np.ndarray, residual: np.ndarray) -> np.ndarray:
  """Returns gradients [K, F, S, C], summed over each client's examples."""
  flat = residual.reshape(*residual.shape[:2], -1)
  found = np.swapaxes(x, 1, 2) @ flat
  return found.reshape(*found.shape[:2], *residual.shape[2:])


def train_locally(
  model: Model,
  data: Data,
  order: np.ndarray,
  start: np.ndarray,
  rates: np.ndarray,
  pull: np.ndarray | float = 0.0,
  center: np.ndarray | None = None,
) -> np.ndarray:
  """Returns the weights after an epoch of SGD, [K, F, S, C].

  With a `center`, `pull` is the weight of a proximal term towards it.
  """
  w = start.copy()
  for begin in range(0, data.x.shape[1], _BATCH):
    active = np.flatnonzero(data.num_examples > begin)
    rows = order[active, begin : begin + _BATCH]
    x = np.take_along_axis(data.x[active], rows[..., None], 1)
    y = np.take_along_axis(data.y[active], rows[..., None], 1)
    number = np.minimum(data.num_examples[active] - begin, _BATCH)
    is_row = np.arange(rows.shape[1]) < number[:, None]
    residual = model.residual(outputs(x, w[active]), y[:, :, None])
    residual *= (is_row / number[:, None])[..., None, None]
    g = gradient(x, residual)
    if center is not None:
      g += pull * (w[active] - center[active])
    w[active] -= rates * g
  return w


# Rules: functions from a round's signals to each setting's server step, [S, P].


class Round(NamedTuple):
  """A round in S settings: updates of clients [S, K, P], and other signals."""

  update: np.ndarray
  loss: np.ndarray  # [S, K], losses before training.
  initial_loss: np.ndarray  # [S, K], losses of the initial weights.
  gradient_norm: np.ndarray  # [S, K], norms of the gradients before training.
  weight: np.ndarray  # [K], client weights with sum 1.
  rates: np.ndarray  # [S], client learning rates.
  value: np.ndarray  # [S], values of the method's hyperparameter.
  memory: dict[str, np.ndarray]


def _combine(c: np.ndarray, r: Round) -> np.ndarray:
  return np.einsum("sk,skp->sp", c, r.update)


def _fedavg(r: Round) -> np.ndarray:
  return _combine(np.broadcast_to(r.weight, r.loss.shape), r)


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
  unit_updates = np.divide(
    update, norms[:, None], np.zeros_like(update), where=norms[:, None] > 0
  )
  g = norms.mean() * unit_updates
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
  norms = np.linalg.norm(r.update, axis=2, keepdims=True)
  unit = np.divide(r.update, norms, np.zeros_like(r.update), where=norms > 0)
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
  """Returns AdaFed's step, from the convex hull if the affine one has none."""
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

  The weights have the sum 1 and lie within bounds. An interior-point method
  solves S problems at once: points are [S, m, P], other arguments [S, m].
  """
  gram = points @ np.swapaxes(points, 1, 2)
  largest = np.einsum("smm->sm", gram).max(1)
  gram = gram / np.where(largest > 0, largest, 1)[:, None, None]
  gram = np.where(np.isfinite(gram), gram, 0)
  ones = np.ones_like(start)
  x, y = start.copy(), np.zeros([len(start), 1])
  below, above = ones.copy(), ones.copy()
  for _ in range(60):
    a, b = x - lower, upper - x
    gap = (a * below + b * above).mean(1, keepdims=True)
    if gap.max() < 1e-13:
      break
    slope = np.einsum("sij,sj->si", gram, x) - y
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
    x, y = x + length * step, y + length * level
    below, above = below + length * to_below, above + length * to_above
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


RULES: dict[str, Callable[[Round], np.ndarray]] = {
  "fedavg": _fedavg,
  "qfedavg": _qfedavg,
  "term": _term,
  "fedfv": _fedfv,
  "fedmdfg": _fedmdfg,
  "adafedadam": _adafedadam,
  "ditto": _fedavg,
  "fedmgda_plus": _fedmgda_plus,
  "adafed": _adafed,
  "vred": _vred,
  "semi_vred": _semi_vred,
}
_WITHOUT_SIGNALS = ("fedavg", "ditto")


def train_settings(
  settings: Sequence[RunSpec],
  model: Model,
  data: Data,
  first: np.ndarray,
  seed: int,
) -> np.ndarray:
  """Returns each client's model weights after the last round, [K, F, S, C]."""
  name = settings[0].algorithm
  weight = data.num_examples / data.num_examples.sum()
  if settings[0].client_weighting == "uniform":
    weight = np.full(weight.size, 1 / weight.size)
  rates = np.array([s.client_learning_rate for s in settings])
  server_rates = np.array([s.server_learning_rate or 1.0 for s in settings])
  own = bench.HYPERPARAMETERS.get(settings[0].algorithm, ("", ()))[0]
  value = np.array([s.all_hparams[own] if own else 0.0 for s in settings])
  num_clients = data.num_examples.size
  rng = np.random.default_rng(seed)
  theta = np.repeat(first[:, None], len(settings), 1)  # [F, S, C]
  personal = np.repeat(theta[None], num_clients, 0)
  signals = functools.partial(_signals, model, data)
  initial = signals(theta)[0]
  memory: dict[str, np.ndarray] = {}
  for _ in range(settings[0].total_rounds):
    drawn = np.where(data.mask, rng.random(data.mask.shape), np.inf)
    order = np.argsort(drawn, axis=1)
    start = np.repeat(theta[None], num_clients, 0)
    scaled = rates[:, None]
    after = train_locally(model, data, order, start, scaled)
    if name == "ditto":
      personal = train_locally(
        model, data, order, personal, scaled, value[:, None], start
      )
    loss, norm = initial, initial
    if name not in _WITHOUT_SIGNALS:
      loss, norm = signals(theta)
    update = np.moveaxis(start - after, 2, 0).reshape(
      len(settings), num_clients, -1
    )
    step = RULES[name](
      Round(update, loss, initial, norm, weight, rates, value, memory)
    )
    step = server_rates[:, None] * step
    of_settings = step.reshape(len(settings), *first.shape)
    theta = theta - np.moveaxis(of_settings, 0, 1)
  return personal if name == "ditto" else theta[None]


def _signals(
  model: Model, data: Data, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the clients' losses and the norms of their gradients, [S, K]."""
  out, y = outputs(data.x, theta[None]), data.y[:, :, None]
  share = (data.mask / data.num_examples[:, None])[..., None]
  loss = (model.loss(out, y) * share).sum(1)
  g = gradient(data.x, model.residual(out, y) * share[..., None])
  return loss.T, np.sqrt(np.square(g).sum((1, 3))).T


def scores(name: str, data: Data, out: np.ndarray) -> np.ndarray:
  """Returns each client's score in each setting, [K, S]."""
  mask = data.mask[..., None]
  number = data.num_examples[:, None]
  if name == RMSE.name:
    squared = np.square(out - data.y[:, :, None])[..., 0] * mask
    return np.sqrt(squared.sum(1) / number)
  label = data.y.argmax(-1)
  if name == ACCURACY.name:
    hits = (out.argmax(-1) == label[..., None]) & mask
    return hits.sum(1) / number
  assert name == "auc"
  found = np.full([len(out), out.shape[2]], np.nan)
  for k, n in enumerate(data.num_examples):
    positive = label[k, :n] == 1
    pairs = positive.sum() * (~positive).sum()
    if pairs:
      ranks = stats.rankdata(out[k, :n, :, 1] - out[k, :n, :, 0], axis=0)
      least = positive.sum() * (positive.sum() + 1) / 2
      found[k] = (ranks[positive].sum(0) - least) / pairs
  return found


class Federation(NamedTuple):
  """The data of a task with a linear model, and the score to compute."""

  task: Task
  score: str
  model: Model
  train: Data
  validation: Data
  test: Data

  @classmethod
  def from_task(
    cls, task: Task, score: str, *, is_number: bool
  ) -> "Federation":
    """Reads the data of a task with validation examples."""
    num_classes = None if is_number else task.num_classes
    assert task.validation is not None
    parts = (task.train, task.validation, task.test)
    train, validation, test = (pad_clients(part, num_classes) for part in parts)
    return cls(task, score, Model(is_number), train, validation, test)

  @property
  def shape(self) -> tuple[int, int]:
    """The shape of the weights, the bias in the last row: [F, C]."""
    return self.train.x.shape[2], self.train.y.shape[2]

  def evaluate(
    self, specs: Sequence[RunSpec], first: np.ndarray, seed: int
  ) -> pd.DataFrame:
    """Trains settings that differ only in rates and hyperparameters.

    Training starts from the weights `first`, float64[F, C]. The result has a
    row for each client and setting: setting, client_id, client, num_examples,
    the test score and, with the prefix validation_, the validation score.
    """
    theta = train_settings(specs, self.model, self.train, first, seed)
    clients = np.arange(self.test.num_examples.size)
    found = {
      "setting": np.tile(np.arange(len(specs)), clients.size),
      "client_id": np.repeat(clients, len(specs)),
      "client": np.repeat(self.task.client_names, len(specs)),
    }
    for prefix, data in (("", self.test), ("validation_", self.validation)):
      of_data = scores(self.score, data, outputs(data.x, theta))
      found[f"{prefix}num_examples"] = np.repeat(data.num_examples, len(specs))
      found[f"{prefix}{self.score}"] = of_data.ravel()
    return pd.DataFrame(found)


def first_weights(task: Task) -> np.ndarray:
  """Returns the initial weights of a task's linear model, float64[F, C]."""
  kernel, bias = task.keras_model_fn().get_weights()
  return np.vstack([kernel, bias]).astype(np.float64)
