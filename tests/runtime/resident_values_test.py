"""Tests of values that stay in the worker."""

import collections
import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.runtime import resident_values, returned_values

DATA = tff.SequenceType(tff.TensorType(np.int32, [None]))


@tff.tensorflow.computation(np.int32, DATA)
def total(factor, data):
  return factor * data.reduce(0, lambda s, x: s + tf.reduce_sum(x))


@tff.federated_computation(
  tff.FederatedType(np.int32, tff.SERVER),
  tff.FederatedType(DATA, tff.CLIENTS),
)
def totals(factor, data):
  return tff.federated_map(total, (tff.federated_broadcast(factor), data))


@pytest.fixture(autouse=True)
def new_worker():
  """Values that other tests sent must not count."""
  runtime.use_local()


@pytest.fixture
def sent(monkeypatch):
  """What is sent, by the sizes of lists of datasets."""
  sizes = []
  send = tff.framework.RemoteExecutor.create_value

  async def create_value(self, value, type_spec=None):
    if isinstance(value, list):
      sizes.append(len(value))
    return await send(self, value, type_spec)

  monkeypatch.setattr(
    tff.framework.RemoteExecutor, "create_value", create_value
  )
  return sizes


def datasets(*numbers):
  return [tf.data.Dataset.from_tensors(np.int32([n, n])) for n in numbers]


def test_the_third_time_nothing_is_sent(sent):
  data = datasets(1, 2, 3)
  for factor in (1, 2, 3, 4):
    assert totals(factor, data) == [2 * factor, 4 * factor, 6 * factor]
  assert sent == [3, 3]


def test_a_list_is_known_by_its_datasets(sent):
  one, two, three = datasets(1, 2, 3)
  for cohort, expected in (
    ([one, two], [2, 4]),
    ([one, two], [2, 4]),
    ([one, two], [2, 4]),
    ([two, one], [4, 2]),
    ([one, three], [2, 6]),
    ([one, one], [2, 2]),
    ([one, two], [2, 4]),
  ):
    assert totals(1, cohort) == expected
  assert len(sent) == 5


def test_new_datasets_in_the_place_of_old_ones():
  # Their ids are used again.
  for n in range(8):
    assert totals(1, datasets(n, n + 1)) == [2 * n, 2 * n + 2]
    gc.collect()


def test_what_is_too_large_is_sent_each_time(sent, monkeypatch):
  monkeypatch.setattr(resident_values, "_MOST_BYTES", 100)
  data = datasets(1, 2)
  for _ in range(4):
    assert totals(1, data) == [2, 4]
  assert sent == [2] * 4


def test_the_least_recently_used_goes_first(sent, monkeypatch):
  monkeypatch.setattr(resident_values, "_MOST_VALUES", 3)
  cohorts = [datasets(n, n) for n in range(4)]
  for cohort in cohorts * 3:  # More than there is room for: no one is known.
    totals(1, cohort)
  assert len(sent) == 12
  for _ in range(3):
    totals(1, cohorts[3])
  assert len(sent) <= 14


def test_datasets_that_draw_at_random_draw_anew():
  # A seed that an earlier test set would be in the dataset.
  tf.random.set_seed(None)
  data = [
    tf.data.Dataset.range(1000)
    .shuffle(1000)
    .take(1)
    .map(lambda x: tf.cast(x, tf.int32)[tf.newaxis])
  ]
  assert len({totals(1, data)[0] for _ in range(8)}) > 1


def test_a_new_worker_has_nothing(sent):
  data = datasets(5)
  for _ in range(3):
    assert totals(1, data) == [10]
  runtime.use_local()
  for _ in range(3):
    assert totals(2, data) == [20]
  assert sent == [1] * 4


STATE = tff.FederatedType(
  tff.to_type(
    [("weights", tff.TensorType(np.float32, [None])), ("n", np.int32)]
  ),
  tff.SERVER,
)


