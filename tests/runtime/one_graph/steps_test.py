"""Tests of reading compiled computations as steps."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.one_graph import whole_graph_test as computations
from tff_fair.runtime import admission, native
from tff_fair.runtime.one_graph import steps

AT_CLIENTS = tff.FederatedType(np.float32, tff.CLIENTS)


def read(comp):
  return steps.read(native.compile_now(comp))


def loops(placed):
  if isinstance(placed, steps.Step):
    return placed.loops
  return tuple(map(loops, placed))


def test_a_step_waits_for_as_many_loops_as_there_are_sums_before_it():
  plan = read(computations.in_two_loops)
  assert loops(plan.result) == (3, 3)
  assert [step.at_clients for step in plan.arguments] == [False, True]
  assert {
    s.loops for s in plan.needed_steps if isinstance(s, steps.Aggregation)
  } == {
    1,
    2,
    3,
  }


def test_each_step_comes_after_its_sources_and_nothing_else_is_needed():
  @tff.federated_computation(AT_CLIENTS, AT_CLIENTS)
  def first_alone(first, second):
    del second
    return computations.aggregate(first)

  plan = read(first_alone)
  places = {step: place for place, step in enumerate(plan.needed_steps)}
  for step, place in places.items():
    assert all(places[source] < place for source in step.sources)
  assert plan.arguments[0] in places
  assert plan.arguments[1] not in places


@tff.federated_computation(AT_CLIENTS)
def clients_keep(values):
  return tff.federated_map(computations.same, values)


@tff.federated_computation(
  tff.FederatedType(np.float32, tff.CLIENTS, all_equal=True), AT_CLIENTS
)
def alike(value, values):
  return computations.aggregate(
    tff.federated_map(computations.add, (value, values))
  )


@tff.federated_computation(tff.FederatedType(np.float32, tff.SERVER))
def server_alone(value):
  return tff.federated_map(computations.same, value)


@tff.federated_computation(AT_CLIENTS)
def secure(values):
  places = tff.federated_map(
    tff.tensorflow.computation(
      lambda x: tf.cast(x, tf.int32), tff.TensorType(np.float32)
    ),
    values,
  )
  return tff.federated_secure_sum_bitwidth(places, 8)


@tff.federated_computation(np.float32)
def without_a_place(value):
  return value


@pytest.mark.parametrize(
  ("comp", "reason"),
  [
    (clients_keep, "no sum over clients"),
    (alike, "one argument for all clients"),
    (server_alone, "no sum over clients"),
    (without_a_place, "argument without a place"),
  ],
)
def test_what_cannot_be_one_graph_says_why(comp, reason):
  with pytest.raises(admission.NotAdmittedError, match=reason):
    read(comp)


def test_other_intrinsics_are_named():
  message = tff.framework.serialize_computation(secure)
  with pytest.raises(admission.NotAdmittedError, match="secure_sum"):
    steps.read(message)
