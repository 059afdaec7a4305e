"""The methods once more, in NumPy float64, written from their definitions.

Nothing here is shared with the library: local training is plain SGD on softmax
regression, AdaFed is the paper's orthogonalization, FedMGDA+'s program is
solved by scipy.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import scipy.optimize

from tests import small_problem


@dataclasses.dataclass
class Client:
  """What the server learns of a client in a round."""

  client_id: int
  num_examples: int
  loss: float
  update: np.ndarray


def _split(theta):
  kernel_size = small_problem.NUM_FEATURES * small_problem.NUM_CLASSES
  kernel = theta[:kernel_size].reshape(small_problem.NUM_FEATURES, -1)
  return kernel, theta[kernel_size:]


def loss_and_gradient(theta, x, y):
  kernel, bias = _split(theta)
  logits = x.astype(np.float64) @ kernel + bias
  logits -= logits.max(axis=1, keepdims=True)
  log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
  loss = -log_p[np.arange(len(y)), y].mean()
  residual = np.exp(log_p)
  residual[np.arange(len(y)), y] -= 1
  residual /= len(y)
  return loss, np.concatenate([(x.T @ residual).ravel(), residual.sum(axis=0)])


def accuracy(theta, x, y):
  kernel, bias = _split(theta)
  return np.mean(np.argmax(x @ kernel + bias, axis=1) == y)


def run_client(
  theta,
  client_id,
  *,
  epochs=1,
  learning_rate=small_problem.LEARNING_RATE,
  mu=0.0,
) -> Client:
  x, y = small_problem.client_arrays()[client_id]
  loss, _ = loss_and_gradient(theta, x, y)
  w = theta.copy()
  for _ in range(epochs):
    for start in range(0, len(y), small_problem.BATCH_SIZE):
      batch = slice(start, start + small_problem.BATCH_SIZE)
      _, gradient = loss_and_gradient(w, x[batch], y[batch])
      w = w - learning_rate * (gradient + mu * (w - theta))
  return Client(client_id, len(y), loss, theta - w)


def _arrays(clients):
  n = np.array([c.num_examples for c in clients], np.float64)
  f = np.array([c.loss for c in clients])
  updates = np.stack([c.update for c in clients])
  return n / n.sum(), f, updates


def fedavg(clients):
  p, _, updates = _arrays(clients)
  return p @ updates


def fedavg_n(clients):
  p, _, updates = _arrays(clients)
  return p @ (updates / np.linalg.norm(updates, axis=1, keepdims=True))


def qfedavg(clients, q=0.1):
  _, f, updates = _arrays(clients)
  lipschitz = 1 / small_problem.LEARNING_RATE
  w = lipschitz * updates
  h = q * f ** (q - 1) * (w**2).sum(axis=1) + lipschitz * f**q
  return (f**q) @ w / h.sum()


def term(clients, t=1.0):
  p, f, updates = _arrays(clients)
  tilted = p * np.exp(t * f)
  return tilted / tilted.sum() @ updates


def _deviation_penalized(clients, beta, positive_part):
  p, f, updates = _arrays(clients)
  deviation = f - p @ f
  if positive_part:
    deviation = np.maximum(deviation, 0)
  mean = p @ updates
  return mean + 2 * beta * (p * deviation) @ (updates - mean)


def vred(clients, beta=0.1):
  return _deviation_penalized(clients, beta, positive_part=False)


def semi_vred(clients, beta=0.1):
  return _deviation_penalized(clients, beta, positive_part=True)


def fedmgda_plus(clients, epsilon=0.1, normalize=True):
  p, _, points = _arrays(clients)
  if normalize:
    points = points / np.linalg.norm(points, axis=1, keepdims=True)
  solution = scipy.optimize.minimize(
    lambda x: np.sum((x @ points) ** 2),
    p,
    jac=lambda x: 2 * points @ (x @ points),
    bounds=[(max(0, q - epsilon), min(1, q + epsilon)) for q in p],
    constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
    method="SLSQP",
    options={"ftol": 1e-15, "maxiter": 1000},
  )
  return solution.x @ points


def adafed(clients, gamma=1.0):
  """Eqs. 5, 6, 14: orthogonalize with slopes, then weight by 1/norm^2."""
  _, f, updates = _arrays(clients)
  slopes = np.abs(f) ** gamma
  basis: list[np.ndarray] = []
  for g, slope in zip(updates, slopes, strict=True):
    shares = [(g @ b) / (b @ b) for b in basis]
    numerator = g - sum(
      (s * b for s, b in zip(shares, basis, strict=True)), np.zeros_like(g)
    )
    basis.append(numerator / (slope - sum(shares)))
  inverse = np.array([1 / (b @ b) for b in basis])
  return inverse / inverse.sum() @ np.stack(basis)


DIRECTIONS: Mapping[str, Callable[..., np.ndarray]] = {
  "fedavg": fedavg,
  "fedavg_n": fedavg_n,
  "qfedavg": qfedavg,
  "term": term,
  "vred": vred,
  "semi_vred": semi_vred,
  "fedmgda_plus": fedmgda_plus,
  "adafed": adafed,
}


def run(name: str, cohorts, *, epochs=1, mu=0.0, **hparams) -> np.ndarray:
  """The weights after one round per cohort, from the initial ones."""
  theta = np.concatenate(
    [w.ravel().astype(np.float64) for w in small_problem.initial_weights()]
  )
  for cohort in cohorts:
    clients = [run_client(theta, k, epochs=epochs, mu=mu) for k in cohort]
    theta = theta - DIRECTIONS[name](clients, **hparams)
  return theta
