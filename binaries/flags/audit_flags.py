"""Audit: a model and the clients, or results, and where the page goes."""

import pathlib
from typing import Any

from absl import flags

from binaries import command_line
from binaries.command_line import UsageError
from tff_fair.experiments import spec_text

# These flags share names, not meanings, with those of other programs.
NAMESPACE = flags.FlagValues()

_OF_TASKS = ("task_option", "data_dir", "seed", "split", "outputs")

_MODEL = flags.DEFINE_string(
  "model",
  None,
  "The model: a .keras or .h5 file, or the folder of a SavedModel. It takes x "
  "of the task, or its raw columns by name.",
  flag_values=NAMESPACE,
)
_TASK = flags.DEFINE_string(
  "task",
  None,
  "The task whose clients it serves; python -m binaries.train --list shows "
  "all.",
  flag_values=NAMESPACE,
)
_TASK_OPTION = flags.DEFINE_multi_string(
  "task_option",
  [],
  "An option of the task, as name=value",
  flag_values=NAMESPACE,
)
_DATA_DIR = flags.DEFINE_string(
  "data_dir",
  None,
  "Directory of the task's data files, as for training.",
  flag_values=NAMESPACE,
)
_SEED = flags.DEFINE_integer(
  "seed",
  0,
  "Seed of the task, as in training (--data_seed, where it was given): it "
  "decides which examples are test examples.",
  lower_bound=0,
  flag_values=NAMESPACE,
)
_SPLIT = flags.DEFINE_enum(
  "split",
  "test",
  ["test", "train", "all"],
  "<test|train|all>: the examples that count.",
  flag_values=NAMESPACE,
)
_OUTPUTS = flags.DEFINE_enum(
  "outputs",
  "auto",
  ["auto", "probabilities", "logits"],
  "<auto|probabilities|logits>: the outputs of a classifier; by default, those "
  "that sum to 1 for each example are probabilities.",
  flag_values=NAMESPACE,
)
_RESULTS = flags.DEFINE_string(
  "results",
  None,
  "In place of a model and a task, a CSV file of results from elsewhere, one "
  "row a client: client (its name), n (its test examples), and correct, "
  "accuracy or loss. Other columns are ignored.",
  flag_values=NAMESPACE,
)
_OUTPUT_DIR = flags.DEFINE_string(
  "output_dir",
  "outputs/audit",
  "The folder that gets clients.csv, summary.json and index.html.",
  flag_values=NAMESPACE,
)
_OVERWRITE = flags.DEFINE_boolean(
  "overwrite",
  False,
  "Replace these files if they are there already.",
  flag_values=NAMESPACE,
)


def arguments() -> dict[str, Any]:
  """Returns the arguments of `experiments.audit`.

  Raises:
    UsageError: If flags are missing or do not go together.
    FieldError: If an option of the task is not valid.
  """
  if _RESULTS.value is not None:
    for name in ("model", "task", *_OF_TASKS):
      if NAMESPACE[name].present:
        raise UsageError(
          f"--{name}: does not go with --results, which needs no model and no "
          "task; leave one of them out."
        )
    return {"results": _path("results", _RESULTS.value)}
  for name, value in (("model", _MODEL.value), ("task", _TASK.value)):
    if value is None:
      raise UsageError(
        f"--{name}: is missing; give a --model and a --task, or --results."
      )
  return {
    "model": _path("model", _MODEL.value),
    "task": _TASK.value,
    "task_options": spec_text.parse_task_options(
      _TASK.value, _TASK_OPTION.value
    ),
    "data_dir": _DATA_DIR.value,
    "seed": _SEED.value,
    "split": _SPLIT.value,
    "outputs": _OUTPUTS.value,
  }


def output_dir() -> pathlib.Path:
  """Returns the folder of the results.

  Raises:
    UsageError: If the flag is empty, or names no such home directory.
  """
  return _path("output_dir", _OUTPUT_DIR.value)


def overwrite() -> bool:
  """Returns whether files may be replaced."""
  return bool(_OVERWRITE.value)


def _path(flag: str, text: str | None) -> pathlib.Path:
  if not text:
    raise UsageError(f"--{flag}: is empty; name a path.")
  return command_line.path(flag, text)
