"""Zeroing, clipping, trimmed means and medians with every rule."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.aggregators import processes
from tests.cases import one_of_each
from tests.methods.settings import RULE_CLASSES, every_rule, sums_of
from tests.refusals import rejected
from tests.summing import rounds
from tff_fair import aggregators
from tff_fair.summing import defences

NORM = 2.0


SUMMED = [name for name in RULE_CLASSES if "two_phase" in sums_of(name)]
MEDIAN = aggregators.Defence(kind="median")
TRIMMED = aggregators.Defence(kind="trimmed_mean", trimmed_share=0.4)


@pytest.mark.parametrize(
  "name", one_of_each(RULE_CLASSES, lambda name: sums_of(name)[0])
)
def test_tffs_bounds_go_with_every_rule(name):
  clients = processes.clients(5, seed=4)
  clients[1].update *= 3
  clients[2].update *= 1e3
  # In the order of tff.learning.robust_aggregator: zero, clip, sum.
  clipped = tff.aggregators.clipping_factory(NORM, processes.factory(name))
  process = rounds.create(tff.aggregators.zeroing_factory(100.0, clipped))
  found = rounds.run(process, clients)
  assert found.measurements["zeroed_count"] == 1
  assert found.measurements["zeroing"]["clipped_count"] >= 1
  clients[2].update *= 0
  for client in clients:
    norm = float(np.linalg.norm(client.update))
    client.update *= min(1.0, NORM / max(norm, 1e-9))
  expected = rounds.run(processes.process(name), clients)
  np.testing.assert_allclose(
    rounds.flat(found.result),
    rounds.flat(expected.result),
    rtol=1e-3,
    atol=1e-5,
  )


def trimmed(values, share):
  """Returns Yin et al.'s trimmed mean times the number of nonzero rows."""
  values = np.sort(values[np.any(values != 0, axis=1)], axis=0)
  m = len(values)
  if share == 0.5:
    return m * np.median(values, axis=0)
  cut = int(share * m)
  return m * np.mean(values[cut : m - cut], axis=0)


@pytest.mark.parametrize(
  "name", one_of_each(SUMMED, lambda name: sums_of(name)[0])
)
def test_the_median_of_each_coordinate_takes_the_place_of_the_sum(name):
  assert_trimmed(name, MEDIAN, 0.5)


def test_a_trimmed_mean_takes_the_place_of_the_sum():
  assert_trimmed("term", TRIMMED, 0.4)


def assert_trimmed(name, defence, share):
  clients = processes.clients(7, seed=5)
  spoiled = rounds.Client(np.full(9, np.nan), client_id=9)
  process = processes.process(name, None, defence)
  output = rounds.run(process, [spoiled, *clients])
  updates = np.array([rounds.flat(c.structured()) for c in clients])
  scaled = output.measurements["coefficients"][:, np.newaxis] * updates
  np.testing.assert_allclose(
    rounds.flat(output.result),
    trimmed(scaled, share),
    rtol=1e-5,
    atol=1e-6 * np.abs(scaled).max(),
  )
  # An excluded client must not enter the trimmed values, not even as a zero.
  without = rounds.run(process, clients)
  assert output.measurements["num_clients_excluded"] == 1
  tf.nest.map_structure(
    np.testing.assert_array_equal,
    (output.result, output.state),
    (without.result, without.state),
  )


@pytest.mark.parametrize("share", [0.2, 0.4, 0.5])
def test_sums_of_even_and_odd_cohorts_are_trimmed(share):
  draws = np.random.default_rng(6).normal(size=(8, 3))
  for number in range(1, 9):
    found = defences.trimmed_sum(tf.constant(draws[:number]), share)
    np.testing.assert_allclose(found, trimmed(draws[:number], share))


def test_few_outliers_cannot_move_a_median():
  updates = np.random.default_rng(0).normal(1.0, 0.1, size=(9, 9))
  attacked = updates * np.where(np.arange(9) < 3, -1e6, 1)[:, np.newaxis]

  def direction(updates, defence=None):
    clients = [rounds.Client(u, client_id=k) for k, u in enumerate(updates)]
    process = processes.process("term", None, defence)
    return rounds.flat(rounds.run(process, clients).result)

  assert np.min(direction(attacked)) < -1e5
  for defence in (MEDIAN, TRIMMED):
    np.testing.assert_allclose(
      direction(attacked, defence), direction(updates, defence), atol=0.2
    )


@every_rule
def test_a_defence_that_is_a_sum_needs_one(name):
  ways = aggregators.supported_aggregations(RULE_CLASSES[name])
  for way in (None, *ways):
    if way == "two_phase" or (way is None and "two_phase" in ways):
      assert processes.factory(name, way, MEDIAN).aggregation == "two_phase"
      continue
    with rejected("defence", "two_phase"):
      processes.factory(name, way, MEDIAN)


@pytest.mark.parametrize("kind", ["clipping", "zeroing"])
def test_adaptive_bounds_are_reported_beside_the_rest(kind):
  clients = processes.clients(4)
  process = processes.process("term", None, aggregators.Defence(kind=kind))
  plain = rounds.run(processes.process("term"), clients)
  output = rounds.run(process, clients)
  own = set(output.measurements) - set(plain.measurements)
  count = {"clipping": "clipped_count", "zeroing": "zeroed_count"}[kind]
  assert own == {f"{kind}_norm", count}
  again = rounds.run(process, clients, output.state)
  assert (
    again.measurements[f"{kind}_norm"] != output.measurements[f"{kind}_norm"]
  )


def test_a_trimmed_sum_leaves_out_zero_and_non_finite_updates():
  process = aggregators.TrimmedSumFactory(0.25).create(
    tff.TensorType(np.float32, [2])
  )
  output = process.next(process.initialize(), [np.zeros(2, np.float32)] * 3)
  np.testing.assert_array_equal(output.result, [0, 0])
  output = process.next(
    process.initialize(),
    list(np.array([[1, -1], [0, 0], [np.nan, 5]], np.float32)),
  )
  np.testing.assert_array_equal(output.result, [1, -1])


@pytest.mark.parametrize("share", [0, 0.6, np.nan])
def test_shares_out_of_range_are_named(share):
  with rejected("share"):
    aggregators.TrimmedSumFactory(share)


@pytest.mark.parametrize("share", [0, 0.5, np.nan])
def test_defences_are_checked(share):
  with rejected("trimmed_share"):
    aggregators.Defence(kind="trimmed_mean", trimmed_share=share)
  with rejected("defence", "zeroing, clipping", value="krum"):
    aggregators.Defence(kind="krum")
