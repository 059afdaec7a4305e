"""Tests, case by case, that the runtime gives the results of TFF's executors.

Each case is a function that makes a small program and returns its results. It
runs under `use_local(exact=True)` first, then under `use_local()`.
"""

import logging
import pathlib
import tempfile

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime import ways
from tests.runtime.computations import summed
from tff_fair import runtime

compute = tff.tensorflow.computation
federated = tff.federated_computation

INT = tff.FederatedType(np.int32, tff.CLIENTS)
FLOAT = tff.FederatedType(np.float32, tff.CLIENTS)
INT_AT_SERVER = tff.FederatedType(np.int32, tff.SERVER)
FLOAT_AT_SERVER = tff.FederatedType(np.float32, tff.SERVER)
DATA = tff.SequenceType(np.float32)

CASES = {}
SIZES = (1, 32, 70)


def case(function):
  CASES[function.__name__] = function
  return function


@compute(np.int32, np.int32)
def add(x, y):
  return x + y


@compute(np.float32, np.float32)
def times(x, y):
  return x * y


@compute(np.float32, np.float32)
def over(x, y):
  return x / y


@compute(DATA)
def last(data):
  return data.reduce(np.float32(0), lambda _, x: x)


@compute(DATA)
def total(data):
  return tf.reduce_sum(data.batch(100).get_single_element())


def scalars(values, dtype=np.float32):
  return [np.array(value, dtype) for value in values]


@case
def a_mask_that_the_server_draws():
  @compute
  def draw():
    return tf.random.uniform([], maxval=1_000_000, dtype=tf.int32)

  @compute(np.int32, np.int32, np.int32)
  def unmask(masked, number, mask):
    return masked - number * mask

  @federated(INT, INT_AT_SERVER)
  def masked_sum(x, number):
    mask = tff.federated_eval(draw, tff.SERVER)
    masked = tff.federated_map(add, (x, tff.federated_broadcast(mask)))
    return tff.federated_map(unmask, (tff.federated_sum(masked), number, mask))

  return [masked_sum(scalars([1] * n, np.int32), n) for n in SIZES]


@case
def results_at_clients():
  @federated(INT, INT_AT_SERVER)
  def both(x, y):
    sums = tff.federated_map(add, (x, tff.federated_broadcast(y)))
    return sums, tff.federated_sum(sums)

  return [both([np.int32(i) for i in range(n)], 1) for n in SIZES]


@case
def cohorts_of_unequal_size():
  @federated(INT, INT, INT_AT_SERVER)
  def sums(x, y, z):
    del z
    return tff.federated_sum(x), tff.federated_sum(y)

  ones = scalars([1] * 64, np.int32)
  return [
    outcome(sums, ones[:m], ones[:n], 0)
    for m, n in ((32, 64), (64, 32), (3, 4), (33, 0), (40, 40))
  ]


@case
def not_a_number_times_zero():
  zero = compute(lambda: np.float32(0))

  @federated(np.float32)
  def nothing(x):
    return times(x, zero())

  @federated(FLOAT, FLOAT_AT_SERVER)
  def sums(x, y):
    del y
    return tff.federated_sum(tff.federated_map(nothing, x))

  return [sums(scalars([np.nan] + [1.0] * n), 0.0) for n in (1, 40)]


@case
def division_by_a_constant():
  three = compute(lambda: np.float32(3))
  over_rows = compute(
    lambda x, y: x / y, (tff.TensorType(np.float32, [50]), np.float32)
  )

  @federated(tff.TensorType(np.float32, [50]))
  def divide(x):
    return over_rows(x, three())

  draws = np.random.default_rng(0).normal(size=[5, 50]).astype(np.float32)
  return summed(divide)([*draws])


