"""Tests of the aggregator factories in stock TFF processes, against NumPy."""

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.cases import one_of_each
from tests.client_works.local_work import MODELS
from tff_fair import aggregators

IDS = small_problem.CLIENT_IDS[:4]
FACTORIES: dict[str, Any] = {
  "fedmgda_plus": functools.partial(
    aggregators.FedMgdaPlusFactory, epsilon=0.1
  ),
  "fedavg_n": aggregators.FedAvgNFactory,
}


@functools.cache
def build(factory, model="functional", weighting="num_examples", **options):
  return tff.learning.algorithms.build_weighted_fed_avg(
    MODELS[model],
    client_optimizer_fn=small_problem.optimizer(),
    server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
    client_weighting=tff.learning.ClientWeighting[weighting.upper()],
    model_aggregator=FACTORIES[factory](**options),
  )


def data(client_id, spoiled=False):
  """Returns a client's data for stock TFF: batches, without the client's id."""
  x, y = small_problem.client_arrays()[client_id]
  if spoiled:
    x = np.full_like(x, np.nan)
  return tf.data.Dataset.from_tensor_slices((x, y)).batch(
    small_problem.BATCH_SIZE
  )


def expected(factory, ids, uniform=False):
  """Returns the model weights after one round, by NumPy in float64."""
  theta = np.concatenate(
    [np.float64(w).ravel() for w in small_problem.initial_weights()]
  )
  clients = [reference.run_client(theta, k) for k in ids]
  if uniform:
    for client in clients:
      client.num_examples = 1
  return theta - getattr(reference, factory)(clients)


def assert_weights(state, wanted):
  np.testing.assert_allclose(
    small_problem.flat_weights(state), wanted, rtol=0, atol=2e-6
  )


@pytest.mark.parametrize(
  ("factory", "model"), [*zip(FACTORIES, reversed(MODELS), strict=True)]
)
def test_a_round_is_that_of_numpy(factory, model):
  process = build(factory, model)
  output = process.next(process.initialize(), [data(k) for k in IDS])
  assert_weights(output.state, expected(factory, IDS))
  assert output.metrics["aggregator"]["num_clients"] == len(IDS)


@pytest.mark.parametrize("factory", one_of_each(FACTORIES))
def test_uniform_client_weighting(factory):
  process = build(factory, weighting="uniform")
  output = process.next(process.initialize(), [data(k) for k in IDS])
  wanted = expected(factory, IDS, uniform=True)
  assert_weights(output.state, wanted)
  assert np.abs(wanted - expected(factory, IDS)).max() > 1e-3


@pytest.mark.parametrize("factory", one_of_each(FACTORIES))
def test_clients_that_stock_weighs_zero_are_left_out(factory):
  # Stock client work replaces a non-finite update by zeros of weight zero. Such
  # a client must not contribute at all, not even to the sum of the weights.
  process = build(factory)
  cohort = [data(IDS[0]), data(31, spoiled=True), *map(data, IDS[1:])]
  output = process.next(process.initialize(), cohort)
  assert_weights(output.state, expected(factory, IDS))
  assert output.metrics["aggregator"]["num_clients"] == len(IDS)
  assert output.metrics["aggregator"]["num_clients_excluded"] == 1


def test_a_cohort_that_stock_weighs_zero_changes_nothing():
  process = build("fedmgda_plus")
  state = process.initialize()
  output = process.next(state, [data(k, spoiled=True) for k in IDS])
  np.testing.assert_array_equal(
    small_problem.flat_weights(output.state), small_problem.flat_weights(state)
  )
  assert output.metrics["aggregator"]["direction_norm"] == 0


def test_two_phase_drops_in_too():
  process = build("fedavg_n", aggregation="two_phase")
  output = process.next(process.initialize(), [data(k) for k in IDS])
  assert_weights(output.state, expected("fedavg_n", IDS))
