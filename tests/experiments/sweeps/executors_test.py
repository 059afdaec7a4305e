import contextlib
import importlib.util
import pathlib
import shutil
import types

import pytest

from tests.experiments import run_folders
from tests.refusals import rejected
from tff_fair.declared import FieldError
from tff_fair.experiments import RunSpec
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import claim
from tff_fair.experiments.sweeps import (
  dask_workers,
  executors,
  plan,
  runner,
  submitit_jobs,
  sweep,
)
from tff_fair.experiments.sweeps.jobs import LOST, USER_ERROR, Executor

ON_THIS_MACHINE = {"cluster": "local"}


@pytest.fixture(autouse=True)
def no_slurm(monkeypatch):
  """Hides Slurm's commands, if this machine has them."""
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
  ("name", "options"),
  [
    ("local", {"x": 1}),
    ("dask", {"x": 1}),
    ("dask", {"scheduler": "host"}),
    ("dask", {"scheduler": 3}),
    ("submitit", {"restarts": "-1"}),
    ("submitit", {"restarts": "often"}),
    ("submitit", {"cluster": "pbs"}),
    ("submitit", {"cluster": "slurm"}),
    ("submitit", {"slurm_x": 1}),
    ("submitit", {"timeout_min": "a"}),
    ("submitit", {"x": 1}),
    ("submitit", {"nodes": "2"}),
    ("submitit", {"slurm_ntasks_per_node": 2}),
  ],
)
def test_an_option_that_is_refused_is_named(name, options):
  ((option, value),) = options.items()
  with rejected("executor_option", value=f"{option}={value}"):
    create(name, options)


def test_an_unknown_executor_is_named():
  with rejected("executor", "local, submitit, dask", value="slurm"):
    create("slurm", {})


def test_values_of_options_are_read(monkeypatch):
  given = {}

  def jobs(folder, options, **others):
    del folder, others
    given.update(options)

  monkeypatch.setattr(submitit_jobs, "SubmititJobs", jobs)
  values = {
    "30": 30,
    "1.5": 1.5,
    "true": True,
    '["module load x"]': ["module load x"],
    "1:00:00": "1:00:00",
  }
  texts = {f"slurm_{k}": text for k, text in enumerate(values)}
  create("submitit", {**texts, "name": "7"})
  assert list(given.values()) == [*values.values(), "7"]


@pytest.mark.parametrize(
  ("name", "extra"), [("submitit", "slurm"), ("dask", "dask")]
)
def test_a_package_that_is_missing_is_named(monkeypatch, name, extra):
  monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
  with rejected("executor", f"the extra {extra}; install it with"):
    create(name, {})


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch, tmp_path):
  monkeypatch.setattr(dask_workers, "_SECONDS_TO_CONNECT", 0.5)
  with pytest.raises(FieldError, match=r"scheduler=tcp://127\.0\.0\.1:1"):
    sweep(
      [RunSpec()],
      tmp_path / "out",
      executor="dask",
      executor_options={"scheduler": "tcp://127.0.0.1:1"},
    )


# Tests of runs that are handed out to workers.


SPEC = RunSpec(algorithm="fedavg", total_rounds=2)


def test_a_worker_that_goes_before_its_run_begins_loses_it(
  monkeypatch, tmp_path
):
  monkeypatch.setattr(dask_workers.DaskWorkers, "query_interval_seconds", 0.0)
  known = {"tcp://a": 1}
  future = types.SimpleNamespace(status="pending", cancel=list)
  workers = create("dask", {}, 1)
  workers._client = types.SimpleNamespace(
    nthreads=lambda: known, submit=lambda *_, **__: future
  )
  assert workers.has_room(0)
  known.clear()
  (planned,) = plan.from_specs([SPEC])
  job = runner.Runner(tmp_path).job(planned)
  assert workers.start(job).poll() == LOST


class Run:
  """A run whose polls return what the cluster says in `ends`."""

  def __init__(self, executor, job):
    self.executor, self.job = executor, job

  def poll(self):
    return self.executor.ends[self.job.name].pop(0)(self.job)

  def stop(self):
    self.executor.stopped.append(self.job.name)

  kill = stop


class Cluster(Executor):
  """A cluster without processes; the test decides how each run ends."""

  is_shared = True
  poll_interval_seconds = 0.0
  stop_timeout_seconds = 0.0

  def __init__(self, ends, restarts=2, jobs=10):
    self.ends = ends
    self.restarts = restarts
    self.jobs = jobs
    self.started, self.stopped = [], []

  def session(self):
    return contextlib.nullcontext()

  def start(self, job):
    self.started.append(job.name)
    return Run(self, job)


def goes_on(job):
  del job


def finish(job):
  shutil.rmtree(job.path, ignore_errors=True)
  run_folders.make(job.path)
  return 0


