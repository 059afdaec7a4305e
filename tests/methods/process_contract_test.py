"""Tests of properties that all methods in the registry must have."""

import asyncio
import contextlib
import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, shared_parts, small_problem
from tests.cases import one_of_each
from tests.methods.settings import FOR_SECURE_SUMS, wrong_values
from tests.rounds import problem
from tests.runtime import ways
from tff_fair import algorithms, declared, methods, runtime, types

# `fedminmax_test` has data with groups of people.
NAMES = tuple(name for name in algorithms.names() if name != "fedminmax")
# These need clients of equal weight or losses in several bins, as in
# `summing/comparison_sums_test.py` and `rounds/compared_in_parts_test.py`.
# Clients here weigh by their examples, and some losses share a bin.
OF_EQUAL_CLIENTS = (("gifair", "secure"), ("fedgini", "secure"))


def names_and_aggregations():
  """Yields each method with its default aggregation, and each rule with all.

  Aggregation depends on the rule only, so a rule that several methods share is
  tried with all aggregations only for the first of them.
  """
  rules = set()
  for name in NAMES:
    algorithm = algorithms.get(name)
    is_new = algorithm.build.rule not in rules
    rules.add(algorithm.build.rule)
    for aggregation in algorithm.aggregations[: None if is_new else 1]:
      if (name, aggregation) not in OF_EQUAL_CLIENTS:
        yield name, aggregation


NAMES_AND_AGGREGATIONS = list(names_and_aggregations())


def default_sum(name):
  return algorithms.get(name).aggregations[0]


OWN_SUMS = {default_sum(name) for name in NAMES}
# Rules that use only the Gram matrix: short runs test one of them in a process,
# and `rounds_test.py` compares each with NumPy.
GRAM_RULES = ("upgrad", "imtl_g", "nash_mtl", "aligned_mtl")


# Methods with tables of clients' persistent state.
KEEPING = ("ditto", "scaffold")


def kind_of_method(name):
  return GRAM_RULES if name in GRAM_RULES else name


def kind_of_pair(pair):
  """Returns the method, or the aggregation if no method has it by default.

  The tests in `summing/` compare all aggregations of rules of each kind with
  NumPy.
  """
  name, aggregation = pair
  return kind_of_method(name) if aggregation in OWN_SUMS else aggregation


def kind_of_graph(pair):
  name, aggregation = pair
  if aggregation not in OWN_SUMS:
    return aggregation
  geometry = algorithms.get(name).build.rule.geometry
  return default_sum(name), geometry, name if name in KEEPING else ""


every_pair = pytest.mark.parametrize(
  ("name", "aggregation"), one_of_each(NAMES_AND_AGGREGATIONS, kind_of_pair)
)


# One pair of each kind of graph is compiled as for users. With long tests, all
# pairs are.
OPTIMIZED_PAIRS = {
  kind_of_graph(pair): pair for pair in reversed(NAMES_AND_AGGREGATIONS)
}.values()


# One method for each rule, and the methods whose client work computes sums.
CUT = [
  *{algorithms.get(n).build.rule: n for n in reversed(NAMES)}.values(),
  *KEEPING,
]
# Cohorts of different sizes, none of all clients, and one of a single client.
COHORTS = (
  (12, 3, 2**40 + 1, 8),
  (5, 31, 12),
  (8,),
  (31, 3, 5, 12, 2**40 + 1),
  (8, 5),
)
# Methods that weigh the whole population need ids below its size.
POPULATION = 40
NEUTRAL = {
  name: method.neutral
  for name, method in reference.METHODS.items()
  if method.neutral is not None
}
# All tests here use a method's first variant; long tests also use the defaults
# and the other variants.
SETTINGS = {
  name: method.variants[0] if method.variants else {}
  for name, method in reference.METHODS.items()
}
OTHER_SETTINGS = [
  (name, hparams)
  for name, method in reference.METHODS.items()
  for hparams in ({}, *method.variants[1:])
]


