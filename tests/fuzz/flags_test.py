"""Hostile command lines end with a one-line error, or begin long work."""

import contextlib
import io
import pathlib
import socket
import types
from unittest import mock

import hypothesis
import hypothesis.strategies as st
import pytest

import demonstrations
from binaries import (
  audit,
  command_line,
  compare,
  demonstrate,
  export,
  prepare_data,
  replay,
  report,
  sweep,
  train,
)
from tests import fuzz
from tff_fair import experiments
from tff_fair.experiments import RunError

_getaddrinfo = socket.getaddrinfo
_PROGRAMS = (
  *(train, sweep, compare, report, prepare_data),
  *(audit, export, demonstrate, replay),
)
# Flags that would start work or use the network.
_NEVER = {train: "list", sweep: "wandb", prepare_data: "download"}
_PATHS = (
  *("data_dir", "file", "flagfile", "model", "output", "output_dir"),
  *("results", "runs", "source"),
)
_VALUES = (
  *("", " ", "=", "a=b", "=1", "--", "-", ",", "none", "None", "true", "é"),
  *("0", "1", "-1", "+1", "1.5", "1e5", "1_000", "٣", "0x10", "1e400", "-0.0"),
  *("nan", "inf", "-inf", "9" * 20, "1-", "5-1", "1-5", "0-0", "%s", "\0"),
  *("\n", "\udcff", "~nobody/x", ".", "..", "absent", "file.toml", "folder"),
  *("file.toml/x", "digits", "fedavg", "adafed", "leaf", "mean", "best", "sgd"),
  *("seed=1,2", "hparam.q=1", "hparam.q=nan", "task_option.num_clients=3"),
  *("total_rounds=1:5", "dropout=0:1:log", "results.csv", "a.png", "a.keras"),
  *("~nobody/a.png", "\0.svg", "a\n.png", "::1", "a..b", "fe80::1%eth9", "4G"),
  *("9" * 400 + "T", "folder/a.png"),
)
# Longer than a path or a number may be in Python.
_LONG = ("9" * 5000, "1" + "0" * 400, "seed=" + "9" * 5000, "x" * 70_000)
_WORDS = ("absent", "", "--", "-x", "folder", "file.toml", "\0", "9" * 5000)
_TOML = st.lists(
  st.sampled_from(
    [
      *(b"[[methods]]\nalgorithm = 'fedavg'\n", b"title = 'x'\n"),
      *(b"[flags]\n", b"task = 'digits'\n", b"[grid]\nseed = [0, 1]\n"),
      *(b"extends = 'file.toml'\n", b"hparam.gamma = [1.0, nan]\n"),
      *(b"seed = " + b"[" * 20_000, b"a = 1 b\n", b"x = {" * 3000, b"\xff\xfe"),
      *(b"total_rounds = 99999999999999999999\n", b"[range]\nq = {low = 1}\n"),
      *(b"\0", b"[search]\ntrials = 2\n", b"\n", b"seed = 1979-05-27\n"),
      *(b"dropout = '0.1'\n", b"--task=digits\n", b"--flagfile=file.toml\n"),
    ]
  ),
  max_size=5,
).map(b"".join)


@st.composite
def _command_lines(draw):
  module = draw(st.sampled_from(_PROGRAMS))
  program: command_line.Program = module.PROGRAM
  known = command_line.flag_values(program.groups, program.namespace)
  names = sorted(known.keys() - {_NEVER.get(module)})
  arguments = []
  for name in draw(
    st.lists(
      st.sampled_from([*names, "flagfile", "unknown", f"no{names[0]}"]),
      min_size=1,
      max_size=6,
    )
  ):
    values = _VALUES if name in _PATHS else (*_VALUES, *_LONG)
    if name in program.namespace and draw(st.booleans()):
      # Prefer valid values, which get further into the programs.
      parser = program.namespace[name].parser
      values = getattr(parser, "enum_values", None) or values
    value = draw(st.sampled_from(values) | st.text(max_size=20))
    dashes = draw(st.sampled_from(["--", "--", "-", "---"]))
    arguments.append(
      draw(st.sampled_from([f"{dashes}{name}={value}", f"--{name}"]))
    )
  if program.arguments:
    arguments += draw(st.lists(st.sampled_from(_WORDS), max_size=2))
  if module is sweep:
    arguments += draw(
      st.sampled_from([["--dry_run"], ["--dry_run", "--file=file.toml"]])
    )
  return module, arguments


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("flags")
  (path / "folder").mkdir()
  (path / "results.csv").write_text(
    "client,n,correct\nnorth,40,10\nsouth,50,45\n"
  )
  with contextlib.chdir(path):
    yield path


@fuzz.fuzzed(few=200)
@hypothesis.given(_command_lines(), _TOML)
def test_a_command_line_runs_or_is_refused_in_a_line(line, content):
  module, arguments = line
  pathlib.Path("file.toml").write_bytes(content)
  program: command_line.Program = module.PROGRAM
  name = module.__name__.rpartition(".")[2]
  stderr = io.StringIO()
  status: str | int | None = 0
  with (
    contextlib.redirect_stdout(io.StringIO()),
    contextlib.redirect_stderr(stderr),
    _without_long_work(),
  ):
    try:
      program.run([f"{name}.py", *arguments])
    except SystemExit as end:
      status = end.code
    finally:
      for flag in program.namespace:
        program.namespace[flag].unparse()
  # The error is the last line; notices may come before it.
  lines = stderr.getvalue().splitlines()
  assert status in (None, 0, 2), stderr.getvalue()
  assert not any(line.startswith("Traceback") for line in lines)
  fuzz.ended(name, ValueError(lines[-1]) if status else None)


@contextlib.contextmanager
def _without_long_work():
  """Ends programs where they would load TensorFlow or use the network."""
  # Looking up `run` in the real module would load TensorFlow.
  without_runs = types.SimpleNamespace(run=_end, RunError=RunError)
  with (
    mock.patch.object(train, "experiments", without_runs),
    mock.patch.object(audit, "audit", _audit),
    mock.patch.object(demonstrations, "demonstrate", _end),
    mock.patch.object(socket, "getaddrinfo", _numbers_of_hosts),
  ):
    yield


def _end(*_, **__):
  raise SystemExit(0)


def _audit(*words, **arguments):
  if arguments.get("results") is None:
    _end()
  return experiments.audit(*words, **arguments)


def _numbers_of_hosts(host, *args, **keywords):
  keywords["flags"] = keywords.get("flags", 0) | socket.AI_NUMERICHOST
  return _getaddrinfo(host, *args, **keywords)
