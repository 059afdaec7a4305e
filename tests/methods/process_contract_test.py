"""What every method of the registry keeps, and so every new one."""

import asyncio
import contextlib
import functools
import inspect
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, shared_parts, small_problem
from tests.cases import one_of_each
from tests.methods.settings import wrong_values
from tests.refusals import rejected
from tests.runtime.one_graph import ways
from tff_fair import algorithms, declared, runtime, types

NAMES = algorithms.names()
# What a method needs for secure sums; no loss here is larger.
FOR_SECURE_SUMS = {"term": {"loss_cap": 10.0}}


def names_and_aggregations():
  """Yields each method with its default sum, and each rule with every sum.

  Sums know rules, and no method: a rule that several methods share is tried in
  all sums with the first of them.
  """
  rules = set()
  for name in NAMES:
    algorithm = algorithms.get(name)
    is_new = algorithm.build.rule not in rules
    rules.add(algorithm.build.rule)
    for aggregation in algorithm.aggregations[: None if is_new else 1]:
      yield name, aggregation


NAMES_AND_AGGREGATIONS = list(names_and_aggregations())


def default_sum(name):
  return algorithms.get(name).aggregations[0]


def kind_of_pair(pair):
  """Gives the method where the sum is its own, and else the kind of rule.

  `aggregators/every_sum_test.py` shows that all sums of a rule give the same.
  """
  name, aggregation = pair
  if aggregation == default_sum(name):
    return name
  rule = algorithms.get(name).build.rule
  kinds = types.SeparableRule, types.PopulationRule
  return (
    aggregation,
    *(issubclass(rule, kind) for kind in kinds),
    rule.geometry,
  )


every_pair = pytest.mark.parametrize(
  ("name", "aggregation"), one_of_each(NAMES_AND_AGGREGATIONS, kind_of_pair)
)


def optimized_pairs():
  """Returns a pair of each kind of graph, which is compiled as for users.

  In runs that leave out no long test, all are.
  """
  found = {}
  for name, aggregation in NAMES_AND_AGGREGATIONS:
    rule = algorithms.get(name).build.rule
    kind = aggregation, rule.geometry, name == "ditto"
    found.setdefault(kind, (name, aggregation))
  return set(found.values())


OPTIMIZED_PAIRS = optimized_pairs()


# Each rule, and the one client work that has a sum of its own.
CUT = [
  *{algorithms.get(n).build.rule: n for n in reversed(NAMES)}.values(),
  "ditto",
]
# Partial cohorts of different sizes, one of a single client.
COHORTS = (
  (12, 3, 2**40 + 1, 8),
  (5, 31, 12),
  (8,),
  (31, 3, 5, 12, 2**40 + 1),
  (8, 5),
)
# Where a method weighs the population, ids run from 0 to its size.
POPULATION = 40
NEUTRAL = {
  name: method.neutral
  for name, method in reference.METHODS.items()
  if method.neutral is not None
}
# Other settings than the defaults, if there are any.
VARIANTS = [
  (name, hparams, number == 0)
  for name, method in reference.METHODS.items()
  for number, hparams in enumerate(method.variants or ({},))
]


pytestmark = [pytest.mark.tff, pytest.mark.usefixtures("built_once")]


@pytest.fixture(scope="module", autouse=True)
def processes_are_forgotten():
  yield
  for function in (_built, _initial_state, run):
    function.cache_clear()


def build(
  name, *, aggregation=None, client_weighting="num_examples", **settings
):
  """Builds a process, each once: that takes longer than its rounds."""
  return _built(
    name,
    aggregation=aggregation or algorithms.get(name).aggregations[0],
    client_weighting=client_weighting,
    **settings,
  )


@functools.cache
def _built(name, *, aggregation, model="functional", batched=False, **kw):
  hparams = {k: v for k, v in kw.items() if k in algorithms.get(name).hparams}
  options = {k: v for k, v in kw.items() if k not in hparams}
  if aggregation == "secure":  # In exact sums, which run here.
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


