"""Defines the flags of a run, reads them as a `RunSpec`, and answers `--list`.

Sweeps share the flags that set how to compute runs.
"""

import copy
import dataclasses
import pathlib
import textwrap
from collections.abc import Container
from typing import Any, Literal

from absl import flags

import tasks
from binaries import command_line, paths
from binaries.command_line import UsageError
from tff_fair import declared, methods, spelling, user_functions
from tff_fair.experiments import RunSpec
from tff_fair.experiments.spec import settings, spec_text
from tff_fair.runtime import schedulers

# The time within which a Dask scheduler must answer.
_SECONDS_TO_DASK = 5.0
# Errors of a connection to an invalid address, or to one that does not answer.
_CONNECTION_ERRORS = (ConnectionError, ValueError)


def catalog() -> str:
  """Returns the text of --list: all tasks and methods, with their options."""
  lines = ["Tasks (--task) and their options (--task_option)"]
  for name in tasks.names():
    lines += _lines(name, _options_of(name))
  lines += ["", "Algorithms (--algorithm), their hyperparameters (--hparam)"]
  lines += ["and the ways of summing (--aggregation), the default first"]
  for name in methods.names():
    if not methods.is_method(name):
      lines += _lines(name, f"cannot be used: {methods.unknown_message(name)}")
      continue
    hparams = spec_text.assignments(
      {h.name: h.default for h in methods.hyperparameters(name).values()}
    )
    lines += _lines(
      name,
      f"{', '.join(hparams) or 'no hyperparameters'}; "
      f"{', '.join(methods.get(name).aggregations)}",
    )
  return "\n".join(lines)


def _options_of(task: str) -> str:
  """Returns a task's options, or the error if its package cannot be used."""
  try:
    defaults = tasks.option_defaults(task)
  except declared.FieldError as error:
    return f"cannot be used: {error}"
  return ", ".join(spec_text.assignments(defaults))


def check_name(name: str) -> None:
  """Raises `ValueError` unless `name` names a task or a method."""
  if methods.is_method(name):
    return
  if user_functions.is_name(name) and user_functions.is_class(name):
    raise ValueError(methods.unknown_message(name))  # No task is a class.
  try:
    tasks.check_name(name)
  except declared.FieldError as error:
    if user_functions.is_name(name) or name in tasks.names():
      raise ValueError(error.problem) from error
    advice = spelling.suggest(
      name,
      [*tasks.names(), *methods.names()],
      "--list without a name shows the tasks and the algorithms.",
    )
    raise ValueError(f"unknown name; {advice}") from None


def catalog_entry(name: str) -> str:
  """Returns the meanings of a task's options, or a method's hyperparameters."""
  name = methods.canonical_name(name)
  if not methods.is_method(name):
    lines = [f"Options of --task={name}, as --task_option=NAME=VALUE"]
    fields = tasks.option_fields(name)
  else:
    lines = [f"Hyperparameters of --algorithm={name}, as --hparam=NAME=VALUE"]
    fields = methods.hyperparameters(name)
  for field in fields.values():
    kind = declared.describe(field.annotation)
    within = f", in {field.interval}" if field.interval else ""
    lines += _lines(
      f"{field.name}={declared.as_text(field.default)}",
      f"{kind[0].upper()}{kind[1:]}{within}. {field.meaning}",
    )
  return "\n".join(lines if fields else [*lines, "  none"])


def _lines(name: str, description: str) -> list[str]:
  lines = textwrap.wrap(description, 74)
  return [f"  {name}", *(f"      {line}" for line in lines)]


@dataclasses.dataclass(frozen=True)
class _ComputeOptions:
  """Arguments of `experiments.run` that set how to compute a run."""

  engine: Literal["local", "dask"] | None = declared.value(
    None,
    "Where to compute: in this program (local), or in the workers of a Dask "
    "cluster (dask). By default dask with --scheduler or --dask_workers, else "
    "local. Does not change results.",
  )
  scheduler: str | None = declared.value(
    None,
    "The Dask scheduler of --engine=dask, tcp://HOST:PORT or tls://HOST:PORT. "
    "Without it, Dask starts workers on this machine.",
  )
  dask_workers: int | None = declared.value(
    None,
    "Number of Dask workers to start on this machine, processes of some 700 "
    "MB each; by default one for each core.",
    expects="a positive integer",
    minimum=1,
  )
  wandb: str | None = declared.value(
    None,
    "A project of Weights & Biases to send the settings and the evaluations "
    "to (needs the package wandb). Does not change results.",
  )
  compilation_cache: bool = declared.value(
    True,
    "Cache compiled computations in the user's cache folder, and use those of "
    "earlier runs with the same settings. Does not change results.",
  )
  trust: bool = declared.value(
    False,
    "Run code of others with the rights of your account: code in the file of "
    "--initial_model beyond Keras' own layers, and in a sweep the user's code "
    "that the run of --base names.",
  )


COMPUTE_FLAGS = tuple(declared.fields_of(_ComputeOptions))


