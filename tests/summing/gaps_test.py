"""Tests of rules on loss gaps, in all aggregations, against NumPy."""

import dataclasses

import numpy as np
import pytest

from tests.refusals import rejected
from tests.summing import rounds
from tff_fair import aggregators

# A rule of each kind, in each aggregation.
CASES: list[tuple[str, str, dict[str, float]]] = [
  ("term", "streaming", {"t": 0.7}),
  ("vred", "streaming", {"beta": 0.3}),
  ("semi_vred", "two_phase", {}),
  ("gifair", "two_phase", {}),
  ("delta_fl", "stacked", {}),
]


def reference_losses(clients):
  """Returns losses of local baselines; some exceed those in the federation."""
  generator = np.random.default_rng(1)
  return {c.client_id: float(generator.lognormal()) for c in clients}


def expected(name, clients, table, **hparams):
  shifted = [
    dataclasses.replace(client, loss=client.loss - table[client.client_id])
    for client in clients
  ]
  assert min(client.loss for client in shifted) < 0
  return rounds.expected(name, shifted, **hparams)


@pytest.mark.parametrize(("name", "way", "hparams"), CASES)
def test_directions_are_those_of_gaps(name, way, hparams):
  clients = rounds.random_clients(6)
  table = reference_losses(clients)
  factory = rounds.factory_of(
    name, hparams, aggregation=way, loss_reference={**table, 1000: 5.0}
  )
  output = rounds.run(rounds.create(factory), clients)
  rounds.assert_same(output.result, expected(name, clients, table, **hparams))
  gaps = [client.loss - table[client.client_id] for client in clients]
  assert output.measurements["loss_mean"] == pytest.approx(np.mean(gaps))


def test_afl_ascends_by_gaps():
  clients = rounds.random_clients(3)
  for place, client in enumerate(clients):
    client.client_id = place
  table = reference_losses(clients)
  process = rounds.create(
    aggregators.AflFactory(num_clients=3, loss_reference=table)
  )
  memory: dict[str, np.ndarray] = {}
  state = None
  for _ in range(2):
    output = rounds.run(process, clients, state)
    state = output.state
    rounds.assert_same(
      output.result,
      expected("afl", clients, table, memory=memory, num_clients=3),
    )


def test_a_client_without_a_reference_ends_the_round():
  clients = rounds.random_clients(2)
  process = rounds.create(aggregators.VRedFactory(loss_reference={-1: 0.0}))
  with pytest.raises(Exception, match="loss_reference"):
    rounds.run(process, clients)


@pytest.mark.parametrize(
  "factory", [aggregators.QFedAvgFactory, aggregators.FedAvgFactory]
)
def test_rules_that_need_losses_above_0_refuse(factory):
  with rejected("loss_reference"):
    factory(loss_reference={0: 1.0})


@pytest.mark.parametrize("given", [{}, {0: np.nan}, {0: "a"}])
def test_references_that_cannot_be_used(given):
  with rejected("loss_reference"):
    aggregators.VRedFactory(loss_reference=given)
