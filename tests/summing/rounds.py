"""Runs rounds of aggregation for tests: clients with structured updates."""

import collections
import dataclasses
import types as builtin_types

import numpy as np
import tensorflow_federated as tff

from tests import reference, small_problem
from tff_fair import aggregators, algorithms, types

# A nested structure with two dtypes and a scalar, 9 values in total.
UPDATE_TYPE = tff.to_type(
  collections.OrderedDict(
    kernel=tff.TensorType(np.float32, [2, 3]),
    more=(tff.TensorType(np.float64, [2]), np.float32),
  )
)
SIGNALS_TYPE = tff.types.tensorflow_to_type(types.signals_spec())
LEARNING_RATE = 0.1


@dataclasses.dataclass
class Client:
  """A client's values, as they reach the server."""

  update: np.ndarray
  loss: float = 1.0
  num_examples: int = 1
  client_id: int = 0

  def structured(self):
    """Returns the update as a value of UPDATE_TYPE."""
    kernel, pair, scalar = np.split(self.update, [6, 8])
    return collections.OrderedDict(
      kernel=kernel.astype(np.float32).reshape(2, 3),
      more=(pair, np.float32(scalar[0])),
    )

  def signals(self) -> types.ClientSignals:
    unread = dict.fromkeys(types.ClientSignals._fields, np.float32(0.5))
    known = {
      "client_id": np.int64(self.client_id),
      "num_examples": np.float32(self.num_examples),
      "loss": np.float32(self.loss),
      "learning_rate": np.float32(LEARNING_RATE),
    }
    return types.ClientSignals(**{**unread, **known})

  def as_reference(self) -> builtin_types.SimpleNamespace:
    """Returns the client for the NumPy reference, rounded like sent values."""
    return builtin_types.SimpleNamespace(
      client_id=self.client_id,
      num_examples=self.num_examples,
      loss=float(np.float32(self.loss)),
      update=flat(self.structured()).astype(np.float64),
    )


flat = small_problem.flat


def random_clients(m, seed=0) -> list[Client]:
  """Returns `m` unequal clients in no order of id."""
  rng = np.random.default_rng(seed)
  return [
    Client(
      update=rng.normal(size=9) * rng.lognormal(),
      loss=float(rng.lognormal()),
      num_examples=rng.integers(1, 50),
      client_id=client_id,
    )
    for client_id in rng.permutation(10 * m)[:m]
  ]


def factory_of(name, hparams, **options) -> aggregators.RuleFactory:
  """Returns the factory of a method's rule."""
  rule = algorithms.get(name).build.rule(**hparams)
  return aggregators.RuleFactory(rule, **options)


def create(factory, update_type=UPDATE_TYPE):
  """Returns a factory's process; its weights are clients' signals."""
  return factory.create(update_type, SIGNALS_TYPE)


def expected(name, clients, **hparams) -> np.ndarray:
  """Returns the direction of a method by the NumPy reference."""
  known = [client.as_reference() for client in clients]
  return reference.METHODS[name].direction(known, **hparams)


def run(process, clients, state=None, update_of=Client.structured):
  """Runs a round in which the clients' signals are the weights."""
  return process.next(
    process.initialize() if state is None else state,
    [update_of(client) for client in clients],
    [client.signals() for client in clients],
  )


FLAT_TYPE = tff.TensorType(np.float32, [9])


def run_flat(process, clients, state=None):
  """Runs a round of `FLAT_TYPE` updates, because secure sums need one dtype."""
  return run(process, clients, state, lambda c: c.update.astype(np.float32))


def assert_same(actual, expected, tolerance=1e-6):
  error = np.max(np.abs(flat(actual) - expected))
  assert error <= tolerance * np.max(np.abs(expected)), error