@case
def a_dataset_that_reads_a_variable():
  variable = tf.Variable(0.0)
  numbers = tf.data.Dataset.from_tensor_slices(np.arange(3, dtype=np.float32))
  clients = [numbers.map(lambda x: x + variable)] * 2
  results = []
  for value in range(5):
    variable.assign(value)
    results.append(summed(total)(clients))
  return results


@case
def a_dataset_that_shuffles():
  head = compute(
    lambda data: data.take(1).batch(1).get_single_element()[0], DATA
  )

  first = summed(head)
  numbers = tf.data.Dataset.from_tensor_slices(np.arange(50, dtype=np.float32))
  clients = [numbers.shuffle(50, seed=3)]
  return [first(clients) for _ in range(5)]


# The sum of numbers times their positions, which depends on the order.
in_order = compute(
  lambda data: data.enumerate().reduce(
    np.float32(0), lambda s, x: s + tf.cast(x[0], tf.float32) * x[1]
  ),
  DATA,
)


@case
def two_functions_that_read_shuffled_data():
  twice = compute(lambda x, y: 1000 * x + y, (np.float32, np.float32))

  @federated(tff.FederatedType(DATA, tff.CLIENTS))
  def both(data):
    results = [tff.federated_map(in_order, data) for _ in range(2)]
    return tff.federated_sum(tff.federated_map(twice, results))

  numbers = tf.data.Dataset.from_tensor_slices(np.arange(20, dtype=np.float32))
  results = []
  for data in (
    numbers.shuffle(20, seed=3),
    numbers.shuffle(7, seed=3, reshuffle_each_iteration=False),
    numbers.shuffle(7, seed=4).repeat(3),
    numbers.repeat(2).shuffle(20, seed=5).map(lambda x: x + 1).prefetch(1),
    numbers.window(4).flat_map(lambda part: part).shuffle(3, seed=1),
  ):
    results += [both([data, numbers, data]) for _ in range(2)]
  return results


@case
def a_function_that_returns_shuffled_data():
  doubled = compute(lambda data: data.map(lambda x: 2 * x), DATA)

  @federated(tff.FederatedType(DATA, tff.CLIENTS))
  def both(data):
    data = tff.federated_map(doubled, data)
    return [
      tff.federated_sum(tff.federated_map(in_order, data)) for _ in range(2)
    ]

  numbers = tf.data.Dataset.from_tensor_slices(np.arange(20, dtype=np.float32))
  return [both([numbers.shuffle(20, seed=3)] * 2) for _ in range(2)]


@case
def reductions_of_datasets():
  @compute(DATA)
  def several(data):
    count, (mean, text) = data.reduce(
      (0, (np.float32(0), "")),
      lambda s, x: (
        s[0] + 1,
        (s[1][0] * 0.5 + x, s[1][1] + tf.strings.as_string(x)),
      ),
    )
    return tf.cast(count, tf.float32) + mean + tf.strings.to_number(text + "0")

  @compute(DATA)
  def to_a_variable(data):
    variable = tf.Variable(1.0)

    @tf.function
    def add_all():
      number = data.reduce(0, lambda n, x: (variable.assign_add(x), n + 1)[1])
      with tf.control_dependencies([number]):
        return variable + tf.cast(number, tf.float32)

    return add_all()

  @compute(DATA)
  def within_a_map(data):
    return (
      data.window(3, drop_remainder=False)
      .map(lambda part: part.reduce(np.float32(0), lambda s, x: 2 * s + x))
      .reduce(np.float32(1), lambda s, x: s * 0.5 + x)
    )

  @compute(DATA)
  def rows(data):
    # The accumulator grows.
    return tf.reduce_sum(
      data.reduce(
        tf.zeros([0]), lambda s, x: tf.concat([s, s[:1], [x]], axis=0)
      )
    )

  @compute(DATA)
  def no_zero(data):
    def check(total, x):
      with tf.control_dependencies([tf.debugging.assert_greater(x, 0.0)]):
        return total + x

    return data.reduce(np.float32(0), check)

  clients = [
    tf.data.Dataset.from_tensor_slices(np.arange(n, dtype=np.float32) - n / 3)
    for n in (0, 1, 5, 8)
  ]
  return [
    outcome(summed(function), clients[:size])
    for function in (several, to_a_variable, within_a_map, rows, no_zero)
    for size in (1, 2, 4)
  ]


