"""Runs a program in this process, with flags of its own namespace."""

import contextlib
import io
import pathlib
from typing import NamedTuple

import pytest

from binaries import command_line


class Outcome(NamedTuple):
  status: int | str | None
  stdout: str
  stderr: str


def run(module, namespace, *words, arguments="", elsewhere=None):
  """Runs the program that a module holds; returns what a shell would see."""
  for name in namespace:
    namespace[name].unparse()  # An earlier run may have set it.
  stdout, stderr = io.StringIO(), io.StringIO()
  with (
    contextlib.redirect_stdout(stdout),
    contextlib.redirect_stderr(stderr),
    pytest.raises(SystemExit) as exit_info,
  ):
    command_line.run(
      module.main,
      description=module.__doc__,
      groups=module.GROUPS,
      arguments=arguments,
      argv=[pathlib.Path(module.__file__).name, *words],
      namespace=namespace,
      elsewhere=elsewhere,
      flag_names=getattr(module, "FLAG_NAMES", {}),
    )
  return Outcome(exit_info.value.code, stdout.getvalue(), stderr.getvalue())
