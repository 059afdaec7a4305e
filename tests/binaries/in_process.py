"""Runs a program in this process."""

import contextlib
import io
import pathlib
from typing import NamedTuple

import pytest


class Outcome(NamedTuple):
  status: int | str | None
  stdout: str
  stderr: str


def run(module, *words):
  """Runs the program that a module holds; returns what a shell would see."""
  program = module.PROGRAM
  for name in program.namespace:
    program.namespace[name].unparse()  # An earlier run may have set it.
  stdout, stderr = io.StringIO(), io.StringIO()
  with (
    contextlib.redirect_stdout(stdout),
    contextlib.redirect_stderr(stderr),
    pytest.raises(SystemExit) as exit_info,
  ):
    program.run([pathlib.Path(module.__file__).name, *words])
  return Outcome(exit_info.value.code, stdout.getvalue(), stderr.getvalue())
