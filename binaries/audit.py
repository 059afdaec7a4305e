"""Measures how fair a user's model is, or results from elsewhere.

It trains nothing. It writes a table of the clients, a summary and a page.
"""

from binaries import command_line, paths
from tff_fair import declared
from tff_fair.experiments import RunSpec, audit, interruption, progress
from tff_fair.experiments.presenting.audit import check_folder
from tff_fair.experiments.spec import spec_text

_FLAGS = command_line.Flags()
_SCORES = ("score", "measures", "score_class", "threshold_for")

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
  "Seed of the task, as in training (--data_seed, if you set it): it decides "
  "which examples are test examples.",
  lower_bound=0,
)
_SPLIT = _FLAGS.choice(
  "split",
  "test",
  ["test", "train", "all"],
  "The examples to measure.",
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
  "Instead of a model and a task, a CSV file of results from elsewhere, one "
  "row a client: client (its name), n (its test examples), and correct, "
  "accuracy or loss. The audit ignores other columns.",
)
_OUTPUT_DIR = _FLAGS.text(
  "output_dir",
  "outputs/audit",
  "The folder that gets clients.csv, summary.json and index.html.",
)
_TRUST = _FLAGS.switch(
  "trust",
  False,
  "Run code in the file of --model beyond Keras' own layers, with the rights "
  "of your account.",
)
_OVERWRITE = _FLAGS.switch("overwrite", False, "Replace existing files.")


@interruption.at_once()
def main() -> None:
  """Audits as the flags say."""
  folder, overwrite = paths.optional(_OUTPUT_DIR), _OVERWRITE.value
  assert folder is not None  # The flag has a default.
  with paths.output_dir_named():
    check_folder(folder, overwrite=overwrite)
  if _MODEL.value and _RESULTS.value is None:
    progress.say_on_screen("Loading TensorFlow ...")
  found = audit(
    paths.optional(_MODEL),
    _TASK.value,
    results=paths.optional(_RESULTS),
    task_options=spec_text.parse_task_options(_TASK.value, _TASK_OPTION.value)
    if _TASK.value
    else declared.assignments(_TASK_OPTION.value),
    data_dir=_DATA_DIR.value,
    seed=_SEED.value,
    split=_SPLIT.value,
    outputs=_OUTPUTS.value,
    trust=_TRUST.value,
    **{name: _FLAGS[name].value for name in _SCORES},
  )
  print(found.describe())
  with paths.output_dir_named():
    path = found.write(folder, overwrite=overwrite)
  progress.say(f"{path}: written, with a table of the clients beside it.")


PROGRAM = _FLAGS.program(
  main,
  __doc__,
  "Audit: a model and the clients, or results, and where the page goes.",
)
run = PROGRAM.run  # The console script tff-fair-audit.


if __name__ == "__main__":
  run()
