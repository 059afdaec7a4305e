"""Tests of two-phase sums: as one computation, and as one per phase."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.summing import rounds
from tff_fair import aggregators
from tff_fair.methods import afl, gifair
from tff_fair.summing import client_scalars, rule_application, two_phase

run = rounds.run_flat


def create(sum_factory):
  return rounds.create(
    aggregators.TermFactory(t=0.7, sum_factory=sum_factory), rounds.FLAT_TYPE
  )


def expected(clients):
  return rounds.expected("term", clients, t=0.7)


def scaled_updates(clients):
  """Returns c_k Delta_k, the updates that the inner factory gets."""
  n = np.array([client.num_examples for client in clients])
  tilted = n * np.exp(0.7 * np.array([client.loss for client in clients]))
  updates = np.stack([client.as_reference().update for client in clients])
  return (tilted / tilted.sum())[:, np.newaxis] * updates


def with_bad_clients(clients):
  bad = np.full(9, np.nan)
  return [rounds.Client(bad), *clients, rounds.Client(bad, num_examples=0)]


@pytest.mark.usefixtures("secure_sums")
def test_secure_sum():
  process = create(tff.aggregators.SecureSumFactory(8.0, -8.0))
  clients = rounds.random_clients(5)
  output = run(process, with_bad_clients(clients))
  rounds.assert_same(output.result, expected(clients), 1e-5)
  assert output.measurements["num_clients"] == 5
  assert output.measurements["num_clients_excluded"] == 2
  # Updates of excluded clients enter the sum as zeros.
  assert output.measurements["sum"]["secure_upper_clipped_count"] == 0


def test_clipping_inside_clips_the_scaled_updates():
  process = create(
    tff.aggregators.clipping_factory(0.2, tff.aggregators.SumFactory())
  )
  clients = rounds.random_clients(5)
  output = run(process, with_bad_clients(clients))
  scaled = scaled_updates(clients)
  norms = np.linalg.norm(scaled, axis=1, keepdims=True)
  assert (norms > 0.2).any()
  assert (norms < 0.2).any()
  clipped = scaled * np.minimum(1, 0.2 / norms)
  rounds.assert_same(output.result, clipped.sum(axis=0), 1e-5)
  assert output.measurements["sum"]["clipped_count"] == (norms > 0.2).sum()
  assert output.measurements["direction_norm"] == pytest.approx(
    np.linalg.norm(clipped.sum(axis=0)), rel=1e-5
  )


def test_state_of_the_inner_factory_is_kept():
  norm = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
    initial_estimate=1.0, target_quantile=0.5, learning_rate=1.0
  )
  process = create(
    tff.aggregators.clipping_factory(norm, tff.aggregators.SumFactory())
  )
  clients = rounds.random_clients(5)
  state, used = process.initialize(), []
  for _ in range(3):
    output = run(process, clients, state)
    state = output.state
    used.append(float(output.measurements["sum"]["clipping_norm"]))
  # The clipping norm adapts to the scaled updates in each round.
  assert used[0] == 1.0
  assert len(set(used)) == 3
  assert set(state) == {"rule", "sum"}


def rows_of(client_ids, columns, num_excluded=0):
  return client_scalars.ScalarRows(
    tf.constant(client_ids, tf.int64),
    tf.constant(columns, tf.float64),
    tf.constant(num_excluded),
  )


COHORT = rows_of([7, 3, 3], [[1.0, 2.0], [1.0, 2.0], [5.0, 6.0]])


@pytest.mark.parametrize(
  ("client_id", "columns", "coefficient"),
  [(7, [1.0, 2.0], 0.5), (3, [1.0, 2.0], -2.0), (3, [5.0, 6.0], 4.0)],
)
def test_a_client_finds_its_coefficient_by_its_row(
  client_id, columns, coefficient
):
  update = (tf.constant([1.0, 3.0]), tf.constant(2.0, tf.float16))
  scaled = two_phase.scale_update(
    update,
    rows_of([client_id], [columns]),
    COHORT,
    tf.constant([0.5, -2.0, 4.0], tf.float64),
  )
  for layer, before in zip(scaled, update, strict=True):
    assert layer.dtype == before.dtype
    np.testing.assert_array_equal(layer, before * coefficient)


def test_the_update_of_a_client_that_was_left_out_is_zero():
  (scaled,) = two_phase.scale_update(
    (tf.constant([np.nan, 1.0]),),
    rows_of(np.zeros([0]), np.zeros([0, 2]), num_excluded=1),
    COHORT,
    tf.constant([0.5, -2.0, 4.0], tf.float64),
  )
  np.testing.assert_array_equal(scaled, [0.0, 0.0])


UPDATE = (tf.constant([1.0, -2.0]),)


def reader_of(rule):
  return client_scalars.ScalarReader.create(
    rule, "num_examples", rounds.SIGNALS_TYPE, updates_checked=True
  )


def rows_by_id(reader, losses):
  """Returns rows of clients with the given losses by id."""
  rows = reader.empty()
  for client_id, loss in losses.items():
    client = rounds.Client(np.zeros(9), loss=loss, client_id=client_id)
    signals = client.signals()
    rows = client_scalars.concat_rows(rows, reader.read((), signals))
  return rows


def chosen_of(reader, rows, state):
  output = rule_application.apply_rule(reader, rows, state)
  return collections.OrderedDict(rows=rows, coefficients=output.coefficients)


def test_coefficients_are_found_by_id_in_any_order():
  reader = reader_of(gifair.GiFairRule())
  chosen = collections.OrderedDict(
    rows=rows_by_id(reader, {9: 1.0, 2: 2.0, 2**40: 3.0}),
    coefficients=tf.constant([0.1, 0.2, 0.7], tf.float64),
  )
  ids = tf.constant([2**40, 9, 2, 9], tf.int64)
  found = two_phase.coefficients_of(ids, chosen)
  assert found.numpy().tolist() == [0.7, 0.1, 0.2, 0.1]
  assert two_phase.coefficients_of(ids[:0], chosen).shape == (0,)


def test_signals_come_back_as_they_were_read():
  reader = reader_of(gifair.GiFairRule())
  loss = np.float32(0.1)
  signals = reader.signals(rows_by_id(reader, {4: loss, 3: np.nan, 1: 2.0}))
  assert signals.client_id.numpy().tolist() == [4, 1]
  assert signals.loss.numpy().tolist() == [loss, 2.0]
  assert signals.learning_rate.dtype == tf.float32


@pytest.mark.parametrize("losses", [{1: 3.0, 2: 1.0}, {1: 3.0}, {}])
def test_a_lost_client_has_an_effect_only_on_coefficients(losses):
  reader = reader_of(afl.AflRule(num_clients=5, lambda_learning_rate=0.5))
  start = reader.rule.initialize()
  chosen = chosen_of(
    reader, rows_by_id(reader, {4: 9.0, 2: 1.0, 1: 3.0}), start
  )
  rows = rows_by_id(reader, losses)

  @tf.function(autograph=False)
  def finish():
    return two_phase.finish_second_phase(
      reader, start, rows, chosen, UPDATE, ()
    )

  state, result, measurements = finish()
  without = start
  if losses:
    without = rule_application.apply_rule(reader, rows, start).state
  np.testing.assert_array_equal(state, without)
  assert result.num_clients == len(losses)
  assert measurements["client_ids"].numpy().tolist() == sorted(losses)
  np.testing.assert_allclose(
    measurements["coefficients"], [1 / 3] * len(rows[0])
  )
  np.testing.assert_equal(
    measurements["loss_max"].numpy(), max(losses.values(), default=np.nan)
  )
  assert "sum" not in measurements
