"""Tests of how rules are applied, with rules that are made for the tests."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.summing import rounds
from tff_fair import aggregators, types


class Recorder(types.SeparableRule):
  """Weighs by accuracy and round; its state counts rounds and sums ids."""

  signals = ("accuracy",)

  def initialize(self):
    return collections.OrderedDict(
      rounds=tf.constant(0, tf.int32), id_sum=tf.constant(0, tf.int64)
    )

  def coefficients(self, cohort, state):
    rounds_now = state["rounds"] + 1
    new_state = collections.OrderedDict(
      rounds=rounds_now,
      id_sum=state["id_sum"] + tf.reduce_sum(cohort.client_id),
    )
    level = tf.cast(rounds_now, tf.float64)
    return types.RuleOutput(
      cohort.accuracy * level,
      new_state,
      collections.OrderedDict(level=level, cohort_size=tf.size(cohort.weight)),
    )

  def log_weight(self, cohort):
    return tf.math.log(cohort.accuracy)


class ByRank(types.Rule):
  """Gives coefficients 1, 2, 3, ... in the order of the cohort."""

  geometry = types.Geometry.GRAM

  def coefficients(self, cohort, state):
    rank = tf.range(1, tf.size(cohort.client_id) + 1)
    # Shows whether Gram matrix and norms are in the same order.
    first = tf.sqrt(cohort.gram[0, 0])
    return types.RuleOutput(
      tf.cast(rank, tf.float64),
      state,
      {
        "first_norm": first,
        "norms_match": tf.reduce_all(
          tf.equal(cohort.squared_norm, tf.linalg.diag_part(cohort.gram))
        ),
      },
    )


WAYS = ("streaming", "two_phase", "stacked")
each_way = pytest.mark.parametrize("way", WAYS)


@functools.cache
def process(rule_class, way, weighting="num_examples"):
  return rounds.create(
    aggregators.RuleFactory(
      rule_class(), aggregation=way, client_weighting=weighting
    )
  )


def rule_state(state, way):
  return state["rule"] if way == "two_phase" else state


@each_way
def test_state_goes_from_round_to_round(way):
  clients = rounds.random_clients(3)
  ids = sum(client.client_id for client in clients)
  mean = sum(client.as_reference().update for client in clients)
  state = None
  for i in (1, 2, 3):
    output = rounds.run(process(Recorder, way), clients, state)
    state = output.state
    assert rule_state(state, way)["rounds"] == i
    assert rule_state(state, way)["id_sum"] == i * ids
    assert output.measurements["level"] == i
    assert output.measurements["cohort_size"] == 3
    # All clients of `rounds` report an accuracy of 0.5.
    rounds.assert_same(output.result, 0.5 * i * mean)


@each_way
def test_a_round_without_clients_leaves_the_state(way):
  clients = rounds.random_clients(3)
  state = rounds.run(process(Recorder, way), clients).state
  excluded = rounds.Client(np.full(9, np.nan))
  for cohort in ([excluded], []):
    output = rounds.run(process(Recorder, way), cohort, state)
    tf.nest.map_structure(np.testing.assert_array_equal, output.state, state)
    assert np.isnan(output.measurements["level"])
    assert np.isnan(output.measurements["coefficient_max"])
    assert output.measurements["cohort_size"] == 0


def test_rules_get_clients_in_ascending_order_of_id():
  clients = rounds.random_clients(6)
  for cohort in (clients, clients[::-1], clients[3:] + clients[:3]):
    output = rounds.run(process(ByRank, "stacked"), cohort)
    in_order = sorted(cohort, key=lambda client: client.client_id)
    updates = [client.as_reference().update for client in in_order]
    rounds.assert_same(output.result, np.arange(1, 7) @ updates)
    assert output.measurements["norms_match"]
    assert output.measurements["first_norm"] == pytest.approx(
      np.linalg.norm(updates[0]), rel=1e-6
    )


def test_ids_of_any_size_are_put_in_order():
  clients = rounds.random_clients(4)
  # As floats, the two large ids would be equal.
  for client, client_id in zip(clients, (2**62 + 1, -5, 2**62, 0), strict=True):
    client.client_id = client_id
  output = rounds.run(process(ByRank, "stacked"), clients)
  updates = [client.as_reference().update for client in clients]
  rounds.assert_same(output.result, np.array([4, 1, 3, 2]) @ updates)


def test_measurements_of_a_rule_come_after_those_of_all():
  output = rounds.run(process(Recorder, "stacked"), rounds.random_clients(2))
  names = list(output.measurements)
  assert names[:2] == ["num_clients", "num_clients_excluded"]
  assert names[-2:] == ["level", "cohort_size"]