@tff.federated_computation(STATE)
def step(state):
  @tff.tensorflow.computation(STATE.member)
  def next_state(state):
    return collections.OrderedDict(
      weights=state["weights"] + 1.0, n=state["n"] + 1
    )

  @tff.tensorflow.computation(STATE.member)
  def norm(state):
    return tf.reduce_max(state["weights"])

  return (
    tff.federated_map(next_state, state),
    tff.federated_map(norm, state),
  )


class TestStates:
  @pytest.fixture
  def states(self, monkeypatch):
    """The states that are sent, by their `n`."""
    numbers = []
    send = tff.framework.RemoteExecutor.create_value

    async def create_value(self, value, type_spec=None):
      if isinstance(type_spec, tff.FederatedType):
        numbers.append(int(value["n"]))
      return await send(self, value, type_spec)

    monkeypatch.setattr(
      tff.framework.RemoteExecutor, "create_value", create_value
    )
    return numbers

  def first(self, size=2**15):
    return collections.OrderedDict(
      weights=np.zeros(size, np.float32), n=np.int32(0)
    )

  def test_comes_back_without_being_sent(self, states):
    state = self.first()
    for n in range(1, 6):
      state, largest = step(state)
      assert (state["n"], largest) == (n, n - 1)
      np.testing.assert_array_equal(state["weights"], n)
    assert states == [0]

  def test_nobody_can_write_into_it(self):
    state, _ = step(self.first())
    with pytest.raises(ValueError, match="read-only"):
      state["weights"][7] = 10.0
    with pytest.raises(ValueError, match="WRITEABLE"):
      state["weights"].flags.writeable = True

  def test_is_sent_if_it_is_writable(self):
    returned = returned_values.ReturnedValues()

    class Remote:
      type_signature = tff.StructType([STATE])

    value = self.first()
    member = tff.structure.from_container(value)
    returned.remember(Remote(), tff.structure.Struct([(None, member)]))
    assert returned.take(value, STATE) is None
    value["weights"].flags.writeable = False
    returned.remember(Remote(), tff.structure.Struct([(None, member)]))
    assert returned.take(value, STATE) is not None

  def test_is_sent_if_a_part_was_exchanged(self, states):
    state, _ = step(self.first())
    changed = collections.OrderedDict(state, n=np.int32(8))
    assert step(changed)[0]["n"] == 9
    changed = collections.OrderedDict(state, weights=state["weights"].copy())
    assert step(changed)[0]["n"] == 2
    assert states == [0, 8, 1]

  def test_may_be_used_twice(self, states):
    state, _ = step(self.first())
    for _ in range(2):
      assert step(state)[0]["n"] == 2
    assert states == [0, 1]

  def test_of_several_programs_in_turn(self, states):
    runs = [self.first() for _ in range(3)]
    for _ in range(4):
      runs = [step(state)[0] for state in runs]
    assert [state["n"] for state in runs] == [4, 4, 4]
    assert states == [0, 0, 0]

  def test_small_states_are_sent(self, states):
    state = self.first(size=8)
    for _ in range(3):
      state, _ = step(state)
    assert states == [0, 1, 2]

  def test_a_new_worker_has_nothing(self, states):
    state, _ = step(self.first())
    runtime.use_local()
    assert step(state)[0]["n"] == 2
    assert states == [0, 1]

  def test_what_the_program_dropped_is_dropped(self):
    returned = returned_values.ReturnedValues()

    class Remote:
      type_signature = tff.StructType([STATE])

    value = tff.structure.Struct.named(
      weights=np.zeros(2**15, np.float32), n=np.int32(1)
    )
    value.weights.flags.writeable = False
    kept = weakref.ref(remote := Remote())
    returned.remember(remote, tff.structure.Struct([(None, value)]))
    del remote
    assert kept() is not None
    del value
    small = Remote()
    returned.remember(small, tff.structure.Struct([(None, np.int32(1))]))
    assert kept() is None
