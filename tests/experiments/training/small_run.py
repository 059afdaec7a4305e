"""A run of a few seconds, and helpers that tests of runs share."""

import functools
import signal
from unittest import mock

import numpy as np
import pytest
import tensorflow_federated as tff

import tff_fair
from tff_fair import experiments, methods
from tff_fair.experiments import RunSpec
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.training import build, rounds
from tff_fair.runtime import compilation_cache

SMALL = RunSpec(
  task_options={"num_clients": 6, "model": "logistic_regression"},
  algorithm="fedavg",
  clients_per_round=4,
  total_rounds=3,
  rounds_per_evaluation=2,
)
# Maps each method that needs no groups of people to the settings it needs.
METHODS = {
  name: {"local_steps": 2} if name == "drfa" else {}
  for name in methods.names()
  if name not in ("fairfed", "fedminmax")
}
TABLES = ("metrics", "cohorts", "evaluations", "client_evaluations")


@functools.cache
def process_of(task, algorithm):
  return tff_fair.algorithms.build(
    algorithm,
    task.model_fn,
    client_optimizer=tff.learning.optimizers.build_sgdm(0.5),
    batch_size=16,
    num_clients=task.num_clients,
  )


def train(spec, path=None, *, progress=False, **options):
  """Runs an experiment without reporting progress."""
  return experiments.run(spec, path, progress=progress, **options)


def train_on(task, spec, path, **options):
  """Runs on `task`, instead of the task that the settings name."""
  with mock.patch.object(task_loading, "load", return_value=task):
    return train(spec, path, **options)


def before_round(monkeypatch, number, act):
  """Makes later runs call `act` before round `number`."""
  run_round = rounds.RoundRunner.run

  def run(self, state, round_num):
    if round_num == number:
      act()
    return run_round(self, state, round_num)

  monkeypatch.setattr(rounds.RoundRunner, "run", run)


def interrupt(spec, path, after):
  """Runs until Ctrl-C comes after round `after`; returns the exception."""
  ctrl_c = functools.partial(signal.raise_signal, signal.SIGINT)
  with pytest.MonkeyPatch.context() as patched:
    before_round(patched, after + 1, ctrl_c)
    with pytest.raises(KeyboardInterrupt) as raised:
      train(spec, path)
  return raised.value


def parts_of(spec, cache=compilation_cache.NO_CACHE):
  """Returns the parts of a run, as the run itself makes them."""
  return build.run_parts(spec, build.load_task(spec), cache)


def tables(run, names=TABLES):
  """Returns the bytes of a run's tables."""
  return [(run.path / f"{name}.csv").read_bytes() for name in names]


def check_same(arrays, others):
  """Checks that arrays are the same bit for bit."""
  for one, other in zip(arrays, others, strict=True):
    assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
