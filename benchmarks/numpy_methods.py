"""Fair methods for linear models in NumPy (float64), for many settings at once.

Used by benchmarks with tens of thousands of short runs: a run takes a hundredth
of the time of a federated run. All clients take part in each round, with one
epoch of SGD in batches of 64. `numpy_rules` has the methods' rules. Shapes are
for K clients with up to n examples, F features, C outputs, P = F C weights and
S settings.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special, stats

from benchmarks import numpy_rules
from benchmarks.numpy_rules import Round
from tasks.task import Split, Task
from tff_fair import methods
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
    """Returns which rows are examples and not padding, [K, n]."""
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


class Objective(NamedTuple):
  """What a method changes in the local steps of plain SGD."""

  pull: np.ndarray | None = None  # [S], weight of a proximal term.
  center: np.ndarray | None = None  # [K, F, S, C], to which the term pulls.
  momentum: float = 0.0
  utility: np.ndarray | None = None  # [S], PropFair's M.
  correction: np.ndarray | None = None  # [K, F, S, C], added to gradients.


def train_locally(
  model: Model,
  data: Data,
  order: np.ndarray,
  start: np.ndarray,
  rates: np.ndarray,
  objective: Objective,
) -> np.ndarray:
  """Returns the weights after an epoch of SGD, [K, F, S, C]."""
  w = start.copy()
  velocity = np.zeros_like(start) if objective.momentum else None
  for begin in range(0, data.x.shape[1], _BATCH):
    active = np.flatnonzero(data.num_examples > begin)
    rows = order[active, begin : begin + _BATCH]
    x = data.x[active[:, None], rows]
    y = data.y[active[:, None], rows][:, :, None]
    number = np.minimum(data.num_examples[active] - begin, _BATCH)
    is_row = np.arange(rows.shape[1]) < number[:, None]
    share = (is_row / number[:, None])[..., None]
    out = outputs(x, w[active])
    residual = model.residual(out, y) * share[..., None]
    if objective.utility is not None:
      loss = (model.loss(out, y) * share).sum(1)
      left = objective.utility - loss
      slope = 1 / np.where(left >= 0.2, left, objective.utility)
      residual *= slope[:, None, :, None]
    g = gradient(x, residual)
    if objective.pull is not None:
      assert objective.center is not None
      g += objective.pull[:, None] * (w[active] - objective.center[active])
    if objective.correction is not None:
      g += objective.correction[active]
    if velocity is not None:
      g += objective.momentum * velocity[active]
      velocity[active] = g
    w[active] -= rates * g
  return w


def train_apart(
  model: Model,
  data: Data,
  start: np.ndarray,
  rates: np.ndarray,
  epochs: np.ndarray,
  seed: int,
) -> np.ndarray:
  """Returns the weights after each setting's epochs, without a server.

  Args:
    model: The model of all clients.
    data: The clients' examples.
    start: The first weights of each client, [K, F, S, C].
    rates: The learning rates, [S].
    epochs: The numbers of epochs, [S].
    seed: Determines the order of examples.
  """
  rng, w = np.random.default_rng(seed), start
  for epoch in range(epochs.max()):
    left = np.where(epoch < epochs, rates, 0.0)[:, None]
    w = train_locally(model, data, _shuffled(data, rng), w, left, Objective())
  return w


def _shuffled(data: Data, rng: np.random.Generator) -> np.ndarray:
  """Returns an order of each client's examples, [K, n], the padding last."""
  drawn = np.where(data.mask, rng.random(data.mask.shape), np.inf)
  return np.argsort(drawn, axis=1)


