"""Fixtures that replace training in this process."""

import contextlib

import pytest

from tests.experiments.sweeps import fake_search
from tff_fair.experiments import interruption
from tff_fair.experiments.sweeps import executors, jobs, processes, runner


class Processes:
  """Runs a search's jobs in this process, instead of processes of their own."""

  def __init__(self):
    self.interrupted_at = None
    self.num_started = 0

  def run_all(self, next_job, executor, start):
    del start
    running = []
    while True:
      while executor.has_room(len(running)) and (job := next_job()) is not None:
        running.append(job)
      if not running:
        return
      # Out of order, since runs need not end in the order in which they
      # started.
      job = running.pop(self.num_started % len(running))
      if self.num_started == self.interrupted_at:
        raise interruption.Interrupted(2)
      self.num_started += 1
      status = 0
      try:
        job.train(job.spec, job.path)
      except ValueError as error:
        job.log.write_text(f"{error}\n")
        status = 1
      yield jobs.JobEnd(job, status, 0.1)


@pytest.fixture
def faked(monkeypatch):
  """Replaces training and its processes; returns the fake `Processes`."""
  fake = Processes()
  monkeypatch.setattr(runner, "train", fake_search.train)
  monkeypatch.setattr(processes.Processes, "session", contextlib.nullcontext)
  monkeypatch.setattr(executors, "run_all", fake.run_all)
  # None means that no run has too few clients to divide them.
  monkeypatch.setattr(processes, "call", lambda *_: None)
  return fake
