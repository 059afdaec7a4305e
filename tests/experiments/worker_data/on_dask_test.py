"""Tests of clients' data in files, in parts and on a Dask cluster."""

import distributed
import pytest

from tests.experiments.training.small_run import SMALL, tables, train
from tests.refusals import rejected
from tff_fair import runtime
from tff_fair.experiments.training import task_loading
from tff_fair.experiments.worker_data import (
  folder_writing,
  index,
  worker_checks,
)

pytestmark = pytest.mark.usefixtures("compiled_once", "unpainted")

SPEC = SMALL.replace(
  seed=3, clients_per_round=5, clients_per_part=2, total_rounds=1
)
TABLES = ("metrics", "client_evaluations", "clients")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
  folder = tmp_path_factory.mktemp("data") / "digits"
  return folder_writing.write(task_loading.load(SPEC), SPEC, folder)


def test_parts_on_dask_and_here_are_the_same(written, tmp_path):
  here = train(SPEC, tmp_path / "here", worker_data=written.folder)
  with distributed.LocalCluster(
    n_workers=1, threads_per_worker=1, dashboard_address=":0"
  ) as cluster:
    on_dask = train(
      SPEC,
      tmp_path / "dask",
      worker_data=written.folder,
      scheduler=cluster.scheduler_address,
      engine="dask",
    )
    assert tables(on_dask, TABLES) == tables(here, TABLES)
    runtime.use_dask(cluster)
    try:
      worker_checks.check(written)
      missing = written.folder / "test_x.bin"
      content = missing.read_bytes()
      missing.unlink()
      (address,) = cluster.scheduler_info["workers"]
      with rejected("worker_data", f"{address}: {missing} is missing; copy"):
        worker_checks.check(written)
      missing.write_bytes(content)
    finally:
      runtime.stop()


@pytest.mark.parametrize(
  ("content", "problem"),
  [
    (b"rows" + b"v" * 4, None),
    (b"rows" + b"w" * 4, index.IS_ANOTHER),
    (b"rows" + b"v" * 5, index.IS_ANOTHER),
    (b"rows" + b"v" * 3, index.IS_SHORTER),
    (b"", index.IS_SHORTER),
  ],
)
def test_a_host_looks_at_the_end_of_each_file(content, problem, tmp_path):
  path = str(tmp_path / "file")
  assert index.problem_here([(path, 4)], "vvvv") == f"{path} is missing"
  (tmp_path / "file").write_bytes(content)
  found = index.problem_here([(path, 4)], "vvvv")
  assert found == (problem and f"{path} {problem}")
