"""Tests of every rule with clients whose signals are nonsense."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.aggregators import processes
from tests.cases import Cases, one_of_each
from tests.methods.settings import RULE_CLASSES, sums_of
from tests.summing import rounds

HOSTILE = {
  "negative": -1.0,
  "zero": 0.0,
  "NaN": np.nan,
  "inf": np.inf,
}
HUGE = 3e38


def reporting(client, **signals):
  """Returns a client's update and its signals, with `signals` replaced."""
  reported = {name: np.float32(value) for name, value in signals.items()}
  return client.structured(), client.signals()._replace(**reported)


def a_round(process, reports):
  updates, signals = zip(*reports, strict=True)
  return process.next(process.initialize(), list(updates), list(signals))


def assert_finite(output):
  assert np.all(np.isfinite(rounds.flat(output.result)))
  assert all(np.all(np.isfinite(x)) for x in tf.nest.flatten(output.state))


# Which clients a factory excludes depends on the signals that its rule uses;
# `methods/rule_contract_test.py` tests hard cohorts of each rule.
@pytest.mark.parametrize(
  "name",
  one_of_each(
    RULE_CLASSES, lambda name: (RULE_CLASSES[name].signals, sums_of(name)[0])
  ),
)
def test_a_round_is_finite_or_that_without_the_client(name):
  signals = ("num_examples", *RULE_CLASSES[name].signals)
  kinds = list(itertools.product(signals, HOSTILE))
  everybody = processes.clients(min(10, 3 + len(kinds)), seed=3)
  honest = [reporting(client) for client in everybody[:3]]
  process = processes.process(name)
  with Cases() as cases:
    for start in range(0, len(kinds), 7):  # 3 of AFL's 10 clients are honest.
      some = kinds[start : start + 7]
      hostile = [
        reporting(client, **{signal: HOSTILE[kind]})
        for client, (signal, kind) in zip(everybody[3:], some, strict=False)
      ]
      with cases.case(some):
        output = a_round(process, [*honest, *hostile])
        assert_finite(output)
        counted = set(output.measurements["client_ids"].tolist())
        without = a_round(
          process,
          [r for r in [*honest, *hostile] if r[1].client_id in counted],
        )
        assert {0, 1, 2} <= counted
        tf.nest.map_structure(
          np.testing.assert_array_equal,
          (output.result, output.state),
          (without.result, without.state),
        )
    for signal in signals:
      with cases.case(signal, HUGE):
        huge = reporting(everybody[3], **{signal: HUGE})
        assert_finite(a_round(process, [*honest, huge]))


@pytest.mark.parametrize(
  ("name", "signal"),
  [
    ("fednova", "effective_steps"),
    ("qfedavg", "learning_rate"),
    ("adafedadam", "gradient_norm"),
  ],
)
def test_a_client_with_a_negative_signal_is_left_out(name, signal):
  clients = processes.clients(3)
  reports = [
    reporting(clients[0], **{signal: -0.5}),
    *map(reporting, clients[1:]),
  ]
  output = a_round(processes.process(name), reports)
  assert output.measurements["num_clients_excluded"] == 1
  assert output.measurements["client_ids"].tolist() == [1, 2]


def test_no_step_is_taken_where_the_sum_is_not_finite():
  client = processes.clients(1)[0]
  far = reporting(client, effective_steps=1.0)
  far = (tf.nest.map_structure(lambda x: np.full_like(x, 3e38), far[0]), far[1])
  near = reporting(processes.clients(2)[1], effective_steps=3e38)
  output = a_round(processes.process("fednova"), [far, near])
  assert np.isinf(output.measurements["direction_norm"])
  np.testing.assert_array_equal(rounds.flat(output.result), 0)
