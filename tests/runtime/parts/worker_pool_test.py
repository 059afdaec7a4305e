"""Tests of computing in several workers, some of which are lost."""

import asyncio
import concurrent.futures
import os
import signal
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow_federated as tff

from tests.runtime.computations import ROW, fail, rows, slow
from tff_fair import runtime
from tff_fair.runtime import native, supervision
from tff_fair.runtime.parts import worker_pool

SECONDS_OF_WORK = 0.15


add = tff.tensorflow.computation(lambda x, y: x + y)
ARGUMENTS = (
  tff.FederatedType(ROW, tff.SERVER),
  tff.FederatedType(ROW, tff.CLIENTS),
)


slow_row = slow(SECONDS_OF_WORK, ROW)


@tff.federated_computation(*ARGUMENTS)
def slow_sum(start, values):
  summed = tff.federated_sum(
    tff.federated_map(slow(SECONDS_OF_WORK, ROW), values)
  )
  return tff.federated_map(add, (start, summed))


@tff.federated_computation(*ARGUMENTS)
def quick_sum(start, values):
  return tff.federated_map(add, (start, tff.federated_sum(values)))


START = np.arange(3, dtype=np.float32)


def addresses(workers):
  return [worker.address for worker in workers]


def test_the_result_is_that_of_the_parts_in_any_worker(two_workers):
  values = rows(23)
  found = []
  for workers in (two_workers[:1], two_workers, two_workers[::-1]):
    runtime.use_workers(addresses(workers), clients_per_part=3)
    found += [quick_sum(START, values).tobytes() for _ in range(3)]
  assert len(set(found)) == 1
  np.testing.assert_allclose(
    np.frombuffer(found[0], np.float32), START + np.sum(values, 0), rtol=1e-5
  )
  runtime.use_workers(addresses(two_workers), clients_per_part=4)
  # So the order is not irrelevant.
  assert quick_sum(START, values).tobytes() != found[0]


@pytest.mark.parametrize("clients_per_part", [0, 23, None])
def test_what_is_not_cut_is_as_on_a_local_worker(two_workers, clients_per_part):
  values = rows(23)
  runtime.use_local()
  expected = quick_sum(START, values)
  runtime.use_workers(addresses(two_workers), clients_per_part)
  np.testing.assert_array_equal(quick_sum(START, values), expected)


def test_sums_that_depend_on_sums_are_one_part(two_workers):
  @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
  def centred(values):
    broadcast = tff.federated_broadcast(tff.federated_mean(values))
    subtract = tff.tensorflow.computation(lambda x, y: x - y)
    return tff.federated_sum(tff.federated_map(subtract, (values, broadcast)))

  runtime.use_workers(addresses(two_workers), clients_per_part=1)
  assert centred([1.0, 2.0, 6.0]) == 0.0


def test_errors_of_a_computation_are_its_own(two_workers):
  runtime.use_workers(addresses(two_workers))
  said = []
  with (
    runtime.supervised(say=said.append),
    pytest.raises(Exception, match="on purpose"),
  ):
    fail(1.0)
  assert said == []


def test_a_worker_that_others_started_again_goes_on():
  with runtime.start_worker(private=False) as worker:
    port = worker.port
    runtime.use_workers([worker.address])
    assert len(quick_sum(START, rows(2))) == 3
  with runtime.start_worker(port):
    said = []
    with runtime.supervised(say=said.append):
      assert len(quick_sum(START, rows(2))) == 3  # By an executor of before.
    assert said == []


def send_soon(worker, number):
  def send():
    time.sleep(1.5 * SECONDS_OF_WORK)
    os.kill(worker.pid, number)

  threading.Thread(target=send, daemon=True).start()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_is_lost_in_a_round_changes_nothing(two_workers, number):
  values = rows(6)
  with runtime.start_worker() as third:
    runtime.use_workers(
      [two_workers[0].address, third.address], clients_per_part=1, timeout=1.0
    )
    expected = slow_sum(START, values)
    said = []
    with runtime.supervised(say=said.append):
      send_soon(third, number)
      np.testing.assert_array_equal(slow_sum(START, values), expected)
      assert len(said) == 1
      assert third.address in said[0]
      np.testing.assert_array_equal(slow_sum(START, values), expected)
      assert len(said) == 1
      if number == signal.SIGSTOP:
        os.kill(third.pid, signal.SIGCONT)
        deadline = time.monotonic() + 20.0
        while len(said) == 1 and time.monotonic() < deadline:
          time.sleep(0.1)
        assert said[1:] == [f"The worker at {third.address} answers again."]
        np.testing.assert_array_equal(slow_sum(START, values), expected)


def test_when_all_are_lost_it_is_told():
  with runtime.start_worker() as worker:
    runtime.use_workers([worker.address], timeout=0.5)
    assert len(quick_sum(START, rows(2))) == 3
  said = []
  with runtime.supervised(say=said.append):
    for _ in range(2):
      with pytest.raises(runtime.WorkerLostError, match="all workers"):
        quick_sum(START, rows(2))
  assert len(said) == 1


# The pool alone, with workers that tests drive.


class Pulse:
  """Answers as a test wants."""

  def __init__(self):
    self.how: str | None = None
    self.notices = True

  async def problem(self):
    await asyncio.sleep(0)
    return self.how

  async def stops(self):
    while self.how is None or not self.notices:
      await asyncio.sleep(0.001)
    return self.how


