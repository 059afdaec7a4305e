"""Tests of computations that become one graph."""

import collections

import numpy as np
import psutil
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tests.runtime import ways
from tff_fair.runtime.one_graph import whole_graph

DATA = tff.SequenceType(tff.TensorType(np.float32, [None]))

compute = tff.tensorflow.computation


@compute(DATA)
def total(data):
  return tf.reduce_sum(data.get_single_element())


@compute(np.float32, np.float32)
def difference(x, y):
  return x - y


@compute(np.float32, np.float32)
def add(x, y):
  return x + y


@compute(np.float32)
def same(x):
  return x


@compute
def zero():
  return np.float32(0)


def aggregate(values, accumulate=add, report=same):
  return tff.federated_aggregate(values, zero(), accumulate, add, report)


def dataset(*values):
  return tf.data.Dataset.from_tensors(np.array(values, np.float32))


CLIENTS = [dataset(1e8, 1), dataset(1), dataset(-1e8), dataset(0.1, 0.2)]

AT_SERVER = tff.FederatedType(np.float32, tff.SERVER)
AT_CLIENTS = tff.FederatedType(DATA, tff.CLIENTS)


@tff.federated_computation(AT_CLIENTS)
def sums(data):
  return aggregate(tff.federated_map(total, data))


@tff.federated_computation(AT_SERVER, AT_CLIENTS)
def in_two_loops(offset, data):
  """The second sum depends on the first, and on values that clients keep."""
  totals = tff.federated_map(total, data)
  first = aggregate(totals)
  shifted = tff.federated_map(
    difference, (totals, tff.federated_broadcast(first))
  )
  second = aggregate(shifted)
  third = aggregate(
    tff.federated_map(add, (shifted, tff.federated_broadcast(second)))
  )
  result = tff.federated_zip(
    collections.OrderedDict(first=first, second=second, third=third)
  )
  return result, tff.federated_map(add, (offset, third))


def test_values_are_added_in_the_order_of_the_clients():
  found, expected = ways.both(lambda: sums(CLIENTS))
  ways.assert_same_bits(found, expected)
  values = [np.float32(1e8) + np.float32(1), 1.0, -1e8, np.float32(0.1) + 0.2]
  order = np.float32(0)
  for value in values:
    order += np.float32(value)
  assert found == order
  # The sum of these numbers depends on the order.
  assert sums(CLIENTS[::-1]) != found


@pytest.mark.parametrize("num_clients", [0, 1, 2, 3, 50])
def test_any_number_of_clients(num_clients):
  clients = (CLIENTS * 20)[:num_clients]
  ways.assert_same_bits(*ways.both(lambda: in_two_loops(0.5, clients)))


def test_sums_that_depend_on_one_another():
  result, last = in_two_loops(0.5, CLIENTS)
  totals = np.array([1e8 + 1, 1, -1e8, 0.3])
  np.testing.assert_allclose(result["first"], totals.sum(), atol=8)
  np.testing.assert_allclose(last, result["third"] + 0.5)


def test_a_graph_is_built_once_for_all_numbers_of_clients(monkeypatch):
  built = []
  build = whole_graph.WholeGraph

  def count(*args):
    built.append(1)
    return build(*args)

  monkeypatch.setattr(whole_graph, "WholeGraph", count)

  @tff.federated_computation(AT_CLIENTS)
  def anew(data):
    return aggregate(tff.federated_map(total, data))

  for number in (1, 4, 2):
    anew(CLIENTS[:number])
  assert built == [1]


# Ditto's clients have two models; those of the other methods have one.
@pytest.mark.parametrize(
  "name",
  [
    "ditto",
    pytest.param("fedavg", marks=pytest.mark.long),
    pytest.param("semi_vred", marks=pytest.mark.long),
  ],
)
def test_keras_models_are_variables_of_each_client(name):
  process = small_problem.process(name, small_problem.keras_model)
  clients = [*map(small_problem.whole, small_problem.CLIENT_IDS)]
  state = process.initialize()
  ways.assert_same_bits(*ways.both(lambda: process.next(state, clients)))


@pytest.mark.parametrize("seed", [None, 1])
def test_clients_of_stock_tff_are_computed_in_one_graph(seed):
  """Stock TFF's clients reduce datasets, which users' programs shuffle."""
  process = tff.learning.algorithms.build_weighted_fed_avg(
    small_problem.keras_model, small_problem.optimizer()
  )
  clients = [
    tf.data.Dataset.from_tensor_slices(arrays).shuffle(9, seed).batch(3)
    for arrays in small_problem.client_arrays().values()
  ]
  state = process.initialize()
  with ways.counted() as graphs:
    output = process.next(state, clients)
  assert graphs == [True]
  assert output.metrics["client_work"]["train"]["num_examples"] == sum(
    small_problem.SIZES
  )


def counting(size):
  """Returns a client's work that fails if it sees another client's variable."""

  @compute(DATA)
  def count(data):
    counter = tf.Variable(tf.zeros([size]), name="counter")
    value = total(data)
    with tf.control_dependencies([counter.assign_add(tf.fill([size], value))]):
      first = counter.read_value()
    with tf.control_dependencies([counter.assign(2 * first)]):
      return counter.read_value()[0]

  @tff.federated_computation(AT_CLIENTS)
  def sum_counts(data):
    return aggregate(tff.federated_map(count, data))

  return sum_counts


def test_a_variable_begins_anew_for_each_client_and_each_call():
  count = counting(1)
  clients = [dataset(k) for k in range(40)]
  for _ in range(3):
    found, expected = ways.both(lambda: count(clients))
    assert found == expected == 2 * sum(range(40))


def test_variables_of_clients_are_dropped():
  count = counting(2**20)  # 4 MiB.
  clients = [dataset(k) for k in range(32)]
  process = psutil.Process()
  with ways.counted() as graphs:
    count(clients)
    before = process.memory_info().rss
    for _ in range(4):  # 512 MiB if variables stayed.
      assert count(clients) == 2 * sum(range(32))
  assert graphs == [True] * 5
  assert process.memory_info().rss - before < 200 * 2**20


@pytest.mark.parametrize(("seed", "is_one_graph"), [(None, True), (1, False)])
def test_random_numbers_with_a_seed_are_drawn_step_by_step(seed, is_one_graph):
  @compute(DATA)
  def noisy(data):
    return total(data) + 0 * tf.random.uniform([], seed=seed)

  @tff.federated_computation(AT_CLIENTS)
  def sum_noisy(data):
    return aggregate(tff.federated_map(noisy, data))

  with ways.counted() as graphs:
    found = sum_noisy(CLIENTS)
  assert graphs == [is_one_graph]
  assert found == sums(CLIENTS)


def test_loops_of_several_functions_do_not_mix():
  @compute(DATA)
  def count_down(data):
    return tf.while_loop(
      lambda x: x > 0, lambda x: x - 1, [total(data)], parallel_iterations=1
    )[0]

  @compute(np.float32)
  def halve(x):
    return tf.while_loop(lambda x: x > 1, lambda x: x / 2, [x])[0]

  @tff.federated_computation(AT_CLIENTS)
  def loops(data):
    left = tff.federated_map(count_down, data)
    summed = aggregate(left, report=halve)
    return tff.federated_map(halve, summed), aggregate(
      tff.federated_map(halve, tff.federated_map(total, data)), report=halve
    )

  clients = [dataset(5.5), dataset(7.25, 1), dataset(300)]
  ways.assert_same_bits(*ways.both(lambda: loops(clients)))
