import importlib.util
import pathlib

import pytest

from tff_fair.declared import FieldError
from tff_fair.experiments import RunSpec
from tff_fair.experiments.sweeps import (
  dask_workers,
  executors,
  submitit_jobs,
  sweep,
)

ON_THIS_MACHINE = {"cluster": "local"}


@pytest.fixture(autouse=True)
def no_slurm(monkeypatch):
  """Hides the commands of a machine that has Slurm."""
  monkeypatch.setenv("PATH", "")


def create(name, options, jobs=None):
  return executors.create(name, options, folder=pathlib.Path("none"), jobs=jobs)


@pytest.mark.parametrize(
  ("name", "options", "jobs", "text"),
  [
    ("local", {}, None, "local (jobs=1)"),
    ("local", {}, 3, "local (jobs=3)"),
    (
      "submitit",
      {"cluster": "local", "timeout_min": "30", "slurm_partition": "gpu"},
      None,
      "submitit (cluster=local, timeout_min=30, slurm_partition=gpu, "
      "restarts=3)",
    ),
    ("submitit", {"restarts": 0}, 2, "submitit (cluster=local, restarts=0)"),
    ("dask", {"restarts": "1"}, 4, "dask (a local cluster of 4, restarts=1)"),
    (
      "dask",
      {"scheduler": "tcp://host:8786"},
      None,
      "dask (scheduler=tcp://host:8786, restarts=3)",
    ),
  ],
)
def test_an_executor_says_what_it_is(name, options, jobs, text):
  assert str(create(name, options, jobs)) == text
  assert not pathlib.Path("none").exists()


@pytest.mark.parametrize(
  ("name", "options", "message"),
  [
    ("slurm", {}, "executor='slurm': unknown; valid: local, submitit, dask"),
    ("local", {"x": 1}, "='x=1': local has no options"),
    ("dask", {"x": 1}, "='x=1': unknown; valid: scheduler, restarts"),
    ("dask", {"scheduler": "host"}, "scheduler=host': expected an address"),
    ("dask", {"scheduler": 3}, "scheduler=3': expected an address"),
    ("submitit", {"restarts": "-1"}, "restarts=-1': expected how often"),
    ("submitit", {"restarts": "often"}, "restarts=often': expected how often"),
    ("submitit", {"cluster": "pbs"}, "cluster=pbs': .*named pbs"),
    ("submitit", {"cluster": "slurm"}, "cluster=slurm': .*srun"),
    ("submitit", {"slurm_x": 1}, "slurm_x=1': Unknown argument 'x'"),
    ("submitit", {"timeout_min": "a"}, 'timeout_min=a\': .*"timeout_min"'),
    ("submitit", {"x": 1}, "x=1': Parameter 'x' need to be prefixed"),
    ("submitit", {"nodes": "2"}, "nodes=2': expected 1"),
    ("submitit", {"slurm_ntasks_per_node": 2}, "expected 1: a run is one task"),
  ],
)
def test_an_option_that_is_refused_is_named(name, options, message):
  with pytest.raises(FieldError, match=message) as error:
    create(name, options)
  assert "\n" not in str(error.value)


def test_values_of_options_are_read(monkeypatch):
  given = {}

  class Jobs:
    def __init__(self, folder, options, **others):
      del folder, others
      given.update(options)

    def check(self):
      pass

  monkeypatch.setattr(submitit_jobs, "SubmititJobs", Jobs)
  texts = {
    "timeout_min": "30",
    "mem_gb": "1.5",
    "stderr_to_stdout": "true",
    "slurm_setup": '["module load x"]',
    "slurm_time": "1:00:00",
    "name": "7",
  }
  create("submitit", texts)
  assert list(given.values()) == [
    *(30, 1.5, True, ["module load x"], "1:00:00", "7"),
  ]


@pytest.mark.parametrize(
  ("name", "advice"),
  [("submitit", r"tff-fair\[slurm\]"), ("dask", r"tff-fair\[dask\]")],
)
def test_a_package_that_is_missing_is_named(monkeypatch, name, advice):
  monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
  with pytest.raises(FieldError, match=f'pip install "{advice}"'):
    create(name, {})


def test_a_sweep_checks_its_executor_first(tmp_path):
  with pytest.raises(ValueError, match="slurm_x"):
    sweep(
      [RunSpec()],
      tmp_path / "out",
      executor="submitit",
      executor_options={"slurm_x": 1},
    )
  assert not (tmp_path / "out").exists()


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch, tmp_path):
  monkeypatch.setattr(dask_workers, "_SECONDS_TO_CONNECT", 0.5)
  with pytest.raises(FieldError, match="no scheduler of Dask answers there"):
    sweep(
      [RunSpec()],
      tmp_path / "out",
      executor="dask",
      executor_options={"scheduler": "tcp://127.0.0.1:1"},
    )
