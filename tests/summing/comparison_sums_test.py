"""Tests of secure sums by which clients compare themselves, against NumPy."""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.cases import one_of_each
from tests.refusals import rejected
from tests.summing import rounds
from tff_fair import aggregators, runtime, summing, types
from tff_fair.runtime import admission

UNIFORM = {"client_weighting": "uniform"}
# Maps a rule to its hyperparameters and to the options of its factory.
RULES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
  "semi_vred": ({"beta": 0.3}, {"secure_bound": 256.0}),
  "delta_fl": ({"alpha": 0.4}, {"secure_bound": 256.0}),
  "gifair": ({"fraction": 0.7}, {"secure_bound": 16.0, **UNIFORM}),
  "fedgini": ({"epsilon": 0.2}, {"secure_bound": 16.0}),
}
every_rule = pytest.mark.parametrize("name", RULES)
# Operators by which clients send values to the server, except secure sums.
TO_SERVER = (
  *("federated_aggregate", "federated_collect", "federated_reduce"),
  *("federated_mean", "federated_weighted_mean"),
  *("federated_min", "federated_max"),
)
IN_THE_CLEAR = ("federated_sum", *TO_SERVER)


class Recording(tff.aggregators.UnweightedAggregationFactory):
  """Sums; its state is the last sum that reached the server."""

  def create(self, value_type):
    specs = tff.types.type_to_tf_tensor_specs(value_type)
    zeros = tff.tensorflow.computation(
      lambda: tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), specs)
    )

    @tff.federated_computation
    def initialize():
      return tff.federated_eval(zeros, tff.SERVER)

    @tff.federated_computation(
      initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
    )
    def next_fn(state, value):
      del state
      total = tff.federated_sum(value)
      nothing = tff.federated_value((), tff.SERVER)
      return tff.templates.MeasuredProcessOutput(total, total, nothing)

    return tff.templates.AggregationProcess(initialize, next_fn)


@functools.cache
def create(name, **options):
  hparams, own = RULES[name]
  if "sum_factory" in options:
    own = {n: v for n, v in own.items() if n != "secure_bound"}
  return rounds.create(
    rounds.factory_of(name, hparams, aggregation="secure", **own, **options)
  )


RECORDING = Recording()


def recording(name):
  return create(name, sum_factory=RECORDING)


def expected(name, clients):
  hparams, own = RULES[name]
  if own.get("client_weighting"):
    clients = [dataclasses.replace(c, num_examples=1) for c in clients]
  return rounds.expected(name, clients, **hparams)


@pytest.fixture(scope="module")
def secure_sums_in_parts():
  """Simulates secure sums in the clear, of cohorts larger than a part."""
  runtime.use_local(simulate_secure_sums=True, clients_per_part=4)
  yield
  runtime.use_local()


@pytest.mark.usefixtures("secure_sums_in_parts")
@pytest.mark.parametrize("name", one_of_each(RULES))
def test_integers_of_32_bits_give_the_direction(name):
  process = create(name)
  assert not admission.has_intrinsic(process.next, IN_THE_CLEAR)
  clients = rounds.random_clients(7)
  bad = rounds.Client(np.full(9, np.nan), client_id=3)
  beyond = rounds.Client(np.ones(9), client_id=4, loss=1e9)
  output = rounds.run(process, [bad, *clients, beyond])
  rounds.assert_same(output.result, expected(name, clients), 1e-5)
  measured = output.measurements
  assert measured["num_clients"] == 7
  assert measured["num_clients_excluded"] == 1
  assert measured["num_clients_out_of_bounds"] == 1
  for value in tf.nest.flatten(measured):
    assert np.shape(value) == ()
  assert "client_ids" not in measured


