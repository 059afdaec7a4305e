"""The flags of sweeps: their runs, and how to search for the best settings."""

import dataclasses
import pathlib

from binaries import command_line, paths
from binaries.command_line import UsageError
from binaries.flags import run_flags
from tff_fair import declared
from tff_fair.experiments import FieldError, Run, RunError, RunSpec
from tff_fair.experiments.analysis import measures
from tff_fair.experiments.runs import configuration, discovery
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.sweeps import (
  executors,
  setting_tables,
  study,
  sweep_file,
)
from tff_fair.experiments.sweeps.jobs import Executor
from tff_fair.experiments.sweeps.study import SearchSettings
from tff_fair.experiments.sweeps.sweep_file import Sweep

# A separate namespace: some flags of sweeps have the name of a training flag,
# but another meaning. Only the flags that set how to compute runs are the same.
NAMESPACE = command_line.Flags()
run_flags.define_compute_flags(NAMESPACE)

FILES = pathlib.Path(__file__).parent.parent / "sweeps"
_OUTPUTS = pathlib.Path("outputs")

_FILE = NAMESPACE.text(
  "file",
  None,
  "A TOML file that describes the sweep (docs/sweeps.md): its path, or the "
  "name of an included file.",
)
_BASE = NAMESPACE.text(
  "base",
  None,
  "A file of training flags, or the folder of a run. Its settings apply to all "
  "runs, unless --file, --flag, --grid or --range replace them; its "
  "hyperparameters apply to its method, which is the one to run if you name no "
  "methods.",
)
_ALGORITHMS = NAMESPACE.names(
  "algorithms",
  [],
  "Methods to run; with --file, a selection of its methods. fedavg:uniform is "
  "FedAvg with equal weights (--client_weighting), the other baseline.",
)
_GRID = NAMESPACE.texts(
  "grid",
  [],
  "NAME=VALUE,VALUE,...: the sweep runs every combination. NAME is a training "
  "flag, task_option.NAME, or hparam.NAME, which applies to the methods that "
  "have this hyperparameter. The values replace those of --file",
)
_RANGE = NAMESPACE.texts(
  "range",
  [],
  "NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=LOW:HIGH:STEP: a search draws NAME "
  "from these numbers (--trials). NAME is as in --grid",
)
_FLAG = NAMESPACE.texts(
  "flag",
  [],
  "NAME=VALUE, a training flag (or task_option.NAME, hparam.NAME) for all "
  "runs. The value replaces that of --file",
)
_OUTPUT_DIR = NAMESPACE.text(
  "output_dir",
  None,
  f"Folder of the runs' folders. By default {_OUTPUTS}/NAME, with the name of "
  f"--file, or {_OUTPUTS}/sweep. Finished runs in it do not run again.",
)
_JOBS = NAMESPACE.integer(
  "jobs",
  None,
  "Number of runs that train at the same time. By default 1; on a cluster as "
  "many as it accepts, but 1 in a search.",
  lower_bound=1,
)
_EXECUTOR = NAMESPACE.text(
  "executor",
  executors.LOCAL,
  "Where runs train: local, on this machine; submitit, each as a Slurm job; "
  "dask, on the workers of a Dask cluster. Does not change results.",
)
_EXECUTOR_OPTION = NAMESPACE.texts(
  "executor_option",
  [],
  "NAME=VALUE, an option of --executor (docs/sweeps.md), such as "
  "slurm_partition=gpu of submitit, scheduler=tcp://HOST:PORT of dask, or "
  "restarts=3, how often a run resumes after its job was lost",
)
DRY_RUN = NAMESPACE.switch(
  "dry_run", False, "List the runs as new, interrupted or finished, and exit."
)
_CRITERION = NAMESPACE.text(
  "criterion",
  "mean",
  "The measure that chooses the best setting of each method, one of: "
  f"{', '.join(measures.NAMES)}.",
)
_SEARCH = declared.fields_of(SearchSettings)
VALIDATION_FRACTION = command_line.define(
  _SEARCH["validation_fraction"], NAMESPACE
)
_SWEEP_FLAGS = tuple(n for n in NAMESPACE if n not in run_flags.COMPUTE_FLAGS)


_SEARCH_FLAGS = tuple(n for n in _SEARCH if n != VALIDATION_FRACTION.name)
# The default is None, since a sweep's file may set these values.
for _name in _SEARCH_FLAGS:
  command_line.define(
    dataclasses.replace(_SEARCH[_name], default=None), NAMESPACE
  )
GROUPS = (
  command_line.Group(
    "Sweep: the runs, their folder, and the choice of the best settings.",
    _SWEEP_FLAGS,
  ),
  command_line.Group(
    "Computation: how each run is computed, and where it reports.",
    run_flags.COMPUTE_FLAGS,
  ),
  command_line.Group(
    "Search: instead of every combination, settings that Optuna suggests.\n\n"
    "Needs the package optuna: pip install --no-deps -r requirements-dev.txt.",
    _SEARCH_FLAGS,
  ),
)


