"""Tests of computing where the program said, in each of its threads."""

import concurrent.futures

import pytest
import tensorflow_federated as tff

from tff_fair import runtime


@pytest.fixture(autouse=True)
def leave_a_local_worker():
  yield
  runtime.use_local()


def two():
  return tff.tensorflow.computation(lambda: 2)()


def test_without_a_choice_it_is_a_local_worker():
  runtime.stop()
  runtime.use_default()
  assert len(runtime.worker_pids()) == 1
  assert two() == 2


def test_a_choice_holds():
  with runtime.start_worker() as worker:
    runtime.use_workers([worker.address])
    before = runtime.worker_pids()
    runtime.use_default()
    assert runtime.worker_pids() == before


def test_a_choice_holds_in_other_threads():
  runtime.use_local()
  before = runtime.worker_pids()

  def compute():
    runtime.use_default()
    return two()

  with concurrent.futures.ThreadPoolExecutor(1) as executor:
    assert executor.submit(compute).result() == 2
  assert two() == 2
  assert runtime.worker_pids() == before


def test_one_that_returns_no_values_does_not_count():
  runtime.use_local(program=True)
  runtime.use_default()
  assert two() == 2