@pytest.mark.usefixtures("secure_sums_in_parts")
@pytest.mark.parametrize("name", one_of_each(RULES))
def test_coefficients_sum_to_1_without_an_update_beyond_the_bound(name):
  clients = rounds.random_clients(5, seed=2)
  for client in clients:
    client.update *= 0.1
  clients[4] = rounds.Client(np.full(9, 1e6), loss=3.0, client_id=99)
  output = rounds.run(create(name), clients)
  assert output.measurements["num_clients_out_of_bounds"] == 1
  # The other clients have compared themselves with the excluded one.
  factors = scalars_of(name, clients)[-1][:4].T
  coefficient = factors[0] / factors[0].sum()
  if name == "semi_vred":
    over = factors[1] / factors[0].sum()
    coefficient += 2 * 0.3 * (over - coefficient * over.sum())
  assert coefficient.sum() == pytest.approx(1)
  updates = np.stack([c.as_reference().update for c in clients[:4]])
  np.testing.assert_allclose(
    rounds.flat(output.result), coefficient @ updates, rtol=1e-4, atol=1e-6
  )


@every_rule
@pytest.mark.parametrize("m", [1, 2, 30])
def test_exact_sums_give_the_direction(name, m):
  clients = rounds.random_clients(m, seed=m)
  output = rounds.run(recording(name), clients)
  if name in ("gifair", "fedgini"):  # Losses in one bin count as equal.
    for client in clients:
      client.loss = float(bins_of(client.loss)) / 32
  rounds.assert_same(output.result, expected(name, clients), 1e-5)


def bins_of(losses):
  return np.floor((np.float32(losses).astype(float) / 16 + 1) * 512)


def test_ranks_are_off_by_the_others_of_a_bin_at_most():
  clients = rounds.random_clients(30, seed=30)
  losses = np.array([client.loss for client in clients])
  exact, found = (
    np.sign(values[:, None] - values[None]).sum(1)
    for values in (losses, bins_of(losses))
  )
  largest = rounds.run(recording("gifair"), clients).measurements["largest_bin"]
  assert largest == np.unique(bins_of(losses), return_counts=True)[1].max() > 1
  assert 0 < np.abs(found - exact).max() <= largest - 1


@pytest.mark.parametrize("name", ["delta_fl", "gifair", "fedgini"])
def test_a_loss_beyond_the_bound_does_not_count(name):
  clients = rounds.random_clients(3)
  beyond = dataclasses.replace(clients[0], client_id=9, loss=16.5)
  found = rounds.run(recording(name), [*clients, beyond])
  without = rounds.run(recording(name), clients)
  rounds.assert_same(found.result, rounds.flat(without.result))
  assert found.measurements["num_clients_out_of_bounds"] == 1


class _Later(types.ComparingRule):
  """Averages; in the second phase, terms of losses above 5 are infinite."""

  signals = ("loss",)
  num_phases = 2

  def coefficients(self, cohort, state):
    return types.RuleOutput(cohort.weight, state)

  def phase(self, cohort, known):
    wrong = (cohort.loss > 5) & bool(known)
    term = tf.where(wrong, tf.constant(np.inf, tf.float64), cohort.weight)
    return term[:, tf.newaxis]

  def factors(self, cohort, known):
    del known
    return cohort.weight[:, tf.newaxis]

  def levels(self, known, total):
    del known
    return tf.math.reciprocal_no_nan(total), {}


def test_terms_beyond_the_bounds_in_a_later_phase_do_not_count():
  clients = rounds.random_clients(3)
  beyond = dataclasses.replace(clients[0], client_id=9, loss=6.0)
  factory = summing.RuleFactory(
    _Later(), aggregation="secure", sum_factory=RECORDING
  )
  found = rounds.run(rounds.create(factory), [*clients, beyond])
  rounds.assert_same(found.result, rounds.expected("fedavg", clients))
  first, second, _ = (state["scalars"] for state in found.state[:3])
  assert np.isfinite(second).all()
  assert first > second
  assert found.measurements["num_clients_out_of_bounds"] == 1


@every_rule
def test_a_round_without_clients_gives_zero(name):
  output = rounds.run(recording(name), [rounds.Client(np.full(9, np.nan))])
  np.testing.assert_array_equal(rounds.flat(output.result), np.zeros(9))
  assert output.measurements["num_clients"] == 0