pytestmark = [pytest.mark.tff, pytest.mark.usefixtures("built_once")]


def build(
  name, *, aggregation=None, client_weighting="num_examples", **settings
):
  """Builds a process only once, as building takes longer than its rounds."""
  return _built(
    name,
    aggregation=aggregation or default_sum(name),
    client_weighting=client_weighting,
    **settings,
  )


@functools.cache
def _built(name, *, aggregation, model="functional", batched=False, **kw):
  hparams = {k: v for k, v in kw.items() if k in algorithms.get(name).hparams}
  options = {k: v for k, v in kw.items() if k not in hparams}
  if aggregation == "secure":  # Simulated by exact sums.
    options["sum_factory"] = tff.aggregators.SumFactory()
    hparams = {**FOR_SECURE_SUMS.get(name, {}), **hparams}
  if not batched:
    options.setdefault("batch_size", small_problem.BATCH_SIZE)
  return algorithms.build(
    name,
    small_problem.functional_model()
    if model == "functional"
    else small_problem.keras_model,
    client_optimizer=small_problem.optimizer(),
    hparams=hparams,
    aggregation=aggregation,
    num_clients=POPULATION,
    **options,
  )


@functools.cache
def _initial_state(process):
  return process.initialize()


def _weighs_population(name):
  rule = algorithms.get(name).build.rule
  return issubclass(rule, types.PopulationRule)


def cohorts_of(name):
  limit = POPULATION if _weighs_population(name) else np.inf
  return tuple(tuple(k for k in c if k < limit) for c in COHORTS)


def run(process, cohorts, data=small_problem.whole):
  """Runs a round for each cohort; returns their outputs."""
  outputs = []
  state = _initial_state(process)
  for cohort in cohorts:
    outputs.append(process.next(state, [data(k) for k in cohort]))
    state = outputs[-1].state
  return outputs


def process_of(name, aggregation=None):
  return build(name, aggregation=aggregation, **SETTINGS[name])


@functools.cache
def rounds(name, aggregation):
  """Runs the rounds of a method, once for all tests; each is one graph."""
  with contextlib.ExitStack() as opened:
    if (name, aggregation) in OPTIMIZED_PAIRS:
      opened.enter_context(shared_parts.optimized())
    graphs = opened.enter_context(ways.counted())
    outputs = run(process_of(name, aggregation), cohorts_of(name))
  assert graphs[-len(outputs) :] == [True] * len(outputs)
  return outputs


def weights(output):
  return small_problem.flat_weights(output.state)


def numpy_run(name, cohorts, **hparams):
  if _weighs_population(name):
    hparams["num_clients"] = POPULATION
  return reference.run(name, cohorts, population=POPULATION, **hparams)


def assert_same(actual, expected, tolerance):
  error = np.max(np.abs(actual - expected)) / np.max(np.abs(expected))
  assert error <= tolerance, error


def test_the_reference_covers_the_registry():
  assert set(reference.METHODS) == set(NAMES)


@pytest.mark.parametrize("name", one_of_each(NAMES, kind_of_method))
def test_type_signature(name):
  process = process_of(name)
  assert isinstance(process, tff.learning.templates.LearningProcess)
  state_type, data_type = process.next.type_signature.parameter
  assert state_type == process.initialize.type_signature.result
  assert data_type == tff.FederatedType(
    tff.SequenceType(
      tff.types.tensorflow_to_type(
        (tf.TensorSpec([], tf.int64), small_problem.INPUT_SPEC)
      )
    ),
    tff.CLIENTS,
  )
  metrics_type = process.next.type_signature.result.metrics.member
  assert {
    *("num_clients", "num_clients_excluded", "direction_norm"),
    *("coefficient_min", "coefficient_max", "coefficients_negative"),
    *("client_ids", "coefficients", "client_losses"),
    *("loss_mean", "loss_std", "loss_min", "loss_max"),
  } <= set(dir(metrics_type["aggregator"]))


