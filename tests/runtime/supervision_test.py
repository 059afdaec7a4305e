"""Tests of workers that are lost while a program waits for them."""

import concurrent.futures
import contextlib
import os
import signal
import threading
import time

import pytest

from tests.runtime.computations import fail, slow, summed
from tff_fair import runtime
from tff_fair.runtime import supervision

# A client's work is short, but long enough to be killed in the middle.
SECONDS_OF_WORK = 0.6


slow_sum = summed(slow(SECONDS_OF_WORK))
endless_sum = summed(slow(60.0))  # However late a signal or look comes.


@pytest.fixture(autouse=True)
def local_pids():
  """Returns the workers of `use_local`, without those of other tests."""
  others = set(runtime.worker_pids())
  runtime.use_local()
  yield lambda: set(runtime.worker_pids()) - others
  runtime.use_local()


def signal_workers(local_pids, number, times=1):
  """Sends a signal to each worker that comes, soon after it has begun."""
  (first,) = local_pids()
  seen = set()

  def follow():
    deadline = time.monotonic() + 60.0
    while len(seen) < times and time.monotonic() < deadline:
      for worker in local_pids() - seen:
        # One that comes later computes a moment after it is there.
        time.sleep(SECONDS_OF_WORK / 2)
        seen.add(worker)
        with contextlib.suppress(ProcessLookupError):
          os.kill(worker, number)
      time.sleep(0.01)

  threading.Thread(target=follow, daemon=True).start()
  return first


@pytest.mark.parametrize(
  ("number", "how"),
  [(signal.SIGKILL, "was killed"), (signal.SIGSTOP, "did not answer for 4 s")],
)
def test_a_lost_worker_is_replaced_and_computes_the_same(
  local_pids, number, how
):
  said = []
  assert slow_sum([1.0]) == 1.0  # What it keeps is lost, too.
  assert slow_sum([1.0, 2.0]) == 3.0
  with runtime.supervised(timeout=4.0, say=said.append):
    worker = signal_workers(local_pids, number)
    assert slow_sum([1.0, 2.0]) == 3.0
    (line,) = said
    assert line.startswith(f"The worker (process {worker}) {how}")
    assert worker not in local_pids()
    assert slow_sum([1.0]) == 1.0
  assert len(said) == 1


def test_three_lost_workers_in_a_row_are_enough(local_pids):
  said = []
  signal_workers(local_pids, signal.SIGKILL, times=3)
  with (
    runtime.supervised(say=said.append),
    pytest.raises(runtime.WorkerLostError, match="3 workers"),
  ):
    endless_sum([1.0])
  assert len(said) == 2


def test_a_program_that_ends_a_wait_goes_on_with_another_worker(local_pids):
  class Enough(BaseException):
    pass

  looks = []

  def check():
    looks.append(None)
    if len(looks) == 3:
      raise Enough

  (worker,) = local_pids()
  with runtime.supervised(check=check), pytest.raises(Enough):
    endless_sum([1.0])
  assert worker not in local_pids()
  assert slow_sum([1.0]) == 1.0


class LateFuture(concurrent.futures.Future):
  """Ends in the moment in which a look at it is over."""

  def result(self, timeout=None):
    if timeout is not None:
      self.set_result("late")
      raise TimeoutError
    return super().result()


def test_a_computation_may_end_as_a_look_at_it_is_over():
  supervised = supervision.Supervision()
  assert supervision.wait(LateFuture(), supervised, print) == "late"


def test_a_timeout_of_the_computation_is_its_own():
  future = concurrent.futures.Future()
  future.set_exception(TimeoutError("of the computation"))
  with pytest.raises(TimeoutError, match="of the computation"):
    supervision.wait(future, supervision.Supervision(), print)


def test_errors_of_the_computation_are_its_own():
  said = []
  before = runtime.worker_pids()
  with (
    runtime.supervised(say=said.append),
    pytest.raises(Exception, match="on purpose"),
  ):
    summed(fail)([1.0])
  assert said == []
  assert runtime.worker_pids() == before


def test_workers_of_others_are_left_when_they_do_not_answer():
  with runtime.start_worker() as worker:
    runtime.use_workers([worker.address])
    assert slow_sum([1.0]) == 1.0
    with (
      runtime.supervised(timeout=0.3),
      pytest.raises(runtime.WorkerLostError, match="0 s"),
    ):
      slow_sum([1.0])
    assert worker.is_running


class Worker:
  """A worker whose processor time a test sets."""

  def __init__(self):
    self.seconds = 0.0

  def cpu_seconds(self):
    return self.seconds


def waits(monkeypatch, supervised, *, num_seconds, cpu_per_second, step=1.0):
  """Returns whether one still waits after some seconds."""
  now = [0.0]
  monkeypatch.setattr(time, "monotonic", lambda: now[0])
  worker = Worker()
  patience = supervision._Patience(supervised, worker)
  while now[0] < num_seconds:
    now[0] += step
    worker.seconds += step * cpu_per_second
    if patience.is_over():
      return False
  return True


@pytest.mark.parametrize(
  ("settings", "num_seconds", "cpu_per_second", "still_waits"),
  [
    ({}, 300, 0.0, True),
    ({}, 310, 0.0, False),
    ({}, 10_000, 0.5, True),  # It computes.
    ({}, 10_000, 0.001, False),  # It is alive, no more.
    ({"slowest": 100.0}, 1000, 0.0, True),
    ({"slowest": 100.0}, 1010, 0.0, False),
    ({"timeout": 20.0}, 20, 1.0, True),
    ({"timeout": 20.0}, 22, 1.0, False),
    ({"timeout": 0.0}, 10_000, 0.0, True),
  ],
)
def test_patience(
  monkeypatch, settings, num_seconds, cpu_per_second, still_waits
):
  assert still_waits == waits(
    monkeypatch,
    supervision.Supervision(**settings),
    num_seconds=num_seconds,
    cpu_per_second=cpu_per_second,
  )


def test_a_program_that_stood_still_itself_has_not_waited(monkeypatch):
  assert waits(
    monkeypatch,
    supervision.Supervision(timeout=20.0),
    num_seconds=3600,
    cpu_per_second=0.0,
    step=3600.0,
  )