def fail(job):
  job.log.write_text("--seed: is wrong.\n")
  return USER_ERROR


def lost(saved):
  """Returns a function that saves a job's round `saved`, and returns LOST."""

  def end(job):
    state = job.path / "checkpoints" / f"program_state_{saved}"
    state.mkdir(parents=True, exist_ok=True)
    return LOST

  return end


@pytest.fixture
def carry_out(tmp_path, monkeypatch, capsys):
  """Returns a function that carries out runs of `seeds` on a cluster.

  That function returns the failures and stderr.
  """
  monkeypatch.setattr(executors, "_SYNC_TIMEOUT_SECONDS", 0.0)

  def run(cluster, seeds=(0,)):
    program = runner.Runner(tmp_path, executor=cluster)
    planned = plan.from_specs(SPEC.vary(seed=list(seeds)))
    failures = program.run_unfinished(planned, ["new"] * len(planned))
    return failures, capsys.readouterr().err

  return run


NAME = "fedavg-seed=0"


def only(*ends, **others):
  return Cluster({NAME: list(ends)}, **others)


def test_no_more_runs_go_on_than_there_is_room_for(carry_out):
  seeds = range(5)
  at_once = []

  def count(job):
    del job
    at_once.append(len(cluster.started) - sum(map(is_done, seeds)))

  def is_done(seed):
    return not cluster.ends[f"fedavg-seed={seed}"]

  cluster = Cluster(
    {f"fedavg-seed={seed}": [count, count, finish] for seed in seeds}, jobs=2
  )
  failures, _ = carry_out(cluster, seeds)
  assert not failures
  assert max(at_once) == 2
  assert cluster.started == [f"fedavg-seed={seed}" for seed in seeds]


def test_a_run_goes_on_as_long_as_it_gets_further(carry_out):
  cluster = only(*map(lost, [1, 1, 2, 2, 3, 3]), finish)
  failures, said = carry_out(cluster)
  assert not failures
  assert len(cluster.started) == 7
  assert (
    f"{NAME}: cut off (its job ended without a result); another job resumes "
    "after round 1 (2 of 2)."
  ) in said
  assert "1/1 fedavg-seed=0: accuracy 70.0%" in said


def test_a_run_that_gets_no_further_fails(carry_out):
  cluster = only(*map(lost, [1, 1, 1]))
  (failure,), said = carry_out(cluster)
  assert failure.name == NAME
  assert len(cluster.started) == 3
  assert f"1/1 {NAME}: FAILED (its job ended without a result, " in said


@pytest.mark.parametrize("status", [-9, 128 + 15])
def test_a_run_that_a_signal_ended_goes_on(carry_out, status):
  cluster = only(lambda _: status, finish)
  assert carry_out(cluster)[0] == []


def test_a_mistake_fails_at_once(carry_out):
  cluster = only(fail)
  (failure,), _ = carry_out(cluster)
  assert failure.reason == "--seed: is wrong."
  assert cluster.started == [NAME]


def test_what_another_job_has_finished_is_finished(carry_out):
  def late(job):
    finish(job)
    return fail(job)  # The folder holds a finished run.

  failures, said = carry_out(only(late))
  assert not failures
  assert "1/1 fedavg-seed=0: accuracy 70.0%" in said


def test_a_folder_that_hosts_do_not_share_is_told(carry_out):
  (failure,), _ = carry_out(only(lambda _: 0))
  assert "need a file system that they share" in failure.reason


@pytest.fixture
def at_work(tmp_path):
  """Claims the run's folder, as another program that trains the run would."""
  path = tmp_path / NAME
  path.mkdir()
  config = path / "config.json"
  config.touch()
  with config.open("ab+") as file, claim.hold(file, path, print):
    yield file


def test_a_run_that_another_program_finishes_is_waited_for(
  carry_out, at_work, monkeypatch
):
  looks = []

  def poll(self):
    looks.append(self)
    if len(looks) == 3:
      shutil.rmtree(self._folder.path)
      run_folders.make(self._folder.path)
      at_work.close()
    return original(self)

  original = executors.ExternalRun.poll
  monkeypatch.setattr(executors.ExternalRun, "poll", poll)
  cluster = only()
  failures, said = carry_out(cluster)
  assert not failures
  assert cluster.started == []
  assert f"{NAME}: another program is using it; the sweep waits" in said


def test_all_runs_are_asked_to_end_where_one_cannot_start(carry_out):
  class Full(Cluster):
    def start(self, job):
      if self.started:
        raise RunError("The cluster is full.")
      return super().start(job)

  cluster = Full({NAME: [goes_on] * 9})
  with pytest.raises(RunError, match="full"):
    carry_out(cluster, (0, 1))
  assert cluster.stopped == [NAME]
