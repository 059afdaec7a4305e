"""Tests of runs whose workers are lost: killed, frozen, again and again."""

import os
import signal
import threading
import time

import pytest

from tests.experiments.training.small_run import (
  SMALL,
  before_round,
  tables,
  train,
)
from tff_fair import experiments, runtime

pytestmark = pytest.mark.usefixtures(
  "compiled_once", "unpainted", "in_new_folder"
)


def test_workers_that_are_killed_or_freeze_change_no_result(monkeypatch, capfd):
  undisturbed = train(SMALL, "undisturbed")

  def send(number, delay):
    # Before the round, or in the middle of it: the sooner comes first.
    worker = max(runtime.worker_pids())
    threading.Timer(delay, os.kill, (worker, number)).start()
    time.sleep(0.01)

  before_round(monkeypatch, 2, lambda: send(signal.SIGKILL, 0.0))
  before_round(monkeypatch, 3, lambda: send(signal.SIGSTOP, 0.02))
  runtime.use_local()
  run = experiments.run(SMALL, "run", round_timeout=5.0)
  assert tables(run) == tables(undisturbed)
  assert run.summary == undisturbed.summary
  lines = [
    line
    for line in capfd.readouterr().err.splitlines()
    if line.startswith("The worker (process")
  ]
  assert "was killed; the machine may have run out of memory" in lines[0]
  assert all("computes this again" in n for n in lines)


def test_workers_lost_again_and_again_end_a_run_that_goes_on(monkeypatch):
  def lose():
    raise runtime.WorkerLostError("3 workers in a row were lost")

  with monkeypatch.context() as patched:
    before_round(patched, 2, lose)
    with pytest.raises(
      experiments.RunError,
      match=r"^run: 3 workers .* 1 of 3 rounds .* run;",
    ):
      train(SMALL, "run")
  assert train(SMALL, "run").is_finished


def kill_in_round_2(monkeypatch, worker):
  before_round(monkeypatch, 2, lambda: os.kill(worker.pid, signal.SIGKILL))


def test_a_run_ends_with_the_same_bytes_whichever_workers_are_lost(
  monkeypatch, capfd
):
  def go_on(workers, folder):
    addresses = [worker.address for worker in workers]
    runtime.use_workers(addresses, clients_per_part=2, timeout=1.0)
    return experiments.run(SMALL, folder)

  with runtime.start_worker() as first, runtime.start_worker() as second:
    expected = tables(go_on([first, second], "undisturbed"))
    with monkeypatch.context() as patched:
      kill_in_round_2(patched, second)
      assert tables(go_on([first, second], "one lost")) == expected
    said = capfd.readouterr().err
    assert said.count(f"The worker at {second.address}") == 1
    with monkeypatch.context() as patched:
      kill_in_round_2(patched, first)
      with pytest.raises(
        experiments.RunError,
        match=r"^all lost: .* 1 of 3 rounds ",
      ):
        go_on([first], "all lost")
  with runtime.start_worker() as third:
    assert tables(go_on([third], "all lost")) == expected
  runtime.use_local()
