"""Tests training on a Dask cluster that loses its worker and its scheduler."""

import contextlib
import socket
import subprocess
import sys

import pytest

from tests import source_tree, waiting
from tests.binaries import in_process
from tff_fair.experiments.runs import discovery

NUM_ROUNDS = 16
COMMAND = (
  *("-m", "binaries.train", "--algorithm=fedavg"),
  "--task_option=num_clients=8",
  "--task_option=model=logistic_regression",
  *("--clients_per_round=6", "--clients_per_part=2"),
  f"--total_rounds={NUM_ROUNDS}",
  *("--rounds_per_evaluation=5", "--rounds_per_checkpoint=2"),
  "--output_dir=run",
)
TIMEOUT = 300

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiled_once")]


class Cluster:
  """A scheduler and a worker, each in its own process."""

  def __init__(self, python, folder, port):
    self.address = f"tcp://127.0.0.1:{port}"
    self._python, self._folder = python, folder
    self.scheduler = self._start(
      sys.executable,
      "dask_scheduler",
      *("--host=127.0.0.1", f"--port={port}", "--no-dashboard"),
    )
    self.worker = self.start_worker()

  def start_worker(self):
    return self._start(
      self._python,
      "dask_worker",
      *(self.address, "--nthreads=1", "--no-nanny", "--no-dashboard"),
    )

  def _start(self, python, name, *words):
    return subprocess.Popen(
      [python, "-m", f"distributed.cli.{name}", *words],
      cwd=self._folder,
      env=source_tree.environment(of_tests=False),
      stdout=subprocess.DEVNULL,
      stderr=subprocess.DEVNULL,
    )

  def answers(self):
    with contextlib.suppress(OSError):
      port = int(self.address.rpartition(":")[2])
      socket.create_connection(("127.0.0.1", port), 1.0).close()
      return True
    return False


@pytest.fixture
def start_cluster(tmp_path, warm_python):
  """Yields a function that starts clusters at one address; kills them later."""
  with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
  with contextlib.ExitStack() as started:

    def start():
      cluster = Cluster(warm_python, tmp_path, port)
      for process in (cluster.scheduler, cluster.worker):
        started.enter_context(process)
        started.callback(process.kill)
      waiting.until(cluster.answers, process=cluster.scheduler)
      return cluster

    yield start


@pytest.mark.long
@pytest.mark.timeout(1500)  # A busy machine takes minutes to import TensorFlow.
def test_a_run_whose_cluster_is_killed_ends_as_on_one_machine(
  tmp_path, start_cluster, warm_python
):
  log, metrics = tmp_path / "log.txt", tmp_path / "run" / "metrics.csv"

  def train(folder, *words):
    return subprocess.Popen(
      [warm_python, *COMMAND, *words],
      cwd=folder,
      env=source_tree.environment(of_tests=False),
      stdout=subprocess.DEVNULL,
      stderr=output,
    )

  def wait(is_true):
    waiting.until(is_true, TIMEOUT, process=process, log=log)

  with log.open("w") as output, contextlib.ExitStack() as started:
    cluster = start_cluster()
    flags = "--engine=dask", f"--scheduler={cluster.address}"
    process = started.enter_context(train(tmp_path, *flags))
    started.callback(process.kill)
    # First, the cluster loses its only worker.
    wait(lambda: waiting.has_rounds(metrics, 3))
    cluster.worker.kill()
    wait(lambda: "has no worker" in log.read_text())
    later = started.enter_context(cluster.start_worker())
    started.callback(later.kill)
    # Then it loses the scheduler, with some rounds left.
    wait(lambda: waiting.has_rounds(metrics, 8))
    cluster.scheduler.kill()
    assert process.wait(TIMEOUT) == 2
    *_, last = log.read_text().splitlines()
    assert "Traceback" not in log.read_text()
    assert cluster.address in last
    assert f"of {NUM_ROUNDS} rounds are saved in run; repeat the" in last
    later.kill()

    start_cluster()
    process = started.enter_context(train(tmp_path, *flags))
    started.callback(process.kill)
    assert process.wait(TIMEOUT) == 0, log.read_text()
    assert "resuming after round " in log.read_text()

    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    here = started.enter_context(train(undisturbed))
    started.callback(here.kill)
    assert here.wait(TIMEOUT) == 0, log.read_text()
  found, expected = (
    [in_process.repeatable(place / "run"), weights(place / "run")]
    for place in (tmp_path, undisturbed)
  )
  assert found == expected


def weights(path):
  return [array.tobytes() for array in discovery.open_run(path).weights()]
