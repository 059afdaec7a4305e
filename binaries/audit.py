"""Measures how fair a user's model is, or results from elsewhere.

It trains nothing. It writes a table of the clients, a summary and a page.
"""

import pathlib
from typing import Any

from absl import flags

from binaries import command_line, paths
from binaries.command_line import UsageError
from tff_fair.experiments import RunSpec, audit, interruption, progress
from tff_fair.experiments.presenting.audit import check_folder
from tff_fair.experiments.spec import spec_text

_FLAGS = command_line.Flags()
_SCORES = ("score", "measures", "score_class", "threshold_for")
_OF_TASKS = (
  *("task_option", "data_dir", "seed", "split", "outputs", "trust"),
  *_SCORES,
)

_MODEL = _FLAGS.text(
  "model",
  None,
  "The model: a .keras or .h5 file, or the folder of a SavedModel. It takes x "
  "of the task, or its raw columns by name.",
)
_TASK = _FLAGS.text(
  "task",
  None,
  "The task whose clients it serves; python -m binaries.train --list shows "
  "all.",
)
_TASK_OPTION = _FLAGS.texts(
  "task_option", [], "An option of the task, as name=value"
)
_DATA_DIR = _FLAGS.text(
  "data_dir", None, "Directory of the task's data files, as for training."
)
_SEED = _FLAGS.integer(
  "seed",
  0,
  "Seed of the task, as in training (--data_seed, where it was given): it "
  "decides which examples are test examples.",
  lower_bound=0,
)
_SPLIT = _FLAGS.choice(
  "split",
  "test",
  ["test", "train", "all"],
  "The examples that count.",
)
_OUTPUTS = _FLAGS.choice(
  "outputs",
  "auto",
  ["auto", "probabilities", "logits"],
  "The outputs of a classifier; by default, those that sum to 1 for each "
  "example are probabilities.",
)
for _name in _SCORES:
  command_line.define(RunSpec.fields()[_name], _FLAGS)
_RESULTS = _FLAGS.text(
  "results",
  None,
  "In place of a model and a task, a CSV file of results from elsewhere, one "
  "row a client: client (its name), n (its test examples), and correct, "
  "accuracy or loss. Other columns are ignored.",
)
_OUTPUT_DIR = _FLAGS.text(
  "output_dir",
  "outputs/audit",
  "The folder that gets clients.csv, summary.json and index.html.",
)
_TRUST = _FLAGS.switch(
  "trust",
  False,
  "Run code that the file of --model holds or names beside Keras' own, with "
  "the rights of your account.",
)
_OVERWRITE = _FLAGS.switch(
  "overwrite", False, "Replace these files if they are there already."
)


@interruption.at_once()
def main() -> None:
  """Audits as the flags say."""
  folder, overwrite = _path(_OUTPUT_DIR), _OVERWRITE.value
  with paths.output_dir_named():
    check_folder(folder, overwrite=overwrite)
  arguments = _arguments()
  if "results" not in arguments:
    progress.say_on_screen("Loading TensorFlow ...")
  found = audit(**arguments)
  print(found.describe())
  with paths.output_dir_named():
    path = found.write(folder, overwrite=overwrite)
  progress.say(f"{path}: written, with a table of the clients beside it.")


def _arguments() -> dict[str, Any]:
  """Returns the arguments of `experiments.audit`."""
  if _RESULTS.value is not None:
    for name in ("model", "task", *_OF_TASKS):
      if _FLAGS[name].present:
        raise UsageError(
          f"--{name}: does not go with --results, which needs no model and no "
          "task; leave one of them out."
        )
    return {"results": _path(_RESULTS)}
  for name, value in (("model", _MODEL.value), ("task", _TASK.value)):
    if value is None:
      raise UsageError(
        f"--{name}: is missing; give a --model and a --task, or --results."
      )
  return {
    "model": _path(_MODEL),
    "task": _TASK.value,
    "task_options": spec_text.parse_task_options(
      _TASK.value, _TASK_OPTION.value
    ),
    "data_dir": _DATA_DIR.value,
    "seed": _SEED.value,
    "split": _SPLIT.value,
    "outputs": _OUTPUTS.value,
    "trust": _TRUST.value,
    **{name: _FLAGS[name].value for name in _SCORES},
  }


def _path(flag: flags.FlagHolder[str | None]) -> pathlib.Path:
  if not flag.value:
    raise UsageError(f"--{flag.name}: is empty; name a path.")
  return paths.parse(flag.name, flag.value)


PROGRAM = _FLAGS.program(
  main,
  __doc__,
  "Audit: a model and the clients, or results, and where the page goes.",
)
run = PROGRAM.run  # The console script tff-fair-audit.


if __name__ == "__main__":
  run()