def define_compute_flags(namespace: flags.FlagValues) -> None:
  """Defines the flags that set how to compute runs."""
  for setting in declared.fields_of(_ComputeOptions).values():
    command_line.define(setting, namespace)


def compute_options(
  namespace: flags.FlagValues = flags.FLAGS,
) -> dict[str, Any]:
  """Returns the values of the compute flags, checked without TensorFlow."""
  found = {name: namespace[name].value for name in COMPUTE_FLAGS}
  scheduler, number = found["scheduler"], found["dask_workers"]
  if scheduler is not None and number is not None:
    raise UsageError(
      f"--dask_workers={number}: starts workers on this machine, but "
      "--scheduler has its own; leave one of the two out."
    )
  if scheduler is not None or number is not None:
    found["engine"] = found["engine"] or "dask"
    if found["engine"] != "dask":
      raise UsageError(
        f"--engine={found['engine']}: takes no Dask cluster; leave "
        "--scheduler and --dask_workers out, or choose dask."
      )
  if found["engine"] == "dask":
    with command_line.prefixing_errors("--engine=dask: ", ModuleNotFoundError):
      schedulers.check_installed()
  if scheduler is not None:
    with command_line.prefixing_errors(
      f"--scheduler={scheduler}: ", *_CONNECTION_ERRORS
    ):
      schedulers.check_scheduler(scheduler, timeout=_SECONDS_TO_DASK)
  return {**found, "wandb": found["wandb"] or None}


# The default run: an included flagfile, and its baselines' client rate.
_DEFAULT_RUN = "synthetic_adafedadam"
_DEFAULT_BASELINE_RATE = "0.1"

# For each field that is a mapping, the help of the flag that sets one entry.
_ASSIGNMENTS = {
  "task_options": "NAME=VALUE, an option of the task; --list shows all",
  "hparams": "NAME=VALUE, a hyperparameter of the method; --list shows all",
}


class _ListParser(flags.ArgumentParser):
  """Parses the value of --list: a boolean, or the name of a task or method."""

  syntactic_help = "the name of a task or of an algorithm"

  def parse(self, argument: Any) -> bool | str:
    """Returns the task's or method's name, or whether to show the catalog."""
    try:
      return bool(flags.BooleanParser().parse(argument))
    except ValueError:
      check_name(argument)
    return str(argument)


# The flags that --help shows; --helpfull shows all.
_COMMON_FLAGS = frozenset(
  (
    *("task", "data_dir", "model", "task_option"),
    *("algorithm", "hparam", "client_weighting", "aggregation", "personal_lam"),
    *("client_optimizer", "client_learning_rate", "batch_size", "local_epochs"),
    *("local_steps", "server_optimizer", "server_learning_rate"),
    *("initial_model", "sampling", "clients_per_round", "dropout"),
    *("unseen_clients", "total_rounds", "rounds_per_evaluation"),
    *("seed", "data_seed", "model_seed", "score", "measures"),
    *("validation_fraction", "criterion", "patience", "local_baseline"),
    *("pooled_baseline", "finetune_epochs", "certificate", "tape"),
    *("attack", "defence", "dp_noise", "label_correction"),
    *("output_dir", "baseline", "engine", "list"),
  )
)


def define_group(
  group: type[Any],
  namespace: flags.FlagValues = flags.FLAGS,
  without: Container[str] = (),
) -> command_line.Group:
  """Defines the flags of a group of settings, except those in `without`."""
  fields = [field.name for field in dataclasses.fields(group)]
  fields = [name for name in fields if name not in without]
  for name in fields:
    if name in _ASSIGNMENTS:
      flags.DEFINE_multi_string(
        spec_text.FLAG_NAMES[name],
        [],
        _ASSIGNMENTS[name],
        flag_values=namespace,
      )
    else:
      command_line.define(RunSpec.fields()[name], namespace)
  names = tuple(spec_text.FLAG_NAMES.get(name, name) for name in fields)
  return _group(str(group.__doc__), names)


def _group(title: str, names: tuple[str, ...]) -> command_line.Group:
  rare = tuple(name for name in names if name not in _COMMON_FLAGS)
  return command_line.Group(title, names, rare)


_OUTPUT_DIR = flags.DEFINE_string(
  "output_dir",
  None,
  "Folder of the results. It must be new, or contain the same run, interrupted "
  "or with fewer --total_rounds, which then resumes. By default the first free "
  "one of outputs/TASK-ALGORITHM, outputs/TASK-ALGORITHM-2, ...",
)
_BASELINE = flags.DEFINE_enum(
  "baseline",
  None,
  ("fedavg", "none"),
  "fedavg: also train FedAvg weighted by numbers of examples and FedAvg with "
  "equal weights, each in its own folder, and compare the worst clients of the "
  "method with those of the better baseline. By default only if no flag "
  "describes an experiment.",
)
_BASELINE_RATE = flags.DEFINE_list(
  "baseline_client_learning_rate",
  [],
  "The --client_learning_rate of --baseline, which you should tune as "
  "carefully as the method's: one rate for both FedAvgs, or two with a comma "
  "between, by numbers of examples first. By default the method's.",
)
define_compute_flags(flags.FLAGS)
_LIST = flags.DEFINE_flag(
  command_line.OptionalValueFlag(
    _ListParser(),
    None,
    "list",
    False,
    "Show all tasks with their options, and all algorithms with their "
    "hyperparameters and ways of summing, and exit. With the name of a task or "
    "an algorithm, such as --list=digits, explain its options.",
  )
)

