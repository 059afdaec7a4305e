"""Builds and runs client works for tests, and trains locally in NumPy."""

import functools
from typing import Any

import numpy as np
import tensorflow_federated as tff

from tests import reference, small_problem
from tff_fair import client_works
from tff_fair.client_works import local_model

flat = small_problem.flat
MODELS: dict[str, Any] = {
  "functional": small_problem.functional_model(),
  "keras": small_problem.keras_model,
}


@functools.cache
def build(model="functional", optimizer=None, signals=(), **settings):
  """Returns client work on one of `MODELS`; equal calls share one object."""
  return client_works.build_training(
    MODELS[model],
    optimizer or small_problem.optimizer(),
    client_works.TrainingSettings(**settings),
    signals=signals,
  )


def initial_weights(model_fn):
  return local_model.describe(model_fn).initial_weights()


def run(process, data, *, weights=None, state=None):
  """Runs a round of client work; all clients get `weights`."""
  if weights is None:
    weights = initial_weights(MODELS["functional"])
  return process.next(
    process.initialize() if state is None else state,
    [weights] * len(data),
    data,
  )


def run_one(process, data, **kwargs):
  """Returns one client's update as a vector, and its signals."""
  result = run(process, [data], **kwargs).result[0]
  return flat(result.update), result.update_weight


def weights_of(theta):
  """Converts a vector to the functional model's weights."""
  size = small_problem.NUM_FEATURES * small_problem.NUM_CLASSES
  kernel = theta[:size].reshape(small_problem.NUM_FEATURES, -1)
  return tff.learning.models.ModelWeights(
    (kernel.astype(np.float32), theta[size:].astype(np.float32)), ()
  )


@functools.cache
def theta_of(round_num):
  """Returns the weights that clients receive, which differ between rounds."""
  noise = np.random.default_rng(round_num).normal(size=18, scale=0.3)
  return (reference.initial_theta() + noise).astype(np.float32).astype(float)


def batches_of(examples, batch_size):
  """Returns the minibatches of examples (x, y), in order."""
  x, y = examples
  return [
    (x[i : i + batch_size], y[i : i + batch_size])
    for i in range(0, len(y), batch_size)
  ]


def train(batches, optimizer=None):
  """Trains locally in NumPy; returns the update and the loss at each step."""
  optimizer = optimizer or reference.Momentum(small_problem.LEARNING_RATE)
  theta, losses = reference.initial_theta(), []
  w = theta
  for x, y in batches:
    loss, gradient = reference.loss_and_gradient(w, x, y)
    losses.append(loss)
    w = w - optimizer.step(gradient)
  return theta - w, losses


def learning_rate(process, value):
  """Returns a process's initial state with the client learning rate `value`."""
  state = process.initialize()
  hparams = process.get_hparams(state)
  hparams[tff.learning.optimizers.LEARNING_RATE_KEY] = np.float32(value)
  return process.set_hparams(state, hparams)