@functools.cache
def run(process, cohorts, data=small_problem.whole):
  """Runs a round for each cohort, once for all tests; returns their outputs."""
  outputs = []
  state = _initial_state(process)
  for cohort in cohorts:
    outputs.append(process.next(state, [data(k) for k in cohort]))
    state = outputs[-1].state
  return outputs


def rounds(name, aggregation=None):
  pair = name, aggregation or default_sum(name)
  process = build(name, aggregation=aggregation)
  with contextlib.ExitStack() as opened:
    if pair in OPTIMIZED_PAIRS:
      opened.enter_context(shared_parts.optimized())
    return run(process, cohorts_of(name))


def weights(output):
  return small_problem.flat_weights(output.state)


def numpy_run(name, cohorts, **hparams):
  if _weighs_population(name):
    hparams["num_clients"] = POPULATION
  return reference.run(name, cohorts, **hparams)


def assert_same(actual, expected, tolerance):
  error = np.max(np.abs(actual - expected)) / np.max(np.abs(expected))
  assert error <= tolerance, error


def leaves(state):
  return [np.asarray(x) for x in tf.nest.flatten(state)]


def test_the_reference_covers_the_registry():
  assert set(reference.METHODS) == set(NAMES)


def test_every_rule_is_tried_in_every_sum():
  pairs = {
    (algorithms.get(name).build.rule, aggregation)
    for name, aggregation in NAMES_AND_AGGREGATIONS
  }
  assert pairs == {
    (algorithms.get(name).build.rule, aggregation)
    for name in NAMES
    for aggregation in algorithms.get(name).aggregations
  }


@pytest.mark.parametrize("name", NAMES)
def test_builder_is_public_and_typed(name):
  builder = getattr(algorithms, f"build_{name}")
  assert builder is algorithms.get(name).build
  parameters = inspect.signature(builder).parameters
  assert list(parameters)[:2] == ["model_fn", "client_optimizer"]
  assert all(
    p.annotation is not inspect.Parameter.empty for p in parameters.values()
  )


@pytest.mark.parametrize("name", NAMES)
def test_type_signature(name):
  process = build(name)
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
  reported = dir(metrics_type["aggregator"])
  for measurement in (
    "num_clients",
    "num_clients_excluded",
    "direction_norm",
    "coefficient_min",
    "coefficient_max",
    "coefficients_negative",
    "client_ids",
    "coefficients",
    "client_losses",
    "loss_mean",
    "loss_std",
    "loss_min",
    "loss_max",
  ):
    assert measurement in reported


@every_pair
def test_agrees_with_numpy_over_rounds(name, aggregation):
  *_, last = rounds(name, aggregation)
  assert_same(weights(last), numpy_run(name, cohorts_of(name)), 1e-5)


@every_pair
def test_a_round_is_one_graph_and_tffs_executors_compute_the_same_bits(
  name, aggregation
):
  process, cohorts = build(name, aggregation=aggregation), cohorts_of(name)[:2]
  state = _initial_state(process)
  with ways.counted() as graphs:
    process.next(state, [*map(small_problem.whole, cohorts[0])])
  assert graphs == [True]
  with ways.by_executors():
    expected = run.__wrapped__(process, cohorts)
  ways.assert_same_bits(rounds(name, aggregation)[:2], expected)


