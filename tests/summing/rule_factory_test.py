"""Tests of the results of aggregation processes of all kinds, against NumPy."""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import hulls
from tests.refusals import rejected
from tests.summing import rounds
from tff_fair import aggregators

# Rules of each kind: one of scalars only, one with norms, one with a covariate,
# one that is not separable, and three with the Gram matrix.
HPARAMS: dict[str, dict[str, Any]] = {
  "term": {"t": 0.7},
  "fedavg_n": {},
  "vred": {"beta": 0.3},
  "semi_vred": {"beta": 1},
  "adafed": {},
  "fedmgda_plus": {"epsilon": 0.2},
  # FedMGDA's direction is the point of least norm itself.
  "fedmgda": {"epsilon": 1.0, "normalize": False},
}
WAYS = [
  *[
    (name, way)
    for name in ("term", "fedavg_n", "vred")
    for way in ("streaming", "two_phase", "stacked")
  ],
  ("semi_vred", "two_phase"),
  ("semi_vred", "stacked"),
  ("fedmgda_plus", "stacked"),
  ("adafed", "stacked"),
]
every_way = pytest.mark.parametrize(("name", "way"), WAYS)


@functools.cache
def process(name, way, *, certificate=False):
  return rounds.create(
    rounds.factory_of(
      name, HPARAMS[name], aggregation=way, certificate=certificate
    )
  )


def expected(name, clients):
  return rounds.expected(name, clients, **HPARAMS[name])


def certificate(updates, direction):
  """Returns the certificate's measurements for updates and a direction."""
  least = np.linalg.norm(hulls.least_norm(updates) @ updates)
  return {
    "directional_derivative_min": (updates @ direction).min(),
    "share_descending": (updates @ direction > 0).mean(),
    "pareto_stationarity": least / np.linalg.norm(updates, axis=1).mean(),
  }


@pytest.mark.parametrize("name", ["term", "fedavg_n", "semi_vred", "fedmgda"])
@pytest.mark.parametrize("m", [1, 4, 12])
def test_every_rule_can_report_its_certificate(name, m):
  clients = rounds.random_clients(m, seed=m)
  output = rounds.run(process(name, "stacked", certificate=True), clients)
  # The certificate does not change results.
  without = rounds.run(process(name, "stacked"), clients)
  np.testing.assert_array_equal(
    rounds.flat(output.result), rounds.flat(without.result)
  )
  clients.sort(key=lambda client: client.client_id)
  updates = np.stack([client.as_reference().update for client in clients])
  reported = output.measurements
  for key, value in certificate(updates, rounds.flat(output.result)).items():
    assert reported[key] == pytest.approx(value, rel=1e-5, abs=1e-6), key
  # With more clients than values, 0 is in the hull: clients block each other.
  weights = reported["blocking_weights"]
  assert weights.sum() == pytest.approx(1, abs=1e-6)
  least = np.linalg.norm(weights @ updates)
  mean = np.linalg.norm(updates, axis=1).mean()
  assert least / mean == pytest.approx(
    reported["pareto_stationarity"], abs=1e-6
  )


@pytest.mark.parametrize(
  "options",
  [
    {"aggregation": "streaming"},
    {"aggregation": "two_phase"},
    {"sum_factory": tff.aggregators.SumFactory()},
  ],
)
def test_a_certificate_needs_all_updates_at_the_server(options):
  with rejected("certificate"):
    aggregators.FedAvgFactory(certificate=True, **options)


@every_way
def test_direction_and_measurements_are_those_of_numpy(name, way):
  clients = rounds.random_clients(4)
  bad = rounds.Client(np.where(np.arange(9) == 7, np.nan, 1), client_id=3)
  output = rounds.run(process(name, way), [clients[0], bad, *clients[1:]])
  reported = output.measurements
  direction = expected(name, clients)
  # The reference solves FedMGDA+'s program to about 1e-8.
  rounds.assert_same(output.result, direction)
  # Structure and dtypes are those of the updates.
  tf.nest.map_structure(
    lambda x, y: np.testing.assert_equal(np.asarray(x).dtype, y.dtype),
    output.result,
    clients[0].structured(),
  )
  losses = [client.loss for client in clients]
  known = [client.as_reference() for client in clients]
  updates = np.stack([client.update for client in known])
  # 9 values and 4 clients: the direction determines the coefficients.
  c = np.linalg.lstsq(updates.T, direction, rcond=None)[0]
  values = {
    "num_clients": 4,
    "num_clients_excluded": 1,
    "direction_norm": np.linalg.norm(direction),
    "coefficient_min": c.min(),
    "coefficient_max": c.max(),
    "coefficients_negative": (c < 0).sum(),
    "loss_mean": np.mean(losses),
    "loss_std": np.std(losses),
    "loss_min": min(losses),
    "loss_max": max(losses),
  }
  if name in ("fedmgda_plus", "adafed"):
    values.update(certificate(updates, direction))
  else:
    assert "pareto_stationarity" not in reported
    assert "directional_derivative_min" not in reported
  for key, value in values.items():
    assert reported[key] == pytest.approx(value, rel=1e-4, abs=1e-5), key
  ids = np.array([client.client_id for client in clients])
  order = np.argsort(ids)
  np.testing.assert_array_equal(reported["client_ids"], ids[order])
  np.testing.assert_allclose(
    reported["coefficients"], c[order], rtol=1e-4, atol=1e-5
  )
  np.testing.assert_allclose(
    reported["client_losses"], np.asarray(losses)[order], rtol=1e-6
  )