def sweep() -> sweep_file.Sweep:
  """Reads the sweep that the flags describe."""
  grid = _settings("grid", _GRID.value)
  varying = setting_tables.merge(
    setting_tables.read_lists(
      "--grid", {name: text.split(",") for name, text in grid.items()}
    ),
    setting_tables.read_ranges("--range", _settings("range", _RANGE.value)),
    "a --grid",
  )
  fixed = setting_tables.read_fixed("--flag", _settings("flag", _FLAG.value))
  final = setting_tables.merge(fixed, varying)
  path, base_run = file(), base()
  chosen = tuple(name for name in _ALGORITHMS.value if name)
  if path is not None:
    described = sweep_file.read(path, included=FILES, place=f"--file={path}")
    if chosen:
      described = described.select_methods(chosen, "--algorithms")
  elif chosen:
    described = sweep_file.from_methods(chosen, "--algorithms")
  elif base_run is not None:
    described = sweep_file.from_methods([base_run.algorithm], "--base")
  else:
    raise UsageError(
      "--algorithms: is missing; name the methods to run, or give a --file or "
      "a --base."
    )
  if base_run is not None:
    described = described.with_defaults(base_run, f"--base={_BASE.value}")
  return dataclasses.replace(described, final=final)


def base() -> RunSpec | None:
  """Returns the spec that --base names; None without that flag."""
  if _BASE.value is None:
    return None
  place = f"--base={_BASE.value}"
  path = paths.parse("base", _BASE.value)
  if not path.exists() and _BASE.value not in command_line.included_flagfiles():
    raise UsageError(
      f"{place}: there is no such file or folder; give a file of flags of "
      "training, or the folder of a run."
    )
  try:
    if path.is_dir():
      return _with_code(discovery.open_only_run(path))
    return run_flags.spec_of_file(str(path))
  except (UsageError, FieldError, RunError) as error:
    raise UsageError(f"{place}: {command_line.error_line(error)}") from error


def _with_code(run: Run) -> RunSpec:
  """Returns a run's settings; refuses user code without --trust."""
  code = ", ".join(configuration.user_files(run.spec))
  if code and not NAMESPACE["trust"].value:
    raise RunError(
      f"{run.path}: names code for its {code}; if you trust it to run with "
      "your rights, give --trust."
    )
  return configuration.authorize_code(run.config, run.spec, trust=True)


def training_flag_hint(name: str) -> str | None:
  """Returns a hint for a flag of training; None for other flags."""
  if not run_flags.is_run_setting(name) or name == "algorithm":
    return None
  return (
    f"is a flag of training; give it as --flag={name}=..., several values as "
    f"--grid={name}=...,..., and a file of such flags as --base=FILE."
  )


def file() -> pathlib.Path | None:
  """Returns the path of the sweep file that --file names, if any."""
  if _FILE.value is None:
    return None
  path = paths.parse("file", _FILE.value)
  if path.is_file():
    return path
  if _FILE.value in included_files():
    return FILES / f"{_FILE.value}{sweep_file.SUFFIX}"
  raise UsageError(
    f"--file={path}: there is no such file; give the path of one, or one of "
    f"the included {', '.join(included_files()) or '(none)'}."
  )


def included_files() -> tuple[str, ...]:
  """Returns the names of the included sweep files."""
  return tuple(
    sorted(path.stem for path in FILES.glob(f"*{sweep_file.SUFFIX}"))
  )


def output_dir() -> pathlib.Path:
  """Returns the folder that contains the runs' folders."""
  path = paths.parse_optional(_OUTPUT_DIR)
  if path is None:
    sweep = file()
    return _OUTPUTS / (sweep.stem if sweep else "sweep")
  if path.exists() and not path.is_dir():
    raise UsageError(f"--output_dir={path}: is not a folder.")
  return path


def executor(*, is_search: bool) -> Executor:
  """Returns the executor for the runs."""
  jobs: int | None = _JOBS.value
  return executors.create(
    _EXECUTOR.value,
    _assignments("executor_option", _EXECUTOR_OPTION.value),
    folder=output_dir(),
    # By default, a search has one job: parallel trials cannot use each other's
    # results.
    jobs=1 if is_search and jobs is None else jobs,
  )


def criterion() -> str:
  """Returns the measure by which settings are chosen."""
  name: str = _CRITERION.value
  measures.check(name, "criterion")
  return name


def _settings(flag: str, texts: list[str]) -> dict[str, str]:
  """Parses settings; "task_option=N=V" means the same as "task_option.N=V"."""
  for prefix in spec_text.PREFIXES.values():
    word = f"{prefix[:-1]}="
    texts = [
      prefix + text.removeprefix(word) if text.startswith(word) else text
      for text in texts
    ]
  return _assignments(flag, texts)


def _assignments(flag: str, texts: list[str]) -> dict[str, str]:
  with command_line.prefixing_errors(f"--{flag}=", FieldError):
    return declared.assignments(texts)


def search(sweep: Sweep) -> SearchSettings | None:
  """Returns the settings of a search; None if every combination is run.

  Flags override the sweep's file.
  """
  values = {name: NAMESPACE[name].value for name in _SEARCH_FLAGS}
  given = {name: v for name, v in values.items() if v is not None}
  values = {
    "objective": criterion(),
    VALIDATION_FRACTION.name: VALIDATION_FRACTION.value,
    **sweep.search,
    **given,
  }
  if "trials" not in values:
    for name in (*given, *sweep.search):
      raise FieldError(
        name,
        "applies to a search; give its number of --trials, or leave it out.",
      )
    return None
  found = SearchSettings.from_dict(sweep.place, values)
  study.check_installed()
  return found
