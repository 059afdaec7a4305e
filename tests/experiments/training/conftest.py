import pytest

import tasks
from tff_fair.experiments.runs.folder import RunFolder

pytestmark = pytest.mark.program


@pytest.fixture(scope="session")
def task():
  """Returns a small task, which no test may change."""
  return tasks.load("digits", num_clients=7, model="logistic_regression")


@pytest.fixture
def folder(tmp_path):
  """Returns an empty run folder."""
  return RunFolder(tmp_path)


@pytest.fixture
def in_new_folder(tmp_path, monkeypatch):
  """Changes into an empty folder."""
  monkeypatch.chdir(tmp_path)
