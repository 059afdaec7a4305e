"""Aggregation processes of every rule, each built once."""

import functools

import tensorflow_federated as tff

from tests.methods.settings import rules_of
from tests.summing import rounds
from tff_fair import aggregators


def factory(name, aggregation=None, defence=None) -> aggregators.RuleFactory:
  return aggregators.RuleFactory(
    rules_of(name)[0], aggregation=aggregation, defence=defence
  )


@functools.cache
def process(
  name, aggregation=None, defence=None
) -> tff.templates.AggregationProcess:
  return rounds.create(factory(name, aggregation, defence))


def clients(m, seed=0) -> list[rounds.Client]:
  """Returns random clients with the ids 0 ... m - 1, which AFL's rule knows."""
  some = rounds.random_clients(m, seed)
  for client_id, client in enumerate(some):
    client.client_id = client_id
  return some
