"""Tests of calls in threads and coroutines, and after interrupted calls."""

import asyncio
import collections
import concurrent.futures
import itertools
import os
import signal
import threading

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.computations import summed
from tff_fair import runtime

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("local")]
_SECONDS = 40


@tff.tensorflow.computation(tff.SequenceType(np.float32))
def total_of(data):
  return data.reduce(np.float32(0), lambda s, x: s + x)


@tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
def mean(values):
  return tff.federated_mean(values)


@tff.tensorflow.computation(np.float32)
def positive(x):
  with tf.control_dependencies([tf.debugging.assert_positive(x)]):
    return tf.identity(x)


total = summed(total_of)
total_of_positive = summed(positive)


def datasets(*numbers):
  return [
    tf.data.Dataset.from_tensor_slices(np.float32([n, 1])) for n in numbers
  ]


@pytest.fixture
def local():
  runtime.use_local()
  yield
  runtime.use_local()


def test_threads_get_their_own_results():
  def compute(k):
    runtime.use_default()
    if k % 2:
      return total(datasets(k, k))
    return mean([np.float32(k), np.float32(k + 2)])

  with concurrent.futures.ThreadPoolExecutor(6) as pool:
    found = [*pool.map(compute, range(18), timeout=_SECONDS)]
  assert found == [2 * k + 2 if k % 2 else k + 1 for k in range(18)]


def test_a_coroutine_may_call():
  async def compute(k):
    return total(datasets(k))

  async def compute_all():
    return await asyncio.gather(*map(compute, range(3)))

  assert asyncio.run(compute_all()) == [1, 2, 3]


def test_references_are_awaited_together():
  runtime.use_local(program=True)

  async def compute():
    references = [total(datasets(k)) for k in range(4)]
    kind = tff.program.MaterializableValueReference
    assert all(isinstance(reference, kind) for reference in references)
    return await asyncio.gather(
      *(tff.program.materialize_value(r) for r in references)
    )

  assert asyncio.run(compute()) == [1, 2, 3, 4]


def test_an_interrupted_call_leaves_the_next_one_as_it_was():
  def wait(x):
    def step(i, x):
      return i + 1, tf.sin(x)

    return tf.while_loop(lambda i, _: i < 10**4, step, (0, x))[1]

  long = summed(tff.tensorflow.computation(wait, np.float32))
  assert total_of_positive([1.0, 2.0]) == 3
  timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
  timer.start()
  with pytest.raises(KeyboardInterrupt):
    collections.deque(map(long, itertools.repeat([1.0] * 8)))
  assert total_of_positive([1.0, 2.0]) == 3
  assert total(datasets(1, 2)) == 5
