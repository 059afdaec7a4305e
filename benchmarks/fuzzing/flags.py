"""Hostile command lines of all programs, up to where TensorFlow would load."""

import contextlib
import io
import pathlib
import random
import socket
import types
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn
from unittest import mock

import demonstrations
from benchmarks.fuzzing import (
  Case,
  End,
  EscapeError,
  damage,
  one_line,
  short,
)
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
from tff_fair import experiments
from tff_fair.experiments import Audit, RunError

_getaddrinfo = socket.getaddrinfo


_PROGRAMS = (
  *(train, sweep, compare, report, prepare_data),
  *(audit, export, demonstrate, replay),
)
# Flags that have a program work or use the network.
_NEVER = {
  train: "list",
  sweep: "wandb",
  prepare_data: "download",
}
_VALUES = (
  *("", " ", "=", "a=b", "=1", "--", "-", ",", "none", "None", "true", "é"),
  *("0", "1", "-1", "+1", "1.5", "1e5", "1_000", "٣", "0x10", "1e400", "-0.0"),
  *(
    "nan",
    "inf",
    "-inf",
    "9" * 20,
    "1-",
    "5-1",
    "1-5",
    "0-0",
    "%s",
    "\0",
    "\n",
  ),
  *("\udcff", "~nobody/x", ".", "..", "absent", "file.toml", "folder"),
  *("file.toml/x", "digits", "fedavg", "adafed", "leaf", "mean", "best", "sgd"),
  *("seed=1,2", "hparam.q=1", "hparam.q=nan", "task_option.num_clients=3"),
  *("total_rounds=1:5", "dropout=0:1:log"),
  *("results.csv", "a.png", "a.keras", "~nobody/a.png", "\0.svg", "a\n.png"),
  *("::1", "a..b", "fe80::1%eth9", "4G", "9" * 400 + "T", "folder/a.png"),
)
# Longer than a path may be, and than numbers that Python reads.
_LONG = ("9" * 5000, "1" + "0" * 400, "seed=" + "9" * 5000, "x" * 70_000)
_RESULTS = "client,n,correct\nnorth,40,10\nsouth,50,45\n"
_PATHS = (
  "data_dir",
  "file",
  "flagfile",
  "model",
  "output",
  "output_dir",
  "results",
  "runs",
  "source",
)
_WORDS = (
  *("absent", "", "--", "-x", "folder", "file.toml", "\0"),
  *("adafed_figure_1", "9" * 5000),
)


def cases(rng: random.Random, folder: pathlib.Path) -> Iterator[Case]:
  """Yields command lines without end."""
  (folder / "folder").mkdir()
  (folder / "results.csv").write_text(_RESULTS)
  with contextlib.chdir(folder):
    while True:
      module = rng.choice(_PROGRAMS)
      content = damage.toml(rng)
      arguments = _arguments(rng, module)
      if module.PROGRAM.arguments:
        arguments += rng.choices(_WORDS, k=rng.randrange(3))
      if module is sweep:
        arguments += ["--dry_run", "--file=file.toml"][: rng.choice([1, 2])]

      def run(
        module: types.ModuleType = module,
        arguments: Sequence[str] = tuple(arguments),
        content: bytes = content,
      ) -> End:
        pathlib.Path("file.toml").write_bytes(content)
        return _outcome(module, arguments)

      name = short(" ".join(arguments))
      yield Case(room=_name(module), name=name, run=run)


def _name(module: types.ModuleType) -> str:
  return module.__name__.rpartition(".")[2]


def _arguments(rng: random.Random, module: types.ModuleType) -> list[str]:
  program: command_line.Program = module.PROGRAM
  namespace = program.namespace
  names = sorted(
    command_line.flag_values(program.groups, namespace).keys()
    - {_NEVER.get(module)}
  )
  arguments = []
  for _ in range(rng.choice([1, 1, 2, 3, 6])):
    name = rng.choice([*names, *names, "flagfile", "unknown", f"no{names[0]}"])
    values = _VALUES if name in _PATHS else (*_VALUES, *_LONG)
    if name in namespace and rng.random() < 0.5:
      # What is valid gets further.
      choices = getattr(namespace[name].parser, "enum_values", None)
      values = tuple(choices or values)
    dashes = rng.choice(["--", "--", "--", "-", "---"])
    arguments.append(
      rng.choice([f"{dashes}{name}={rng.choice(values)}", f"--{name}"])
    )
  return arguments


def _outcome(module: types.ModuleType, arguments: Sequence[str]) -> End:
  """Runs a program in this process; what takes long is left out."""
  program: command_line.Program = module.PROGRAM
  stdout, stderr = io.StringIO(), io.StringIO()
  status: object = None
  with (
    contextlib.redirect_stdout(stdout),
    contextlib.redirect_stderr(stderr),
    _without_long_work(),
  ):
    try:
      program.run([f"{_name(module)}.py", *arguments])
    except SystemExit as end:
      status = end.code
    finally:
      for name in program.namespace:
        program.namespace[name].unparse()
  if status == 0:
    return End.ACCEPTED
  if status != 2:
    raise EscapeError(f"status {status}: {short(stderr.getvalue())}")
  # Notices may come before the error.
  lines = stderr.getvalue().splitlines()
  if any(line.startswith("Traceback") for line in lines):
    raise EscapeError(short(stderr.getvalue()))
  return one_line(lines[-1] if lines else "")


@contextlib.contextmanager
def _without_long_work() -> Iterator[None]:
  """Has programs end where TensorFlow would load, or the network would ask."""
  # To look `run` up in the real one would load TensorFlow.
  without_runs = types.SimpleNamespace(run=_end, RunError=RunError)
  with (
    mock.patch.object(train, "experiments", without_runs),
    mock.patch.object(audit, "audit", _audit),
    mock.patch.object(demonstrations, "demonstrate", _end),
    mock.patch.object(socket, "getaddrinfo", _numbers_of_hosts),
  ):
    yield


def _end(*_: object, **__: object) -> NoReturn:
  raise SystemExit(0)


def _audit(**arguments: Any) -> Audit:
  return experiments.audit(**arguments) if "results" in arguments else _end()


def _numbers_of_hosts(host: str, *args: Any, **keywords: Any) -> Any:
  """Asks no server for the names of hosts."""
  keywords["flags"] = keywords.get("flags", 0) | socket.AI_NUMERICHOST
  return _getaddrinfo(host, *args, **keywords)
