"""Labels that a model has no output for, in a process of the library."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import small_problem
from tests.runtime import computations
from tff_fair import runtime
from tff_fair.runtime import label_errors


def client(client_id, labels):
  x = np.ones([len(labels), small_problem.NUM_FEATURES], np.float32)
  return small_problem.whole(client_id, (x, np.array(labels, np.int32)))


@pytest.fixture(scope="module")
def process():
  return computations.process("fedavg")


@pytest.mark.parametrize("label", [3, -1, 7])
def test_the_client_and_its_label_are_named(process, label):
  state = process.initialize()
  good = [client(k, [0, 1, 2]) for k in range(3)]
  with pytest.raises(
    ValueError, match=f"y .*client 70 .*label {label};.* 0 to 2"
  ) as caught:
    process.next(state, [*good, client(70, [0, 1, 2, label])])
  assert "\n" not in str(caught.value)
  # The context is as good as before.
  process.next(state, good)


def test_they_are_named_where_the_worker_says_it_at_last():
  outside = (
    "Received a label value of 4 which is outside the valid range of [0, 3)."
  )
  said = iter(["Operation was cancelled"] * 3 + [outside])

  def compute(_):
    raise Exception(next(said))  # As a worker of Dask does.

  arg = tff.structure.Struct([("clients", [client(70, [0, 4])])])
  with pytest.raises(ValueError, match=r"client 70 .*label 4"):
    label_errors.explained(compute, arg)


def test_they_are_named_after_a_client_that_is_always_cancelled():
  cohort = [client(7, [0]), client(70, [0, 4])]

  def compute(arg):
    if arg.clients == [cohort[1]]:
      raise Exception(
        "Received a label value of 4 which is outside the valid range of [0, 3)"
      )
    raise Exception("Operation was cancelled")

  arg = tff.structure.Struct([("clients", cohort)])
  with pytest.raises(ValueError, match=r"client 70 .*label 4"):
    label_errors.explained(compute, arg)


def test_they_are_named_where_several_workers_compute(process):
  state = process.initialize()
  clients = [client(k, [0, 1, 2]) for k in range(3)]
  with runtime.start_worker() as worker:
    runtime.use_workers([worker.address], clients_per_part=2)
    with pytest.raises(ValueError, match=r"client 70 .*label 4"):
      process.next(state, [*clients, client(70, [4])])
    process.next(state, clients)
