"""Tests of the end of a sum in two phases."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tests.summing import rounds
from tff_fair.methods import afl, gifair
from tff_fair.summing import rule_application, scalars, two_phase

UPDATE = (tf.constant([1.0, -2.0]),)


def reader_of(rule):
  return scalars.ScalarReader.create(
    rule, "num_examples", rounds.SIGNALS_TYPE, updates_checked=True
  )


def rows_of(reader, losses):
  """Rows of clients by their ids."""
  rows = reader.empty()
  for client_id, loss in losses.items():
    client = rounds.Client(np.zeros(9), loss=loss, client_id=client_id)
    signals = client.signals()
    rows = scalars.concat_rows(rows, reader.read((), signals))
  return rows


def chosen_of(reader, rows, state):
  output = rule_application.apply_rule(reader, rows, state)
  return collections.OrderedDict(rows=rows, coefficients=output.coefficients)


def test_coefficients_are_found_by_id_in_any_order():
  reader = reader_of(gifair.GiFairRule())
  chosen = collections.OrderedDict(
    rows=rows_of(reader, {9: 1.0, 2: 2.0, 2**40: 3.0}),
    coefficients=tf.constant([0.1, 0.2, 0.7], tf.float64),
  )
  ids = tf.constant([2**40, 9, 2, 9], tf.int64)
  found = two_phase.coefficients_of(ids, chosen)
  assert found.numpy().tolist() == [0.7, 0.1, 0.2, 0.1]
  assert two_phase.coefficients_of(ids[:0], chosen).shape == (0,)


def test_signals_come_back_as_they_were_read():
  reader = reader_of(gifair.GiFairRule())
  loss = np.float32(0.1)
  signals = reader.signals(rows_of(reader, {4: loss, 3: np.nan, 1: 2.0}))
  assert signals.client_id.numpy().tolist() == [4, 1]
  assert signals.loss.numpy().tolist() == [loss, 2.0]
  assert signals.learning_rate.dtype == tf.float32


@pytest.mark.parametrize("losses", [{1: 3.0, 2: 1.0}, {1: 3.0}, {}])
def test_who_is_lost_leaves_no_trace_but_in_the_coefficients(losses):
  reader = reader_of(afl.AflRule(num_clients=5, lambda_learning_rate=0.5))
  start = reader.rule.initialize()
  chosen = chosen_of(reader, rows_of(reader, {4: 9.0, 2: 1.0, 1: 3.0}), start)
  rows = rows_of(reader, losses)

  @tf.function(autograph=False)
  def finish():
    return two_phase.finish_chosen(reader, start, rows, chosen, UPDATE, ())

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
