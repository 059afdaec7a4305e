"""Tests of the values that a round records on tape, without runs."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.refusals import rejected
from tests.summing import rounds
from tff_fair import aggregators
from tff_fair.summing import tape

FEDFV = {"alpha": 0.3, "tau": 1}


def taped(output):
  return {
    name.removeprefix(tape.PREFIX): np.asarray(value)
    for name, value in output.measurements.items()
    if name.startswith(tape.PREFIX)
  }


def run(factory, rounds_of_clients):
  process = rounds.create(factory)
  state = process.initialize()
  for clients in rounds_of_clients:
    output = rounds.run(process, clients, state)
    state = output.state
    yield output


def test_a_tape_has_the_cohort_in_the_order_of_ids():
  clients = rounds.random_clients(4)
  (output,) = run(aggregators.TermFactory(t=0.7, tape="updates"), [clients])
  found = taped(output)
  clients.sort(key=lambda client: client.client_id)
  assert found["client_id"].tolist() == [c.client_id for c in clients]
  updates = np.stack([c.as_reference().update for c in clients])
  np.testing.assert_array_equal(found["updates"], updates)
  np.testing.assert_allclose(found["gram"], updates @ updates.T, 1e-9)
  np.testing.assert_allclose(
    found["direction"], rounds.flat(output.result), rtol=1e-6
  )
  assert found["weight"].sum() == pytest.approx(1, abs=1e-12)
  assert found["coefficients"].dtype == found["gram"].dtype == np.float64
  # The tape does not change results.
  (without,) = run(aggregators.TermFactory(t=0.7, certificate=True), [clients])
  assert {
    n for n in output.measurements if not n.startswith(tape.PREFIX)
  } == set(without.measurements)


def test_a_rule_remembers_in_a_replay_as_in_its_rounds():
  # Clients in the order of their ids, as in runs.
  first, second, third = (
    sorted(rounds.random_clients(3, seed=s), key=lambda c: c.client_id)
    for s in range(3)
  )
  without_number = [rounds.Client(np.full(9, np.nan))]
  factory = aggregators.FedFvFactory(tape="updates", **FEDFV)
  outputs = [*run(factory, [first, second, without_number, third])]
  for without_gram in (False, True):
    replay = tape.Replay(factory.rule)
    assert replay.needs_updates
    for output in outputs:
      found = taped(output)
      if without_gram:
        # Like the tape of a rule that remembers nothing.
        found.pop("remembered_id")
        found["gram"] = tape.gram_of_cohort(found)
      replayed = replay.next(found)
      if not found["client_id"].size:
        assert replayed is None
        continue
      m = found["client_id"].size
      np.testing.assert_allclose(
        replayed.coefficients,
        found["coefficients"][:m],
        rtol=1e-7 if without_gram else 0,
      )
      np.testing.assert_allclose(replayed.slopes, found["slopes"], 1e-6)
      assert replayed.angle < 0.1


def test_a_step_of_zero_has_no_angle():
  factory = aggregators.FedAvgFactory(tape=True)
  (output,) = run(factory, [rounds.random_clients(2)])
  found = taped(output)
  zero = {**found, "gram": 0 * found["gram"]}
  replayed = tape.Replay(factory.rule).next(zero)
  assert replayed is not None
  assert np.isnan(replayed.angle)


@pytest.mark.parametrize(
  ("options", "field"),
  [
    ({"tape": "all"}, "tape"),
    ({"tape": True, "aggregation": "two_phase"}, "tape"),
    ({"tape": True, "sum_factory": tff.aggregators.SumFactory()}, "tape"),
  ],
)
def test_what_cannot_be_taped_is_refused(options, field):
  with rejected(field):
    aggregators.FedAvgFactory(**options)