@case
def texts_of_the_server():
  make = compute(lambda: (tf.constant("ab\0"), tf.constant(["c", ""])))

  @federated
  def at_server():
    return tff.federated_value("d", tff.SERVER), tff.federated_eval(
      make, tff.SERVER
    )

  results = [make(), at_server()]
  return results, [type(x).__name__ for x in tf.nest.flatten(results)]


@case
def results_of_no_clients():
  @federated(INT)
  def same(x):
    return x

  return [outcome(same, scalars(values, np.int32)) for values in ([], [1])]


@case
def a_half_that_fails():
  halves = compute(lambda x: (x + 1, 6 // x), np.int32)

  @federated(INT, INT_AT_SERVER)
  def sums(x, y):
    del y
    pair = tff.federated_map(halves, x)
    return tff.federated_sum(
      tff.federated_map(compute(lambda p: p[0], (np.int32, np.int32)), pair)
    )

  return [
    outcome(sums, scalars(values, np.int32), 0) for values in ([1, 2], [1, 0])
  ]


def aggregates(zero, merge):
  """Returns sums over cohorts; they begin at `zero` and merge by `merge`."""
  first = compute(lambda: np.int32(zero))
  same = compute(lambda x: x, np.int32)

  @federated(INT, INT_AT_SERVER)
  def sums(x, y):
    del y
    return tff.federated_aggregate(x, first(), add, merge, same)

  return [sums(scalars([1] * n, np.int32), 0) for n in SIZES]


@case
def a_zero_that_is_not_neutral():
  return aggregates(10, add)


@case
def a_merge_that_does_not_fit():
  larger = compute(lambda x, y: tf.where(x > y, x, y), (np.int32, np.int32))
  return aggregates(0, larger)


@case
def texts_as_objects():
  length = compute(
    lambda x: tf.reduce_sum(tf.strings.length(x)), tff.TensorType(np.str_, [2])
  )

  texts = [np.array(["ab", "c"], object), np.array([b"d", b""], object)]
  return summed(length)(texts)


@case
def arrays_of_other_kinds():
  three = tff.TensorType(np.int32, [3])

  @federated(tff.FederatedType(three, tff.CLIENTS))
  def sums(x):
    return tff.federated_sum(x)

  same = compute(lambda x: x + 1, three)
  swapped = np.arange(3, dtype=">i4")
  masked = np.ma.array(np.arange(3, dtype=np.int32), mask=[True, False, True])
  return [(sums([x, x]), same(x)) for x in (swapped, masked)]


@case
def values_that_no_argument_brings():
  @compute
  def made():
    return tf.constant(3, tf.int32)

  @federated(INT)
  def sums(x):
    of_client = tff.federated_eval(made, tff.CLIENTS)
    bound = tff.federated_value(np.int32(5), tff.SERVER)
    total = tff.federated_sum(tff.federated_map(add, (x, of_client)))
    return tff.federated_map(add, (total, bound)), tff.federated_eval(
      made, tff.SERVER
    )

  return [sums(scalars([1] * n, np.int32)) for n in SIZES]


@case
def random_numbers_are_new_for_each_client_and_call():
  one = compute(lambda: tf.random.uniform([]))
  pair = compute(lambda: (tf.random.uniform([]), tf.random.uniform([])))
  dropout = compute(
    lambda x: tf.reduce_sum(tf.nn.dropout(tf.ones([1000]), 0.5)) + 0 * x,
    np.float32,
  )
  of_two = compute(lambda x: x[0] * x[1], (np.float32, np.float32))

  @federated(FLOAT)
  def drawn(x):
    zero = pair()
    at_server = tff.federated_value(zero, tff.SERVER)
    values = tff.federated_map(dropout, x)
    of_no_argument = tff.federated_eval(one, tff.CLIENTS)
    return (
      (tff.federated_max(of_no_argument), tff.federated_min(of_no_argument)),
      tff.federated_max(values),
      tff.federated_min(values),
      tff.federated_sum(
        tff.federated_map(
          of_two, (values, tff.federated_broadcast(at_server[0]))
        )
      ),
      tff.federated_sum(values),
      at_server,
    )

  rounds = [drawn(scalars([0.0] * 5)) for _ in range(3)]
  return (
    [
      (most > least, largest > smallest)
      for (most, least), largest, smallest, *_ in rounds
    ],
    [
      bool(np.isclose(product, total * zero[0], rtol=1e-5))
      for *_, product, total, zero in rounds
    ],
    len({float(number) for *_, zero in rounds for number in zero}),
  )


@case
def empty_and_nested_parameters():
  nothing = tff.FederatedType(tff.StructType([]), tff.CLIENTS)
  nested = [("x", INT), ("y", [("z", INT_AT_SERVER), ("none", nothing)])]

  @federated(tff.StructType(nested))
  def sums(arg):
    return tff.federated_sum(arg.x), arg.y.z

  ones = scalars([1] * 40, np.int32)
  return sums({"x": ones, "y": {"z": 7, "none": [()] * 40}})


@case
def a_table_of_each_client():
  @compute(np.int32)
  def looked_up(x):
    table = tf.lookup.StaticHashTable(
      tf.lookup.KeyValueTensorInitializer([1, 2], [10, 20]), -1
    )
    return table.lookup(x)

  return [summed(looked_up)(scalars([1, 2, 3] * n, np.int32)) for n in (1, 20)]


@case
def slices_that_clients_select():
  table = tff.TensorType(np.float32, [8])
  row = compute(lambda rows, key: rows[key], [table, np.int32])

  @federated(
    tff.FederatedType(tff.TensorType(np.int32, [3]), tff.CLIENTS),
    INT_AT_SERVER,
    tff.FederatedType(table, tff.SERVER),
  )
  def both(keys, most, values):
    slices = tff.federated_select(keys, most, values, row)
    last_rows = tff.federated_map(last, slices)
    return tff.federated_sum(tff.federated_map(total, slices)), last_rows

  keys = [np.array([i % 4, 0, 3], np.int32) for i in range(33)]
  values = np.arange(8, dtype=np.float32)
  return [outcome(both, keys[:n], 4, values) for n in (0, 2, 33)]


@case
def equal_values_of_clients():
  half = compute(lambda: np.float32(0.5))

  @federated(
    FLOAT, FLOAT_AT_SERVER, tff.FederatedType(np.float32, tff.CLIENTS, True)
  )
  def sums(x, y, equal):
    values = [
      equal,
      tff.federated_value(np.float32(1.5), tff.CLIENTS),
      tff.federated_eval(half, tff.CLIENTS),
      tff.federated_broadcast(y),
    ]
    products = [tff.federated_map(times, (x, value)) for value in values]
    return [[*map(tff.federated_sum, of)] for of in (values, products)], values

  return [outcome(sums, scalars(range(n)), 2.0, 3.0) for n in (0, 3, 40)]


@case
def calls_without_values_of_clients():
  half = compute(lambda: np.float32(0.5))

  @federated(FLOAT_AT_SERVER)
  def sums(y):
    sent = tff.federated_broadcast(y)
    halves = tff.federated_eval(half, tff.CLIENTS)
    return tff.federated_sum(halves), tff.federated_mean(sent), y

  @federated(np.float32)
  def placed(y):
    at_server = tff.federated_value(y, tff.SERVER)
    return tff.federated_sum(tff.federated_broadcast(at_server)), at_server

  return [
    outcome(comp, number)
    for comp in (sums, placed)
    for number in (np.nan, -0.0)
  ]


@case
def data_of_the_server_and_as_lists():
  @federated(
    tff.FederatedType(DATA, tff.CLIENTS), tff.FederatedType(DATA, tff.SERVER)
  )
  def both(data, other):
    sums = tff.federated_sum(tff.federated_map(in_order, data))
    return sums, tff.federated_map(in_order, other)

  rows = [1.0, 2.0, 4.0]
  none = tf.data.Dataset.from_tensor_slices(np.zeros(0, np.float32))
  data = tf.data.Dataset.from_tensor_slices(np.array(rows, np.float32))
  return [
    both([rows, data, none] * n, other)
    for n in (1, 20)
    for other in (rows, data)
  ]


@case
def states_that_come_back_changed():
  rows = tff.TensorType(np.float32, [None, 8])
  add_one = compute(lambda x: x + 1, rows)

  @federated(tff.FederatedType(rows, tff.SERVER), FLOAT)
  def step(state, x):
    return tff.federated_map(add_one, state), tff.federated_sum(x)

  def written(state):
    state = state.copy()
    state[0] = 5
    return state

  state, results = np.arange(800, dtype=np.float32).reshape(-1, 8), []
  for change in (
    lambda state: state,
    written,
    lambda state: state[1:],
    lambda state: state[::-1],
    lambda state: state.copy(order="F"),
    lambda state: state.view(np.int32).view(np.float32),
  ):
    for _ in range(2):
      state, total_of_x = step(change(state), scalars([1.0, 2.0]))
      results.append((state, total_of_x))
  return results


def lines_of(path):
  return len(path.read_text().splitlines()) if path.exists() else 0


def printing(path):
  """Returns a computation that appends a line to a file."""

  @compute(np.int32)
  def say(x):
    line = tf.print("called", output_stream=f"file://{path}")
    with tf.control_dependencies([line]):
      return tf.identity(x), x + 1

  return say


@case
def effects_beside_a_result_that_is_not_used():
  second = compute(lambda pair: pair[1], (np.int32, np.int32))
  counts = []
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "lines")
    say = printing(path)

    @federated(INT, INT_AT_SERVER)
    def sums(x, y):
      said = tff.federated_map(second, tff.federated_map(say, x))
      at_server = tff.federated_map(second, tff.federated_map(say, y))
      return tff.federated_sum(said), at_server

    for n in (0, 3, 40):
      counts.append((sums(scalars([1] * n, np.int32), 5), lines_of(path)))
  return counts


@case
def effects_at_the_server_before_a_sum():
  second = compute(lambda pair: pair[1], (np.int32, np.int32))
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "lines")
    say = printing(path)

    @federated(INT, INT_AT_SERVER)
    def sums(x, y):
      sent = tff.federated_map(second, tff.federated_map(say, y))
      both = tff.federated_map(add, (x, tff.federated_broadcast(sent)))
      return tff.federated_sum(both), sent

    return sums(scalars([1] * 70, np.int32), 5), lines_of(path)


def outcome(comp, *args):
  """Returns the result of a call, or "an error" if it raises one."""
  try:
    return comp(*args)
  except Exception:
    return "an error"


@pytest.fixture(scope="module")
def expected():
  runtime.use_local(exact=True)
  found = {name: function() for name, function in CASES.items()}
  runtime.use_local()
  return found


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_executors(expected, name):
  ways.assert_same_bits(CASES[name](), expected[name])


def test_the_log_names_what_keeps_a_computation_as_it_is(caplog):
  noisy = compute(lambda x: x + tf.random.normal([], seed=1), np.float32)
  with caplog.at_level(logging.DEBUG, logger="tff_fair.runtime"):
    summed(noisy)(scalars([1.0]))
  assert any("RandomStandardNormal" in r.getMessage() for r in caplog.records)