# `rounds_test` tries settings of every rule on the rule alone.
@pytest.mark.parametrize(
  ("name", "hparams", "has_options"),
  one_of_each(VARIANTS, lambda case: (default_sum(case[0]), case[2])),
)
def test_other_settings_agree_with_numpy(name, hparams, has_options):
  cohorts = cohorts_of(name)
  if not has_options:
    *_, last = run(build(name, **hparams), cohorts)
    assert_same(weights(last), numpy_run(name, cohorts, **hparams), 1e-5)
    return
  # A VariableModel on ready minibatches, and a server rate that decays;
  # elsewhere here, a FunctionalModel on whole arrays, and a constant rate.
  process = build(
    name,
    model="keras",
    batched=True,
    local_epochs=2,
    server_learning_rate_decay=0.5,
    server_learning_rate_decay_kind="inverse_time",
    **hparams,
  )
  *_, last = run(process, cohorts, small_problem.batched)
  expected = numpy_run(
    name,
    cohorts,
    epochs=2,
    server_factor=lambda t: 1 / (1 + t / 2),
    **hparams,
  )
  assert_same(weights(last), expected, 1e-5)


@pytest.mark.parametrize(
  "name", one_of_each(CUT, lambda name: (default_sum(name), name == "ditto"))
)
def test_a_cohort_in_parts_gives_the_same_round(name):
  before, whole = rounds(name)[2:4]
  data = [small_problem.whole(k) for k in cohorts_of(name)[3]]
  with runtime.in_parts_of(3):  # Three clients and two; of AFL, one.
    parts = build(name).next(before.state, data)
  tf.nest.assert_same_structure(parts, whole)
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
  process = build(name, aggregation=aggregation)
  cohorts = tuple(cohort[::-1] for cohort in cohorts_of(name)[:2])
  *_, other = run(process, cohorts)
  assert_same(weights(other), weights(rounds(name, aggregation)[1]), 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_state_survives_a_file(name, tmp_path):
  process = build(name)
  first, second, *_ = rounds(name)
  manager = tff.program.FileProgramStateManager(tmp_path)
  asyncio.run(manager.save(first.state, 1))
  loaded = asyncio.run(manager.load(1, _initial_state(process)))
  data = [small_problem.whole(k) for k in cohorts_of(name)[1]]
  for a, b in zip(
    leaves(second.state),
    leaves(process.next(loaded, data).state),
    strict=True,
  ):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", one_of_each(NEUTRAL, default_sum))
def test_neutral_setting(name):
  setting, other, weighting = NEUTRAL[name]
  options = {k: v for k, v in setting.items() if k == "batch_size"}
  cohorts = cohorts_of(name)
  *_, last = run(build(name, **setting), cohorts)
  *_, expected = run(
    build(other, client_weighting=weighting, **options), cohorts
  )
  assert_same(weights(last), weights(expected), 1e-6)


def _not_a_number(client_id):
  x, y = small_problem.client_arrays()[client_id]
  x = x.copy()
  x[0, 0] = np.nan
  return small_problem.whole(client_id, (x, y))


def _infinite_loss(client_id):
  # Logits beyond the ends of float32, whatever the signs of the weights are.
  signs = list(itertools.product((-1, 1), repeat=small_problem.NUM_FEATURES))
  x = np.repeat(np.array(signs, np.float32), small_problem.NUM_CLASSES, axis=0)
  y = np.tile(np.arange(small_problem.NUM_CLASSES, dtype=np.int32), len(signs))
  return small_problem.whole(client_id, (x * np.float32(3.4e38), y))


@every_pair
def test_clients_that_do_not_count_leave_no_trace(name, aggregation):
  process = build(name, aggregation=aggregation)
  first, expected, *_ = rounds(name, aggregation)
  good = [small_problem.whole(k) for k in cohorts_of(name)[1]]
  bad = [_not_a_number(3), _infinite_loss(8), small_problem.empty(25)]
  mixed = process.next(
    first.state, [bad[0], good[0], bad[1], *good[1:], bad[2]]
  )
  assert mixed.metrics["aggregator"]["num_clients"] == len(good) == 3
  assert mixed.metrics["aggregator"]["num_clients_excluded"] == 3
  for a, b in zip(leaves(mixed.state), leaves(expected.state), strict=True):
    np.testing.assert_array_equal(a, b)
  for key, value in expected.metrics["client_work"]["train"].items():
    np.testing.assert_array_equal(
      mixed.metrics["client_work"]["train"][key], value
    )


@every_pair
def test_a_round_without_clients_changes_nothing(name, aggregation):
  process = build(name, aggregation=aggregation)
  start = rounds(name, aggregation)[0].state
  after, metrics = process.next(
    start, [_not_a_number(3), small_problem.empty(8)]
  )
  assert metrics["aggregator"]["num_clients"] == 0
  assert metrics["aggregator"].pop("direction_norm") == 0
  for key, value in metrics["aggregator"].items():
    if isinstance(value, np.floating):
      assert np.isnan(value), key
  for a, b in zip(leaves(after), leaves(start), strict=True):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_hparams_are_read_and_set(name):
  process = build(name)
  state = _initial_state(process)
  hparams = process.get_hparams(state)
  rate = hparams["client_work"]["learning_rate"]
  assert rate == pytest.approx(small_problem.LEARNING_RATE)
  hparams["client_work"]["learning_rate"] = np.float32(0.0)
  still = process.set_hparams(state, hparams)
  data = [small_problem.whole(k) for k in cohorts_of(name)[0]]
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


@pytest.mark.parametrize("name", NAMES)
def test_other_aggregations_are_refused(name):
  for aggregation in {"streaming", "two_phase", "stacked", "summed"} - set(
    algorithms.get(name).aggregations
  ):
    with rejected("aggregation", repr(aggregation)):
      build(name, aggregation=aggregation)


def test_unknown_names_list_the_valid_ones():
  with rejected("name", "'fedavgg'", "fedavg, ", "adafed"):
    algorithms.build(
      "fedavgg",
      small_problem.functional_model(),
      client_optimizer=small_problem.optimizer(),
    )
  with rejected("epsilom", "epsilon, normalize, mu"):
    algorithms.build(
      "fedmgda_plus",
      small_problem.functional_model(),
      client_optimizer=small_problem.optimizer(),
      hparams={"epsilom": 0.1},
    )


SLOPE = 3.0  # Of all clients' labels, so that every update leads there.


def number_model():
  """A regression: its one weight times x."""

  @tf.function
  def predict(weights, x, training):
    del training
    return x * weights[0][0]

  def loss(output, label, sample_weight=None):
    del sample_weight
    return tf.reduce_mean(tf.square(tf.squeeze(output, -1) - label))

  return tff.learning.models.FunctionalModel(
    initial_weights=((np.zeros(1, np.float32),), ()),
    predict_on_batch_fn=predict,
    loss_fn=loss,
    input_spec=(
      tf.TensorSpec([None, 1], tf.float32),
      tf.TensorSpec([None], tf.float32),
    ),
  )


def needing_no_accuracy():
  """Returns a method for each way of summing and set of signals."""
  found = {}
  for name in NAMES:
    algorithm = algorithms.get(name)
    if not algorithm.needs_accuracy:
      key = algorithm.aggregations[0], algorithm.build.rule.signals
      found.setdefault(key, name)
  return list(found.values())


# The sum does not see the model.
@pytest.mark.parametrize("name", one_of_each(needing_no_accuracy()))
def test_methods_that_need_losses_alone_learn_a_number(name):
  process = algorithms.build(
    name,
    number_model(),
    client_optimizer=small_problem.optimizer(),
    batch_size=small_problem.BATCH_SIZE,
    num_clients=POPULATION,
  )
  x = np.array([[1.0], [-2.0], [0.5]], np.float32)
  data = [
    small_problem.whole(k, (x / k, SLOPE * x[:, 0] / k)) for k in (1, 2, 3)
  ]
  state = process.next(process.initialize(), data).state
  (weight,) = small_problem.flat_weights(state)
  assert 0 < weight <= SLOPE


def test_one_method_asks_for_more_than_losses():
  asking = [name for name in NAMES if algorithms.get(name).needs_accuracy]
  assert asking == ["fedfa"]
