"""Hostile command lines of all programs, up to where TensorFlow would load."""

import contextlib
import io
import pathlib
import random
import types
from collections.abc import Iterator, Sequence
from typing import NoReturn
from unittest import mock

from absl import flags as absl_flags

from benchmarks.fuzzing import damage
from benchmarks.fuzzing.case import Case, End, EscapeError, one_line, short
from binaries import command_line, compare, prepare_data, report, sweep, train
from binaries.flags import (
  compare_flags,
  data_flags,
  report_flags,
  run_flags,
  sweep_flags,
)
from tff_fair.experiments import RunError

# Program, the groups of its flags, their namespace, words that are no flags,
# and flags that keep it from starting work or the network.
_PROGRAMS: tuple[
  tuple[types.ModuleType, command_line.Groups, absl_flags.FlagValues, str, str],
  ...,
] = (
  (train, run_flags.GROUPS, absl_flags.FLAGS, "", "list"),
  (sweep, sweep.GROUPS, sweep_flags.NAMESPACE, "", "wandb"),
  (compare, (compare_flags,), compare_flags.NAMESPACE, "RUN ...", ""),
  (report, report.GROUPS, report_flags.NAMESPACE, "RUN ...", "watch"),
  (
    prepare_data,
    prepare_data.GROUPS,
    data_flags.NAMESPACE,
    "",
    "download",
  ),
)
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
)
# Longer than a path may be, and than numbers that Python reads.
_LONG = ("9" * 5000, "1" + "0" * 400, "seed=" + "9" * 5000, "x" * 70_000)
_PATHS = (
  "data_dir",
  "file",
  "flagfile",
  "output",
  "output_dir",
  "runs",
  "source",
)
_WORDS = ("absent", "", "--", "-x", "folder", "file.toml", "\0")


def cases(rng: random.Random, folder: pathlib.Path) -> Iterator[Case]:
  """Yields command lines without end.

  Args:
    rng: Draws them.
    folder: An empty folder, in which the programs run.
  """
  (folder / "folder").mkdir()
  with contextlib.chdir(folder):
    while True:
      module, groups, namespace, words, never = rng.choice(_PROGRAMS)
      content = damage.toml(rng)
      arguments = _arguments(rng, groups, namespace, never.split())
      if words:
        arguments += rng.choices(_WORDS, k=rng.randrange(3))
      if module is sweep:
        arguments += ["--dry_run", "--file=file.toml"][: rng.choice([1, 2])]

      def run(
        module: types.ModuleType = module,
        groups: command_line.Groups = groups,
        namespace: absl_flags.FlagValues = namespace,
        words: str = words,
        arguments: Sequence[str] = tuple(arguments),
        content: bytes = content,
      ) -> End:
        pathlib.Path("file.toml").write_bytes(content)
        return _outcome(module, groups, namespace, words, arguments)

      name = module.__name__.rpartition(".")[2]
      yield Case(room=name, name=short(" ".join(arguments)), run=run)


def _arguments(
  rng: random.Random,
  groups: command_line.Groups,
  namespace: absl_flags.FlagValues,
  never: Sequence[str],
) -> list[str]:
  names = [
    name
    for name in sorted(command_line.flag_values(groups, namespace))
    if name not in never
  ]
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


def _outcome(
  module: types.ModuleType,
  groups: command_line.Groups,
  namespace: absl_flags.FlagValues,
  words: str,
  arguments: Sequence[str],
) -> End:
  """Runs a program in this process; training itself is left out."""
  for name in namespace:
    namespace[name].unparse()  # An earlier case may have set it.
  stdout, stderr = io.StringIO(), io.StringIO()
  status: object = None
  with (
    contextlib.redirect_stdout(stdout),
    contextlib.redirect_stderr(stderr),
    mock.patch.object(train, "experiments", _WITHOUT_RUNS),
  ):
    try:
      command_line.run(
        module.main,
        description=str(module.__doc__),
        groups=groups,
        arguments=words,
        argv=[f"{module.__name__.rpartition('.')[2]}.py", *arguments],
        namespace=namespace,
      )
    except SystemExit as end:
      status = end.code
  if status == 0:
    return End.ACCEPTED
  if status != 2:
    raise EscapeError(f"status {status}: {short(stderr.getvalue())}")
  # Notices may come before the error.
  lines = stderr.getvalue().splitlines()
  if any(line.startswith("Traceback") for line in lines):
    raise EscapeError(short(stderr.getvalue()))
  return one_line(lines[-1] if lines else "")


def _no_run(*_: object, **__: object) -> NoReturn:
  raise SystemExit(0)


# To look `run` up in the real one would load TensorFlow.
_WITHOUT_RUNS = types.SimpleNamespace(run=_no_run, RunError=RunError)
