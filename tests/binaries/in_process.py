"""Runs programs, and reads their flags and files, in this process."""

import contextlib
import functools
import io
import pathlib
from typing import NamedTuple

import pytest
from absl import flags
from absl.testing import flagsaver

from tff_fair.experiments.runs.folder import RunFolder

# Flags of a run of FedAvg on rows.npz, and the file of a sweep of such runs.
OF_ROWS = (
  "--task=arrays",
  "--task_option=file=rows.npz",
  "--task_option=model=linear",
  "--algorithm=fedavg",
  "--sampling=all",
  "--output_dir=run",
)
SWEEP_OF_ROWS = """
[flags]
task = "arrays"
task_option = ["file=rows.npz", "model=linear"]
total_rounds = {rounds}
[[methods]]
algorithm = "fedavg"
"""


class Outcome(NamedTuple):
  status: int | str | None
  stdout: str
  stderr: str

  @property
  def refusal(self):
    """The single line of stderr with which the program refuses its input."""
    assert (self.status, self.stdout) == (2, "")
    (line,) = self.stderr.splitlines()
    return line


@contextlib.contextmanager
def flags_kept(namespace=flags.FLAGS):
  """Restores the flags' values at the end of the block."""
  values = flagsaver.save_flag_values(namespace)
  try:
    yield
  finally:
    flagsaver.restore_flag_values(values, namespace)


@contextlib.contextmanager
def given(*words, namespace=flags.FLAGS):
  """Parses flags for the block; then restores the flags' values."""
  with flags_kept(namespace):
    namespace(["program", *words])
    yield


def run(module, *words, **changes):
  """Runs `module.PROGRAM`, with some fields changed; returns the outcome."""
  program = module.PROGRAM._replace(**changes)
  stdout, stderr = io.StringIO(), io.StringIO()
  with (
    flags_kept(program.namespace),
    contextlib.redirect_stdout(stdout),
    contextlib.redirect_stderr(stderr),
    pytest.raises(SystemExit) as exit_info,
  ):
    program.run([pathlib.Path(module.__file__).name, *words])
  return Outcome(exit_info.value.code, stdout.getvalue(), stderr.getvalue())


def repeatable(path):
  """Returns the contents of those files that a repeated run reproduces."""
  folder = RunFolder(pathlib.Path(path))
  names = (
    *("metrics", "costs", "cohorts", "labels", "evaluations"),
    *("client_evaluations", "clients", "summary"),
  )
  return {name: getattr(folder, name).read_bytes() for name in names}


def program_of(module, prepare=lambda _: None):
  """Returns a fixture: a function that runs `module` in a temporary folder.

  `prepare` gets the folder first.
  """

  @pytest.fixture
  def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    return functools.partial(run, module)

  return program