_SPEC_GROUPS = tuple(map(define_group, settings.GROUPS))
GROUPS = (
  *_SPEC_GROUPS,
  _group(
    "Output: where results go, and where computations run.",
    (
      *(_OUTPUT_DIR.name, _BASELINE.name, _BASELINE_RATE.name),
      *COMPUTE_FLAGS,
    ),
  ),
  command_line.Group("Catalog: what there is to choose from.", (_LIST.name,)),
)


def names_experiment() -> bool:
  """Returns whether the flags set more than seeds and the number of rounds."""
  names = set(command_line.flag_values(_SPEC_GROUPS)) - set(
    spec_text.REPETITIONS
  )
  return any(flags.FLAGS[name].present for name in names)


def has_baselines() -> bool:
  """Returns whether to train both FedAvgs as baselines."""
  if _BASELINE.value is None:
    found = not names_experiment()
  else:
    found = _BASELINE.value != "none"
  if _BASELINE_RATE.value and not found:
    raise UsageError(
      f"--{_BASELINE_RATE.name}: applies to --baseline=fedavg; give it, or "
      "leave the rate out."
    )
  return found


def baselines(run: RunSpec) -> list[RunSpec]:
  """Returns the baselines to train with a run."""
  rates: list[str] = _BASELINE_RATE.value
  if len(rates) > 2:
    raise UsageError(
      f"--{_BASELINE_RATE.name}={','.join(rates)}: expected one rate, or two: "
      "by numbers of examples, and with equal weights."
    )
  field = RunSpec.fields()["client_learning_rate"]
  with command_line.prefixing_errors(f"--{_BASELINE_RATE.name}: ", ValueError):
    checked = [field.check(field.parse(text)) for text in rates]
  if not checked:
    return run.baselines()
  by_examples, equal = checked[0], checked[-1]
  return [
    beside.replace(
      client_learning_rate=equal
      if beside.client_weighting == "uniform"
      else by_examples
    )
    for beside in run.baselines()
  ]


def take_default_run() -> None:
  """Sets the flags of the default run if no flag describes an experiment."""
  if not names_experiment():
    given = [
      f"--{name}={flags.FLAGS[name].value}"
      for name in spec_text.REPETITIONS
      if flags.FLAGS[name].present
    ]
    words = command_line.with_flagfile_paths(
      ["train", f"--flagfile={_DEFAULT_RUN}", *given]
    )
    if not _BASELINE_RATE.value:
      words.append(f"--{_BASELINE_RATE.name}={_DEFAULT_BASELINE_RATE}")
    flags.FLAGS(words)


def spec(
  namespace: flags.FlagValues = flags.FLAGS, without: Container[str] = ()
) -> RunSpec:
  """Returns the flags' `RunSpec`; fields in `without` keep their defaults."""
  values = {
    name: namespace[name].value
    for name in RunSpec.fields()
    if name not in without
  }
  values["task_options"] = spec_text.parse_task_options(
    values["task"], namespace["task_option"].value
  )
  if "hparams" not in without:
    values["hparams"] = spec_text.parse_hparams(
      values["algorithm"], namespace["hparam"].value
    )
  return RunSpec.from_dict(values)


def is_run_setting(name: str) -> bool:
  """Returns whether a flag sets a field of `RunSpec`."""
  return name in (*RunSpec.fields(), *spec_text.FLAG_NAMES.values())


def spec_of_file(name: str) -> RunSpec:
  """Returns the spec that a flagfile describes."""
  # Start from the defaults, not from the values on the command line.
  namespace = copy.deepcopy(flags.FLAGS)
  for flag in namespace:
    namespace[flag].unparse()
  words = command_line.parse(["", f"--flagfile={name}"], GROUPS, namespace)
  others = [
    flag
    for flag in command_line.flag_values(GROUPS, namespace)
    if namespace[flag].present and not is_run_setting(flag)
  ]
  if words:
    raise UsageError(f"{words[0][:40]!r}: expected lines such as --name=value.")
  for flag in others:
    if flag not in (_OUTPUT_DIR.name, _BASELINE.name, _BASELINE_RATE.name):
      raise UsageError(f"--{flag}: is not a setting of a run; leave it out.")
  return spec(namespace)


def output_dir() -> pathlib.Path | None:
  """Returns the folder for results that the user names, if any."""
  return paths.parse_optional(_OUTPUT_DIR)


def requested_catalog() -> str | None:
  """Returns the part of the catalog that --list requests, if any."""
  if isinstance(_LIST.value, str):
    return catalog_entry(_LIST.value)
  return catalog() if _LIST.value else None