class Worker:
  """Computes by a function of the test; a result that is an error is raised."""

  def __init__(self, name, compute):
    self.address = name
    self.pulse = Pulse()
    self.num_connections = 1
    self._compute = compute

  def submit(self, comp, arg):
    future = concurrent.futures.Future()
    result = self._compute(comp, arg)
    if isinstance(result, BaseException):
      future.set_exception(result)
    elif result is not None:  # Else it never ends.
      future.set_result(result)
    return future

  def reconnect(self):
    self.num_connections += 1


class Comp:
  """A computation."""


@pytest.fixture
def said(monkeypatch):
  monkeypatch.setattr(native, "compile_ahead", lambda comp: comp)
  monkeypatch.setattr(worker_pool, "_SECONDS_BETWEEN_QUESTIONS", 0.001)
  lines = []
  with runtime.supervised(say=lines.append):
    yield lines


def pool_of(workers, timeout=0.05, straggler_timeout=None):
  return worker_pool.WorkerPool(
    workers, timeout=timeout, straggler_timeout=straggler_timeout
  )


def call_all(workers, args, **settings):
  """Calls a computation with each argument; returns results and errors."""

  async def calls():
    pool = pool_of(workers, **settings)
    comp = Comp()
    return await asyncio.wait_for(
      asyncio.gather(
        *(pool.call(comp, arg) for arg in args), return_exceptions=True
      ),
      timeout=10.0,
    )

  return asyncio.run(calls())


def test_each_call_has_the_result_of_its_argument(said):
  workers = [Worker(str(n), lambda _, arg: arg + 1) for n in range(3)]
  assert call_all(workers, range(50)) == [*range(1, 51)]
  assert said == []


def test_several_arguments_are_one_structure(said):
  async def call():
    pool = pool_of([Worker("a", lambda _, arg: arg)])
    return await pool.call(Comp(), 1, 2)

  assert asyncio.run(call()) == tff.structure.Struct.unnamed(1, 2)
  assert said == []


def test_a_lost_worker_comes_back(said):
  errors = [ConnectionError("was lost")]
  worker = Worker("a", lambda _, arg: errors.pop() if errors else arg)
  assert call_all([worker], [7]) == [7]
  assert worker.num_connections == 2
  assert said == [
    "The worker at a was lost. Its part is computed again, with the same "
    "result.",
    "The worker at a answers again.",
  ]


def test_a_line_into_a_closed_output_stops_no_work(said):
  def refuse(line):
    said.append(line)
    raise BrokenPipeError

  errors = [ConnectionError("was lost")]
  worker = Worker("a", lambda _, arg: errors.pop() if errors else arg)
  with runtime.supervised(say=refuse):
    assert call_all([worker], [7]) == [7]
  assert len(said) == 2


def test_a_part_that_three_workers_die_of_is_told(said):
  deadly = Worker("a", lambda _, arg: arg or ConnectionError("was lost"))
  results = call_all([deadly], [1, 0, 2])
  assert (results[0], results[2]) == (1, 2)
  assert isinstance(results[1], supervision.WorkerLostError)
  assert "3 workers in a row" in str(results[1])
  assert "at a, was lost" in str(results[1])
  assert len(said) == 5  # Lost, back, lost, back; back.


def test_a_silent_worker_is_told_from_one_that_is_busy(said):
  silent = Worker("silent", lambda *_: None)
  silent.pulse.how = "does not answer for 1 s"
  assert call_all([silent, Worker("b", lambda _, arg: arg)], [4, 5]) == [4, 5]
  (line,) = said
  assert line.startswith("The worker at silent does not answer for 1 s.")


def test_an_error_of_grpc_at_a_worker_that_is_gone_is_a_loss(said):
  class Broken(grpc.RpcError):
    pass

  gone = Worker("gone", lambda *_: Broken())
  gone.pulse.how = "is gone"
  gone.pulse.notices = False
  assert call_all([gone, Worker("b", lambda _, arg: arg)], [4, 5]) == [4, 5]
  (line,) = said
  assert line.startswith("The worker at gone is gone.")
  gone.pulse.how = None  # It lives: the error is the computation's.
  (error,) = call_all([gone], [4])
  assert isinstance(error, Broken)


def test_a_straggler_s_part_is_computed_elsewhere_too(said):
  slow = Worker("slow", lambda *_: None)
  fast = Worker("fast", lambda _, arg: arg)
  assert call_all([slow, fast], [4, 5], straggler_timeout=0.02) == [4, 5]
  assert said == [
    "The worker at slow has computed for 0.02 s. Another one computes the "
    "same, and the first result counts."
  ]


def test_calls_fail_when_all_workers_stay_away(said):
  workers = [Worker(name, lambda *_: None) for name in "ab"]
  for worker in workers:
    worker.pulse.how = "is gone"
  for error in call_all(workers, [1, 2, 3]):
    assert isinstance(error, supervision.WorkerLostError)
    assert "all workers are lost; the last one, at b, is gone" in str(error)
  assert len(said) == 2


def test_a_call_that_no_task_awaits_is_not_begun(said):
  begun = []

  def compute(_, arg):
    begun.append(arg)
    return arg

  async def cancelled():
    pool = pool_of([Worker("a", compute)])
    comp = Comp()
    await pool.call(comp, 1)
    task = asyncio.ensure_future(pool.call(comp, 2))
    await asyncio.sleep(0)
    task.cancel()
    assert await pool.call(comp, 3) == 3

  asyncio.run(cancelled())
  assert begun == [1, 3]
  assert said == []