@every_pair
def test_agrees_with_numpy_over_rounds(name, aggregation):
  *_, last = rounds(name, aggregation)
  expected = numpy_run(name, cohorts_of(name), **SETTINGS[name])
  assert_same(weights(last), expected, 1e-5)


@pytest.mark.parametrize(
  ("name", "aggregation"), one_of_each(NAMES_AND_AGGREGATIONS, kind_of_graph)
)
def test_a_round_is_one_graph_and_step_by_step_it_has_the_same_bits(
  name, aggregation
):
  with ways.step_by_step():
    expected = run(process_of(name, aggregation), cohorts_of(name)[:2])
  ways.assert_same_bits(rounds(name, aggregation)[:2], expected)


# `rule_contract_test` tests the settings of every rule without a process.
@pytest.mark.parametrize(("name", "hparams"), one_of_each(OTHER_SETTINGS))
def test_other_settings_agree_with_numpy(name, hparams):
  # This test has a VariableModel on ready minibatches, and a decaying server
  # rate; others have a FunctionalModel on whole arrays, and a constant rate.
  process = build(
    name,
    model="keras",
    batched=True,
    local_epochs=2,
    server_learning_rate_decay=0.5,
    server_learning_rate_decay_kind="inverse_time",
    **hparams,
  )
  cohorts = cohorts_of(name)
  *_, last = run(process, cohorts, small_problem.batched)
  expected = numpy_run(
    name,
    cohorts,
    epochs=2,
    server_factor=lambda t: 1 / (1 + t / 2),
    **hparams,
  )
  assert_same(weights(last), expected, 1e-5)


# `rounds/phased_rounds_test.py` cuts rounds with two phases, and rounds with
# clients' table rows, into parts.
@pytest.mark.parametrize("name", one_of_each(CUT, default_sum))
def test_a_cohort_in_parts_gives_the_same_round(name):
  before, whole = rounds(name, default_sum(name))[2:4]
  data = small_problem.cohort(cohorts_of(name)[3])
  data.insert(1, small_problem.not_a_number(8))
  with runtime.in_parts_of(3):  # Two parts of 3; AFL: 3 and 2.
    parts = process_of(name).next(before.state, data)
  tf.nest.assert_same_structure(parts, whole)
  assert parts.metrics["aggregator"]["num_clients_excluded"] == 1
  assert_same(weights(parts), weights(whole), 1e-5)
  ids, coefficients = (
    [output.metrics["aggregator"][n] for output in (parts, whole)]
    for n in ("client_ids", "coefficients")
  )
  np.testing.assert_array_equal(*ids)
  of_parts, of_whole = coefficients
  np.testing.assert_allclose(of_parts, of_whole, rtol=1e-5, atol=1e-8)


@every_pair
def test_arrival_order_does_not_matter(name, aggregation):
  process = process_of(name, aggregation)
  cohorts = tuple(cohort[::-1] for cohort in cohorts_of(name)[:2])
  *_, other = run(process, cohorts)
  assert_same(weights(other), weights(rounds(name, aggregation)[1]), 1e-6)


@pytest.mark.parametrize(
  "name",
  one_of_each(NAMES, lambda n: (reference.METHODS[n].stateful, n in KEEPING)),
)
def test_state_survives_a_file(name, tmp_path):
  process = process_of(name)
  first, second, *_ = rounds(name, default_sum(name))
  manager = tff.program.FileProgramStateManager(tmp_path)
  asyncio.run(manager.save(first.state, 1))
  loaded = asyncio.run(manager.load(1, _initial_state(process)))
  data = small_problem.cohort(cohorts_of(name)[1])
  problem.assert_equal(process.next(loaded, data).state, second.state)


