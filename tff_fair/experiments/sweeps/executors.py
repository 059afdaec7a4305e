"""The executors of sweeps, by name: where runs are carried out."""

import importlib.util
import pathlib
from collections.abc import Mapping

from tasks.formats import parsing
from tff_fair import declared
from tff_fair.declared import FieldError
from tff_fair.experiments.sweeps.dispatch import Executor, option_error
from tff_fair.experiments.sweeps.processes import Processes

LOCAL, SUBMITIT, DASK = NAMES = ("local", "submitit", "dask")
# Options of clusters that are ours, not theirs.
_RESTARTS = "restarts"
_USUAL_RESTARTS = 3
# What a user installs, and the package that is imported.
_EXTRAS = {SUBMITIT: ("slurm", "submitit"), DASK: ("dask", "distributed")}


def create(
  name: str,
  options: Mapping[str, object],
  *,
  folder: pathlib.Path,
  jobs: int | None = None,
) -> Executor:
  """Returns an executor, whose options are valid.

  Args:
    name: Its name.
    options: Its options by name; values may be texts, as a command line has
      them.
    folder: The folder of the sweep.
    jobs: How many runs go on side by side, at most; None leaves it to the
      executor.

  Raises:
    FieldError: If there is no such executor, an option is not valid, or a
      package is missing.
  """
  if name not in NAMES:
    raise FieldError(
      "executor", f"unknown; valid: {', '.join(NAMES)}.", value=name
    )
  values = {option: _value(option, v) for option, v in options.items()}
  if name == LOCAL:
    for option, value in values.items():
      raise option_error(
        option, value, "local has no options; jobs says how many runs go on."
      )
    return Processes(1 if jobs is None else jobs)
  _check_installed(name)
  restarts = _restarts(values.pop(_RESTARTS, _USUAL_RESTARTS))
  # These import packages that only some users have.
  if name == SUBMITIT:
    from tff_fair.experiments.sweeps import submitit_jobs  # noqa: PLC0415

    executor: Executor = submitit_jobs.SubmititJobs(
      folder / "submitit", values, jobs=jobs, restarts=restarts
    )
  else:
    from tff_fair.experiments.sweeps import dask_workers  # noqa: PLC0415

    executor = dask_workers.DaskWorkers(values, jobs=jobs, restarts=restarts)
  executor.check()
  return executor


def _check_installed(name: str) -> None:
  extra, package = _EXTRAS[name]
  if importlib.util.find_spec(package) is None:
    raise FieldError(
      "executor",
      f"needs the package {package}; install it with pip install "
      f'"tff-fair[{extra}]", or pip install {package}.',
      value=name,
    )


def _value(name: str, value: object) -> object:
  """Reads a text: a number, true, false, a list; or a text after all."""
  # Names may look like numbers.
  if not isinstance(value, str) or name == "name":
    return value
  try:
    found: object = parsing.parse_json(value)
  except ValueError:
    return value
  return found


def _restarts(value: object) -> int:
  try:
    number: int = declared.check(_RESTARTS, int, value)
  except ValueError:
    number = -1
  if number < 0:
    raise option_error(
      _RESTARTS,
      value,
      "expected how often a run goes on by itself after its job was lost: 0, "
      "1, 2, ...",
    )
  return number