def scalars_of(name, clients):
  """Returns the scalars that clients send, by phase, from the formulas."""
  losses = np.array([np.float32(c.loss) for c in clients], float)
  sizes = np.array([c.num_examples for c in clients], float)
  if name == "semi_vred":
    mean = (sizes * losses).sum() / sizes.sum()
    over = np.maximum(losses - mean, 0)
    return [
      np.stack([sizes, sizes * losses], 1),
      np.stack([sizes, sizes * over], 1),
    ]
  if name == "gifair":
    bins = bins_of(losses).astype(int)
    less = (bins[:, None] > bins[None]).sum(1) - (
      bins[:, None] < bins[None]
    ).sum(1)
    factor = 1 + 0.7 * less / (len(clients) - 1)
    return [np.eye(1024)[bins], factor[:, None]]
  if name == "fedgini":
    bins, m = bins_of(losses).astype(int), len(clients)
    terms = np.array([[i * (i + 1) for i in range(m)]]) * 3 / (m**3 - m)
    same = np.sort(bins)[None] == bins[:, None]
    share = (terms * same).sum(1) / same.sum(1)
    return [np.eye(1024)[bins], 1 + 0.8 * share[:, None]]
  found, low, width = [], -16.0, 32.0
  above = 0.0
  for _ in range(4):
    width /= 64
    bins = np.floor((losses - low) / width).astype(int)
    is_in = (bins >= 0) & (bins < 64)
    found.append(np.eye(64)[bins.clip(0, 63)] * (sizes * is_in)[:, None])
    weights = found[-1].sum(0)
    over = above + weights.sum() - weights.cumsum()
    chosen = int(np.argmax(over <= 0.4 * sizes.sum() + 1e-6))
    low, above = low + chosen * width, over[chosen]
  return [*found, (sizes * (losses >= low))[:, None]]


@every_rule
def test_what_reaches_the_server_are_sums_over_the_whole_cohort(name):
  process = recording(name)
  assert not admission.has_intrinsic(process.next, TO_SERVER)
  clients = rounds.random_clients(6)
  output = rounds.run(process, clients)
  of_clients = scalars_of(name, clients)
  assert len(output.state) == len(of_clients)
  for state, sent in zip(output.state, of_clients, strict=True):
    np.testing.assert_allclose(state["scalars"], sent.sum(0), rtol=1e-9)
  updates = np.stack([c.as_reference().update for c in clients])
  *phases, last = output.state
  assert all([*phase] == ["scalars"] for phase in phases)
  assert sorted(last) == ["counts", "scalars", "update"]
  assert [int(n) for n in last["counts"]] == [6, 0, 0]
  for total, factor in zip(last["update"], of_clients[-1].T, strict=True):
    np.testing.assert_allclose(
      rounds.flat(total), factor @ updates, rtol=1e-5, atol=1e-6
    )


def test_losses_that_are_nearly_equal_are_told_apart():
  clients = rounds.random_clients(4)
  for client, loss in zip(clients, [1.0, 1.00001, 0.5, 2.0], strict=True):
    client.loss, client.num_examples = loss, 1
  factory = aggregators.DeltaFlFactory(
    alpha=0.3, aggregation="secure", sum_factory=Recording()
  )
  found = rounds.run(rounds.create(factory), clients)
  kept = [clients[1], clients[3]]
  rounds.assert_same(found.result, rounds.expected("fedavg", kept))
  assert found.measurements["share_kept"] == pytest.approx(0.5)


@pytest.mark.parametrize(
  ("factory", "options", "field", "reason"),
  [
    (aggregators.FedFaFactory, {}, "aggregation", "whose"),
    (aggregators.AflFactory, {"num_clients": 5}, "aggregation", "whose"),
    (aggregators.FedFvFactory, {}, "aggregation", "updates"),
    (aggregators.GiFairFactory, {}, "client_weighting", "uniform"),
    (aggregators.GiFairFactory, {"loss_bound": 0.0}, "loss_bound", "0"),
  ],
)
def test_what_does_not_go_with_it_is_refused(factory, options, field, reason):
  with rejected(field, reason):
    factory(aggregation="secure", **options)