# `rule_contract_test` tests the bounds of the rules' hyperparameters.
@pytest.mark.parametrize("name", one_of_each(NEUTRAL))
def test_neutral_setting(name):
  setting, other, weighting = NEUTRAL[name]
  options = {k: v for k, v in setting.items() if k == "batch_size"}
  cohorts = cohorts_of(name)
  *_, last = run(build(name, **setting), cohorts)
  *_, expected = run(
    build(other, client_weighting=weighting, **options), cohorts
  )
  assert_same(weights(last), weights(expected), 1e-6)


def _infinite_loss(client_id):
  # For any signs of the weights, some logits overflow float32.
  signs = list(itertools.product((-1, 1), repeat=small_problem.NUM_FEATURES))
  x = np.repeat(np.array(signs, np.float32), small_problem.NUM_CLASSES, axis=0)
  y = np.tile(np.arange(small_problem.NUM_CLASSES, dtype=np.int32), len(signs))
  return small_problem.whole(client_id, (x * np.float32(3.4e38), y))


@every_pair
def test_clients_that_do_not_count_leave_no_trace(name, aggregation):
  process = process_of(name, aggregation)
  first, expected, *_ = rounds(name, aggregation)
  good = small_problem.cohort(cohorts_of(name)[1])
  bad = [
    small_problem.not_a_number(3),
    _infinite_loss(8),
    small_problem.empty(25),
  ]
  mixed = process.next(
    first.state, [bad[0], good[0], bad[1], *good[1:], bad[2]]
  )
  assert mixed.metrics["aggregator"]["num_clients"] == len(good) == 3
  assert mixed.metrics["aggregator"]["num_clients_excluded"] == 3
  problem.assert_equal(mixed.state, expected.state)
  problem.assert_equal(
    *(output.metrics["client_work"]["train"] for output in (mixed, expected))
  )


@every_pair
def test_a_round_without_clients_changes_nothing(name, aggregation):
  process = process_of(name, aggregation)
  start = rounds(name, aggregation)[0].state
  after, metrics = process.next(
    start, [small_problem.not_a_number(3), small_problem.empty(8)]
  )
  assert metrics["aggregator"]["num_clients"] == 0
  assert metrics["aggregator"].pop("direction_norm") == 0
  for key, value in metrics["aggregator"].items():
    if isinstance(value, np.floating):
      assert np.isnan(value), key
  problem.assert_equal(after, start)


@pytest.mark.parametrize("name", one_of_each(NAMES, default_sum))
def test_hparams_are_read_and_set(name):
  process = process_of(name)
  state = _initial_state(process)
  hparams = process.get_hparams(state)
  rate = hparams["client_work"]["learning_rate"]
  assert rate == pytest.approx(small_problem.LEARNING_RATE)
  hparams["client_work"]["learning_rate"] = np.float32(0.0)
  still = process.set_hparams(state, hparams)
  data = small_problem.cohort(cohorts_of(name)[0])
  np.testing.assert_array_equal(
    small_problem.flat_weights(process.next(still, data).state),
    small_problem.flat_weights(state),
  )


@pytest.mark.parametrize("name", NAMES)
def test_wrong_hyperparameters_are_named(name):
  for field in algorithms.hyperparameters(name).values():
    for value, error in wrong_values(field):
      with pytest.raises((TypeError, declared.FieldError)) as raised:
        algorithms.build(
          name,
          small_problem.functional_model(),
          client_optimizer=small_problem.optimizer(),
          num_clients=POPULATION,
          hparams={field.name: value},
        )
      assert type(raised.value) is error, (field.name, value)
      assert field.name in str(raised.value)


def test_one_method_asks_for_more_than_losses():
  asking = [
    name
    for name in NAMES
    if "accuracy" in algorithms.get(name).build.rule.signals
  ]
  assert asking == ["fedfa"]
  declared_so = [name for name in NAMES if methods.method(name).needs_accuracy]
  assert declared_so == asking
