import contextlib
import io

import pytest
from absl.testing import flagsaver

from binaries import train
from tests.binaries.in_process import Outcome


@pytest.fixture
def program(tmp_path, monkeypatch):
  """Runs the training program in this process, in an empty folder."""
  folder = tmp_path / "working directory"
  folder.mkdir()
  monkeypatch.chdir(folder)

  def run(*words, **changes):
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
      flagsaver.flagsaver(),
      contextlib.redirect_stdout(stdout),
      contextlib.redirect_stderr(stderr),
      pytest.raises(SystemExit) as exit_info,
    ):
      train.PROGRAM._replace(**changes).run(["train.py", *words])
    return Outcome(exit_info.value.code, stdout.getvalue(), stderr.getvalue())

  return run
