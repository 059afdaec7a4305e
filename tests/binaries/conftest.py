import contextlib
import io
from typing import NamedTuple

import pytest
from absl.testing import flagsaver

from binaries import command_line, train
from binaries.flags import run_flags


class Outcome(NamedTuple):
  status: int | str | None
  stdout: str
  stderr: str


@pytest.fixture
def program(tmp_path, monkeypatch):
  """Runs the training program in this process, in an empty folder."""
  folder = tmp_path / "working directory"
  folder.mkdir()
  monkeypatch.chdir(folder)

  def run(*words, main=train.main, arguments=""):
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
      flagsaver.flagsaver(),
      contextlib.redirect_stdout(stdout),
      contextlib.redirect_stderr(stderr),
      pytest.raises(SystemExit) as exit_info,
    ):
      command_line.run(
        main,
        description=train.__doc__,
        groups=run_flags.GROUPS,
        arguments=arguments,
        argv=["train.py", *words],
      )
    return Outcome(exit_info.value.code, stdout.getvalue(), stderr.getvalue())

  return run
