"""Secure sums give the same direction, and reveal no single client."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.refusals import rejected
from tests.summing import rounds
from tff_fair import aggregators

# One rule of scalars only, one with norms, and one with a covariate.
HPARAMS: dict[str, dict[str, float]] = {
  "term": {"t": 3.0, "loss_cap": 2.0},
  "fedavg_n": {},
  "vred": {"beta": 0.3},
}
every_rule = pytest.mark.parametrize("name", HPARAMS)


@functools.cache
def process(name):
  return rounds.create(
    rounds.factory_of(name, HPARAMS[name], aggregation="secure")
  )


def expected(name, clients):
  return rounds.expected(name, clients, **HPARAMS[name])


@pytest.mark.usefixtures("secure_sums")
@every_rule
def test_integers_of_32_bits_give_the_direction(name):
  clients = rounds.random_clients(5)
  bad = rounds.Client(np.full(9, np.nan), client_id=3)
  # A client beyond the bound: clipped, it would change the direction.
  huge = rounds.Client(np.full(9, 1e9), loss=2.0, client_id=4)
  if name == "fedavg_n":  # Updates get norm 1, so make the weight huge.
    huge.num_examples = 10**7
  output = rounds.run(process(name), [bad, *clients, huge])
  # A client adds at most about 24, with errors of 1024 / 2^32.
  rounds.assert_same(output.result, expected(name, clients), 1e-5)
  assert output.measurements["num_clients"] == 5
  assert output.measurements["num_clients_excluded"] == 1
  assert output.measurements["num_clients_out_of_bounds"] == 1
  if name == "vred":
    sizes = [client.num_examples for client in clients]
    variance = np.cov([c.loss for c in clients], fweights=sizes, ddof=0)
    assert output.measurements["loss_variance"] == pytest.approx(variance)
  # No measurement is of a single client.
  for value in tf.nest.flatten(output.measurements):
    assert np.shape(value) == ()
  assert "client_ids" not in output.measurements
  # Structure and dtypes are those of the updates.
  tf.nest.map_structure(
    lambda x, y: np.testing.assert_equal(np.asarray(x).dtype, y.dtype),
    output.result,
    clients[0].structured(),
  )


@pytest.mark.usefixtures("secure_sums")
def test_a_bound_of_ones_own():
  clients = rounds.random_clients(3)
  largest = [np.abs(c.num_examples * c.update).max() for c in clients]
  factory = aggregators.FedAvgFactory(
    aggregation="secure", secure_bound=float(sorted(largest)[1] * 1.001)
  )
  output = rounds.run(rounds.create(factory), clients)
  kept = [c for k, c in enumerate(clients) if k != np.argmax(largest)]
  rounds.assert_same(output.result, rounds.expected("fedavg", kept), 1e-5)
  assert output.measurements["num_clients_out_of_bounds"] == 1


@pytest.mark.usefixtures("secure_sums")
def test_numbers_of_clients_are_exact():
  clients = rounds.random_clients(3) * 8
  bad = [rounds.Client(np.full(9, np.inf))] * 7
  measured = rounds.run(process("term"), clients + bad).measurements
  assert measured["num_clients"] == 24
  assert measured["num_clients_excluded"] == 7


@functools.cache
def exact_term():
  exact = {"aggregation": "secure", "sum_factory": tff.aggregators.SumFactory()}
  return rounds.create(rounds.factory_of("term", HPARAMS["term"], **exact))


def test_another_sum_in_its_place_keeps_its_state():
  norm = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
    initial_estimate=1e3, target_quantile=0.5, learning_rate=1.0
  )
  clipped = tff.aggregators.clipping_factory(norm, tff.aggregators.SumFactory())
  factory = aggregators.FedAvgFactory(aggregation="secure", sum_factory=clipped)
  clipping = rounds.create(factory)
  clients = rounds.random_clients(4)
  first = rounds.run(clipping, clients)
  second = rounds.run(clipping, clients, first.state)
  assert first.measurements["sum"]["clipping_norm"] == 1e3
  assert second.measurements["sum"]["clipping_norm"] != 1e3


def test_terms_beyond_floats_do_not_count():
  clients = rounds.random_clients(3)
  huge = rounds.Client(np.full(9, 3e38), num_examples=10**9, client_id=77)
  output = rounds.run(exact_term(), [*clients, huge])
  rounds.assert_same(output.result, expected("term", clients), 1e-6)
  assert output.measurements["num_clients_out_of_bounds"] == 1


def test_a_loss_above_the_cap_counts_as_it():
  clients = rounds.random_clients(3)
  clients[1].loss = 11.5
  output = rounds.run(exact_term(), clients)
  rounds.assert_same(output.result, expected("term", clients), 1e-6)


@pytest.mark.parametrize(
  ("factory", "options", "option"),
  [
    (aggregators.TermFactory, {}, "loss_cap"),
    (aggregators.FedFaFactory, {}, "aggregation"),
    (aggregators.AdaFedFactory, {}, "aggregation"),
    (aggregators.FedAvgFactory, {"secure_bound": 0.0}, "secure_bound"),
    (
      aggregators.FedAvgFactory,
      {"defence": aggregators.Defence(kind="clipping")},
      "defence",
    ),
    (
      aggregators.FedAvgFactory,
      {"defence": aggregators.Defence(kind="median")},
      "defence",
    ),
    (
      aggregators.FedAvgFactory,
      {"sum_factory": tff.aggregators.UnweightedMeanFactory()},
      "sum_factory",
    ),
  ],
)
def test_what_does_not_go_with_it_is_said_in_one_line(factory, options, option):
  with rejected(option):
    factory(aggregation="secure", **options)
