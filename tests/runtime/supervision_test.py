"""Tests of computations that a program ends early."""

import contextlib
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.computations import slow, summed
from tff_fair import runtime
from tff_fair.runtime import threads


class EnoughError(Exception):
  pass


def drawing(x):
  return slow(0.5)(x) + 0 * tf.random.uniform([])


@pytest.mark.parametrize("is_one_graph", [True, False])
def test_what_a_check_raises_ends_the_wait_and_the_computation(is_one_graph):
  half_a_second = slow(0.5)
  if not is_one_graph:
    half_a_second = tff.tensorflow.computation(drawing, np.float32)
  total = summed(half_a_second)
  assert total([1.0]) == 1.0
  begin = time.monotonic()
  looks = []

  def check():
    looks.append(None)
    if len(looks) == 3:
      raise EnoughError

  with runtime.supervised(check=check), pytest.raises(EnoughError):
    total([1.0] * 60)
  # Clients that have begun may end; all 60 would take longer.
  assert time.monotonic() - begin < 10
  assert total([2.0]) == 2.0
  assert threading.current_thread() is threading.main_thread()


def test_a_check_that_raises_at_once_computes_nothing():
  def check():
    raise EnoughError

  with runtime.supervised(check=check), pytest.raises(EnoughError):
    summed(slow(0.0))([1.0])


def test_a_wait_keeps_the_check_it_began_with():
  with contextlib.ExitStack() as stack:
    stack.enter_context(runtime.supervised(check=stack.close))
    assert summed(slow(0.5))([1.0]) == 1.0


def test_a_call_is_cancelled_only_within_its_context():
  begun, cancelling, told = threading.Event(), threading.Event(), []

  def cancel():
    cancelling.set()
    time.sleep(0.1)
    told.append("cancelled")

  def compute():
    with threads.on_cancel(cancel):
      begun.set()
      cancelling.wait()
    told.append("left")

  call = threads.Call(compute)
  begun.wait()
  call.cancel()
  assert told == ["cancelled", "left"]
