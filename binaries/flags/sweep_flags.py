"""Sweep: what to run, where, and what to judge by."""

import pathlib
from collections.abc import Mapping

from absl import flags

from binaries import command_line
from binaries.command_line import UsageError
from tff_fair.experiments.comparing import measures

# These flags share names, not meanings, with those of training.
NAMESPACE = flags.FlagValues()

FILES = pathlib.Path(__file__).parent / "sweeps"
_SUFFIX = ".toml"
_OUTPUTS = pathlib.Path("outputs")

_FILE = flags.DEFINE_string(
  "file",
  None,
  "What to run, as a TOML file (docs/experiments.md): its path, or the name of "
  "an included one.",
  flag_values=NAMESPACE,
)
_ALGORITHMS = flags.DEFINE_list(
  "algorithms",
  [],
  "Methods to run; with --file, those of its methods to run.",
  flag_values=NAMESPACE,
)
_GRID = flags.DEFINE_multi_string(
  "grid",
  [],
  "NAME=VALUE,VALUE,...: every combination is run. NAME is a flag of training, "
  "task_option.NAME or hparam.NAME, which is for the methods that have it. It "
  "replaces what a file says of NAME",
  flag_values=NAMESPACE,
)
_FLAG = flags.DEFINE_multi_string(
  "flag",
  [],
  "NAME=VALUE, a flag of training (or task_option.NAME, hparam.NAME) for all "
  "runs. It replaces what a file says of NAME",
  flag_values=NAMESPACE,
)
_OUTPUT_DIR = flags.DEFINE_string(
  "output_dir",
  None,
  f"Folder of the runs' folders. By default {_OUTPUTS}/NAME, after the file, "
  f"or {_OUTPUTS}/sweep. Runs that are in it already are not run again.",
  flag_values=NAMESPACE,
)
_JOBS = flags.DEFINE_integer(
  "jobs",
  1,
  "How many runs go on side by side.",
  lower_bound=1,
  flag_values=NAMESPACE,
)
_DRY_RUN = flags.DEFINE_boolean(
  "dry_run",
  False,
  "Show the runs and what there is of them, and exit.",
  flag_values=NAMESPACE,
)
_CRITERION = flags.DEFINE_string(
  "criterion",
  "mean",
  "What the best setting of a method is chosen by, at the end of the runs, of: "
  f"{', '.join(measures.MEASURES)}.",
  flag_values=NAMESPACE,
)
_VALIDATION_FRACTION = flags.DEFINE_float(
  "validation_fraction",
  0.2,
  "Share of the clients whose test data the choice is made on; what it comes "
  "to is shown for the others. 0: all clients for both.",
  lower_bound=0.0,
  upper_bound=1.0,
  flag_values=NAMESPACE,
)


def file() -> pathlib.Path | None:
  """Returns the file with what to run, if there is one.

  Raises:
    UsageError: If it does not exist.
  """
  if _FILE.value is None:
    return None
  path = command_line.path("file", _FILE.value)
  if path.is_file():
    return path
  included = FILES / f"{_FILE.value}{_SUFFIX}"
  if _FILE.value in included_files():
    return included
  raise UsageError(
    f"--file={path}: there is no such file; give the path of one, or one of "
    f"the included {', '.join(included_files()) or '(none)'}."
  )


def included_files() -> tuple[str, ...]:
  """Returns the names under which `--file` knows the included files."""
  return tuple(sorted(path.stem for path in FILES.glob(f"*{_SUFFIX}")))


def algorithms() -> tuple[str, ...]:
  """Returns the methods to run; none given means all of the file."""
  return tuple(name for name in _ALGORITHMS.value if name)


def grid() -> dict[str, list[str]]:
  """Returns the values to combine, by name."""
  return {
    name: text.split(",") for name, text in _assignments("grid", _GRID.value)
  }


def settings() -> dict[str, str]:
  """Returns the values for all runs, by name."""
  return dict(_assignments("flag", _FLAG.value))


def output_dir() -> pathlib.Path:
  """Returns the folder of the runs' folders.

  Raises:
    UsageError: If it cannot be one.
  """
  if _OUTPUT_DIR.value is None:
    path = file()
    return _OUTPUTS / (path.stem if path else "sweep")
  if not _OUTPUT_DIR.value:
    raise UsageError("--output_dir: is empty; name a folder or leave it out.")
  path = command_line.path("output_dir", _OUTPUT_DIR.value)
  if path.exists() and not path.is_dir():
    raise UsageError(f"--output_dir={path}: is not a folder.")
  return path


def jobs() -> int:
  """Returns how many runs go on side by side."""
  return _JOBS.value


def dry_run() -> bool:
  """Returns whether to show the runs only."""
  return _DRY_RUN.value


def criterion() -> str:
  """Returns the measure that settings are chosen by.

  Raises:
    UsageError: If it is unknown.
  """
  name = _CRITERION.value
  if name not in measures.MEASURES:
    raise UsageError(
      f"--criterion={name}: unknown; valid: {', '.join(measures.MEASURES)}."
    )
  return str(name)


def validation_fraction() -> float:
  """Returns the share of the clients that settings are chosen on.

  Raises:
    UsageError: If it leaves no others.
  """
  if _VALIDATION_FRACTION.value == 1:
    raise UsageError(
      "--validation_fraction=1: leaves no clients to show the result on; give "
      "less than 1, or 0 for all clients for both."
    )
  return _VALIDATION_FRACTION.value


def _assignments(flag: str, texts: list[str]) -> list[tuple[str, str]]:
  found: Mapping[str, str] = {}
  for text in texts:
    name, equals, value = text.partition("=")
    if not equals or not name:
      raise UsageError(f"--{flag}={text}: expected NAME=VALUE.")
    if name in found:
      raise UsageError(f"--{flag}={text}: {name} is given twice.")
    found = {**found, name: value}
  return list(found.items())