@every_way
def test_clients_may_share_all_signals(name, way):
  clients = [
    rounds.Client(client.update, loss=0.5, num_examples=3, client_id=7)
    for client in rounds.random_clients(3)
  ]
  output = rounds.run(process(name, way), clients)
  rounds.assert_same(output.result, expected(name, clients))


@every_way
def test_one_huge_update(name, way):
  clients = rounds.random_clients(3)
  clients[1].update = clients[1].update * 1e30
  output = rounds.run(process(name, way), clients)
  assert np.all(np.isfinite(rounds.flat(output.result)))
  # In AdaFed, rounding hides the other updates; see AdaFed's own tests.
  if name != "adafed":
    rounds.assert_same(output.result, expected(name, clients), 1e-5)


@pytest.mark.parametrize("way", ["streaming", "two_phase", "stacked"])
def test_updates_beyond_each_others_range_of_float32(way):
  # Only the direction of each update counts.
  clients = [rounds.Client(np.zeros(9)) for _ in range(2)]
  clients[0].update[0] = 1e-10
  clients[1].update[1] = 1e35
  output = rounds.run(process("fedavg_n", way), clients)
  np.testing.assert_allclose(
    rounds.flat(output.result)[:3], [0.5, 0.5, 0], rtol=1e-5
  )


@pytest.mark.parametrize(("t", "chosen"), [(1e4, np.argmax), (-1e4, np.argmin)])
def test_extreme_tilts_do_not_overflow_as_updates_arrive(t, chosen):
  clients = rounds.random_clients(4)
  factory = aggregators.TermFactory(t=t, aggregation="streaming")
  output = rounds.run(rounds.create(factory), clients)
  followed = clients[chosen([client.loss for client in clients])]
  rounds.assert_same(output.result, followed.as_reference().update)


@pytest.mark.parametrize(
  ("way", "weight_dtype"),
  [
    ("streaming", np.float32),
    ("streaming", np.int32),
    ("two_phase", np.int64),
    ("stacked", np.float32),
  ],
)
def test_scalar_weights_are_numbers_of_examples(way, weight_dtype):
  aggregation = aggregators.FedAvgNFactory(aggregation=way).create(
    rounds.UPDATE_TYPE, tff.TensorType(weight_dtype)
  )
  clients = rounds.random_clients(4)
  clients[2].num_examples = 0
  output = aggregation.next(
    aggregation.initialize(),
    [client.structured() for client in clients],
    [weight_dtype(client.num_examples) for client in clients],
  )
  counted = [client for client in clients if client.num_examples]
  rounds.assert_same(output.result, expected("fedavg_n", counted))
  assert output.measurements["num_clients_excluded"] == 1
  assert "loss_mean" not in output.measurements


@pytest.mark.parametrize("way", ["streaming", "two_phase"])
def test_uniform_weighting(way):
  clients = rounds.random_clients(4)
  factory = aggregators.TermFactory(
    t=0.7, aggregation=way, client_weighting="uniform"
  )
  output = rounds.run(rounds.create(factory), clients)
  alike = [rounds.Client(client.update, client.loss) for client in clients]
  rounds.assert_same(output.result, expected("term", alike))


def test_seventy_clients_pass_all_levels_of_the_stack():
  clients = rounds.random_clients(70)
  output = rounds.run(process("vred", "stacked"), clients)
  rounds.assert_same(output.result, expected("vred", clients))
  assert output.measurements["num_clients"] == 70


@pytest.mark.parametrize(
  ("way", "options"),
  [
    ("streaming", {}),
    ("two_phase", {}),
    ("stacked", {}),
    # Exact sums replace secure ones; no loss below exceeds the cap.
    (
      "secure",
      {"sum_factory": tff.aggregators.SumFactory(), "loss_cap": 10.0},
    ),
  ],
)
def test_weights_by_hand(way, options):
  clients = rounds.random_clients(4)
  given = {client.client_id: 1.5 + k for k, client in enumerate(clients)}
  factory = aggregators.TermFactory(
    t=0.7, aggregation=way, client_weighting=given, **options
  )
  process = rounds.create(factory)
  output = rounds.run(process, clients)
  weighted = [
    dataclasses.replace(client, num_examples=given[client.client_id])
    for client in clients
  ]
  rounds.assert_same(output.result, expected("term", weighted))
  stranger = dataclasses.replace(clients[0], client_id=99)
  with pytest.raises(Exception, match=r"no number.*99"):
    rounds.run(process, [*clients, stranger])


def test_weights_by_hand_need_the_ids_of_clients():
  factory = aggregators.FedAvgNFactory(client_weighting=[1.0, 2.0])
  with pytest.raises(TypeError, match="no id"):
    factory.create(rounds.UPDATE_TYPE, tff.TensorType(np.float32))
