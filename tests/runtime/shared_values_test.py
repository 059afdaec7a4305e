"""Tests of large arrays that program and worker share."""

import collections
import gc
import mmap

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from benchmarks import measure
from tff_fair import runtime
from tff_fair.runtime import (
  resident_values,
  shared_memory,
  shared_tensors,
  shared_values,
)

WIDTH = 20_000  # 80 kB in float32.
STATE = tff.FederatedType(
  tff.to_type(
    collections.OrderedDict(
      rows=tff.TensorType(np.float32, [None, WIDTH]),
      inner=[tff.TensorType(np.int64), tff.TensorType(np.float64, [2, WIDTH])],
      name=np.str_,
    )
  ),
  tff.SERVER,
)


@tff.tensorflow.computation(STATE.member)
def step(state):
  number, fixed = state["inner"]
  result = collections.OrderedDict(
    rows=tf.concat([state["rows"], state["rows"][:1] + 1], 0),
    inner=[number + 1, fixed * 2],
    name=state["name"] + "!",
  )
  return result, tf.reduce_sum(state["rows"], axis=1)


@tff.federated_computation(STATE)
def next_state(state):
  result = tff.federated_map(step, state)
  return collections.OrderedDict(state=result[0], sums=result[1])


def state_of(num_rows):
  rng = np.random.default_rng(num_rows)
  return collections.OrderedDict(
    rows=rng.normal(size=(num_rows, WIDTH)).astype(np.float32),
    inner=[3, rng.normal(size=(2, WIDTH))],
    name="a",
  )


@pytest.fixture
def sharing_bytes():
  return shared_tensors._LEAST_BYTES


@pytest.fixture(
  autouse=True, params=[2**16, 2**19], ids=["all large", "some large"]
)
def sharing(request, monkeypatch):
  """A new worker, which shares smaller arrays than usual."""
  monkeypatch.setattr(shared_tensors, "_LEAST_BYTES", request.param)
  forget_computations()
  runtime.use_local()
  yield
  runtime.use_local()
  forget_computations()


def forget_computations():
  """They have the size of large arrays in them."""
  shared_tensors.may_have_file.cache_clear()
  shared_tensors.packs.cache_clear()
  shared_tensors.build_reader.cache_clear()
  shared_tensors.build_writer.cache_clear()


def after(num_rounds, state):
  for _ in range(num_rounds):
    output = next_state(state)
    state = output["state"]
  return output


def in_messages(monkeypatch, num_rounds, state):
  """The same, by an executor that shares nothing."""
  with monkeypatch.context() as patched:
    patched.setattr(
      shared_values, "SharingExecutor", resident_values.ResidentExecutor
    )
    runtime.use_local()
    output = after(num_rounds, state)
  runtime.use_local()
  return output


def test_values_are_those_of_messages(monkeypatch):
  for num_rows in (1, 5):
    found = after(4, state_of(num_rows))
    wanted = in_messages(monkeypatch, 4, state_of(num_rows))
    tf.nest.map_structure(np.testing.assert_array_equal, found, wanted)
    for a, b in zip(
      tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True
    ):
      assert type(a) is type(b)
      assert getattr(a, "dtype", None) == getattr(b, "dtype", None)


PACK = tff.FederatedType(
  tff.StructType([tff.TensorType(np.float32, [None, WIDTH])] * 3), tff.SERVER
)


@tff.tensorflow.computation(PACK.member)
def more_rows(rows):
  return rows[0] + 1, tf.concat([rows[1], rows[1]], 0), rows[2]


@tff.federated_computation(PACK)
def next_rows(rows):
  return tff.federated_map(more_rows, rows)


@pytest.mark.parametrize("num_rows", [(0, 2, 0), (3, 3, 1), (4, 9, 0)])
def test_many_small_arrays_are_in_one_file(num_rows, sharing_bytes):
  rng = np.random.default_rng(0)
  rows = [rng.normal(size=(n, WIDTH)).astype(np.float32) for n in num_rows]
  found = next_rows(rows)
  wanted = [rows[0] + 1, np.concatenate([rows[1]] * 2), rows[2]]
  tf.nest.map_structure(np.testing.assert_array_equal, [*found], wanted)
  small = [array for array in found if array.nbytes < sharing_bytes]
  in_file = sum(array.nbytes for array in small) >= sharing_bytes
  assert {is_mapped(array) for array in small if array.size} <= {in_file}
  again = next_rows(found)
  np.testing.assert_array_equal(again[1], np.concatenate([rows[1]] * 4))
  assert all(
    is_mapped(array) for array in again if array.nbytes >= sharing_bytes
  )


def is_mapped(array):
  while isinstance(array, np.ndarray):
    array = array.base
  return isinstance(array, memoryview | mmap.mmap)


def test_large_arrays_stay_in_the_file_that_the_worker_wrote():
  state = after(1, state_of(20))["state"]
  assert shared_memory.file_of(state["rows"]) is not None
  assert shared_memory.file_of(after(1, state)["sums"]) is None


def test_what_the_user_changed_is_sent():
  output = after(2, state_of(8))
  state = output["state"]
  state["rows"] = state["rows"].copy()
  state["rows"][1] = 7.0
  sums = after(1, state)["sums"]
  assert sums[1] == 7.0 * WIDTH
  state["rows"] = state["rows"][::-1]
  np.testing.assert_array_equal(after(1, state)["sums"], sums[::-1])


def test_a_state_from_before_a_new_worker_goes_on():
  wanted = after(4, state_of(8))
  state = after(2, state_of(8))["state"]
  runtime.use_local()
  tf.nest.map_structure(np.testing.assert_array_equal, after(2, state), wanted)


def test_the_worker_keeps_no_rounds_before():
  (pid,) = runtime.worker_pids()
  state = state_of(50)  # 4 MB.

  def run(num_rounds):
    nonlocal state
    for _ in range(num_rounds):
      output = next_state(state)
      state["name"], state["inner"] = "a", output["state"]["inner"]
      state["rows"] = output["state"]["rows"][:-1]
    return measure.current_memory_mb(pid)

  first = run(10)
  assert run(30) < first + 40


def test_a_state_that_the_program_let_go_is_read():
  def output():
    return next_state(after(1, state_of(30))["state"])

  np.testing.assert_array_equal(output()["sums"], output()["sums"])


def test_who_keeps_many_states_gets_them_in_messages(monkeypatch):
  wanted = after(3, state_of(8))
  gc.collect()
  monkeypatch.setattr(shared_memory, "_MOST_FILES", 3)
  states = [state_of(8)]
  for _ in range(3):
    states.append(next_state(states[-1])["state"])
  files = [shared_memory.file_of(state["rows"]) for state in states]
  assert sum(file is not None for file in files) <= 3
  assert files[-1] is None
  tf.nest.map_structure(
    np.testing.assert_array_equal, states[-1], wanted["state"]
  )


def test_without_such_files_all_goes_in_messages(monkeypatch):
  wanted = after(2, state_of(8))
  monkeypatch.setattr(shared_memory, "is_available", lambda: False)
  runtime.use_local()
  found = after(2, state_of(8))
  assert shared_memory.file_of(found["state"]["rows"]) is None
  tf.nest.map_structure(np.testing.assert_array_equal, found, wanted)