def train_settings(
  settings: Sequence[RunSpec],
  model: Model,
  data: Data,
  first: np.ndarray,
  seed: int,
) -> np.ndarray:
  """Returns each client's model weights after the last round, [K, F, S, C]."""
  name = settings[0].algorithm
  method = numpy_rules.METHODS[name]
  weight = data.num_examples / data.num_examples.sum()
  if settings[0].client_weighting == "uniform":
    weight = np.full(weight.size, 1 / weight.size)
  rates = np.array([s.client_learning_rate for s in settings])
  server_rates = np.array([s.server_learning_rate or 1.0 for s in settings])

  def hyperparameter(of: str) -> np.ndarray | None:
    if not of:
      return None
    return np.array([s.all_hparams[of] for s in settings], np.float64)

  value = hyperparameter(bench.HYPERPARAMETERS.get(name, ("", ()))[0])
  if value is None:
    value = np.zeros(len(settings))
  pull, utility = hyperparameter(method.pull), hyperparameter(method.utility)
  personal_pull = hyperparameter(method.personal_pull)
  num_clients = data.num_examples.size
  num_steps = -(-data.num_examples // _BATCH)
  rng = np.random.default_rng(seed)
  theta = np.repeat(first[:, None], len(settings), 1)  # [F, S, C]
  personal = np.repeat(theta[None], num_clients, 0)
  initial = loss = norm = _signals(model, data, theta)[0]
  memory: dict[str, Any] = {}
  for _ in range(settings[0].total_rounds):
    start = np.repeat(theta[None], num_clients, 0)
    train = functools.partial(train_locally, model, data, _shuffled(data, rng))
    objective = Objective(pull, start, method.momentum, utility)
    if numpy_rules.CORRECTION in memory:
      correction = _unflatten(memory[numpy_rules.CORRECTION], start.shape)
      objective = objective._replace(correction=correction)
    after = train(start, rates[:, None], objective)
    if personal_pull is not None:
      towards_start = Objective(personal_pull, start)
      personal = train(personal, rates[:, None], towards_start)
    if method.needs_signals:
      loss, norm = _signals(model, data, theta)
    accuracy = None
    if methods.method(name).needs_accuracy:
      accuracy = scores(ACCURACY.name, data, outputs(data.x, theta[None])).T
    flat = np.moveaxis(start - after, 2, 0)
    flat = flat.reshape(len(settings), num_clients, -1)
    signals = loss, initial, norm, accuracy
    step = method.rule(
      Round(flat, *signals, num_steps, weight, rates, value, memory)
    )
    step = server_rates[:, None] * step
    theta = theta - _unflatten(step, theta.shape)
  return theta[None] if personal_pull is None else personal


def _unflatten(flat: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
  """Returns weights [S, ..., P] in a shape [..., F, S, C]."""
  *clients, num_features, num_settings, num_outputs = shape
  of_settings = flat.reshape(num_settings, *clients, num_features, num_outputs)
  return np.moveaxis(of_settings, 0, -2)


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

    Training starts from the weights `first`, float64[F, C]. Specs with a local
    or pooled baseline, or epochs of fine-tuning, train the models of these
    baselines, in as many epochs as the other specs have rounds. The result has
    a row for each client and setting: setting, client_id, client, num_examples,
    the test score and, with the prefix validation_, the validation score.
    """
    theta = self.train_models(specs, first, seed)
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

  def train_models(
    self, specs: Sequence[RunSpec], first: np.ndarray, seed: int
  ) -> np.ndarray:
    """Returns the weights of one model, or a model per client, [., F, S, C]."""
    spec, data = specs[0], self.train
    if spec.pooled_baseline:
      rows = data.mask
      data = Data(
        data.x[rows][None],
        data.y[rows][None],
        data.num_examples.sum(keepdims=True),
      )
    theta = np.repeat(first[None, :, None], len(specs), 2)
    epochs = [s.total_rounds for s in specs]
    if not (spec.local_baseline or spec.pooled_baseline):
      theta = train_settings(specs, self.model, data, first, seed)
      epochs = [s.finetune_epochs or 0 for s in specs]
    if not any(epochs):
      return theta
    start = np.repeat(theta, data.num_examples.size // len(theta), 0)
    rates = np.array([s.client_learning_rate for s in specs])
    return train_apart(self.model, data, start, rates, np.array(epochs), seed)


def first_weights(task: Task) -> np.ndarray:
  """Returns the initial weights of a task's linear model, float64[F, C]."""
  kernel, bias = task.keras_model_fn().get_weights()
  return np.vstack([kernel, bias]).astype(np.float64)
