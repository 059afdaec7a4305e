import functools

import pytest

from binaries import train
from tests.binaries import in_process


@pytest.fixture
def program(tmp_path, monkeypatch):
  """Returns a function that runs the training program in an empty folder."""
  folder = tmp_path / "working directory"
  folder.mkdir()
  monkeypatch.chdir(folder)
  return functools.partial(in_process.run, train)
