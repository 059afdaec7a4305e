"""Measures the fairness of an existing model, or of results from elsewhere.

The program trains nothing. It writes a page, a table of the clients and a
summary.
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
  "The model: a .keras or .h5 file, or the folder of a SavedModel. Its input "
  "is x of the task, or the task's raw columns by name.",
)
_TASK = _FLAGS.text(
  "task",
  None,
  "The task with the clients to test the model on; python -m binaries.train "
  "--list shows all.",
)
_TASK_OPTION = _FLAGS.task_options()
_DATA_DIR = _FLAGS.text(
  "data_dir", None, "Folder of the task's data files, as for training."
)
_SEED = _FLAGS.integer(
  "seed",
  0,
  "Seed of the task, the same as in training (or --data_seed, if you set it "
  "there): it decides which examples are test examples.",
  lower_bound=0,
)
_SPLIT = _FLAGS.choice(
  "split", "test", ["test", "train", "all"], "The examples to measure."
)
_OUTPUTS = _FLAGS.choice(
  "outputs",
  "auto",
  ["auto", "probabilities", "logits"],
  "What a classifier returns; auto: probabilities if they sum to 1 for each "
  "example, otherwise logits.",
)
for _name in _SCORES:
  command_line.define(RunSpec.fields()[_name], _FLAGS)
_RESULTS = _FLAGS.text(
  "results",
  None,
  "Instead of a model and a task, a CSV file of results, one row per client, "
  "with the columns client (its name), n (number of test examples), and "
  "correct, accuracy or loss. The audit ignores other columns.",
)
_OUTPUT_DIR = _FLAGS.text(
  "output_dir",
  "outputs/audit",
  "The folder for clients.csv, summary.json and index.html.",
)
_TRUST = _FLAGS.switch(
  "trust",
  False,
  "Run code in the file of --model beyond Keras' own layers, with the rights "
  "of your account.",
)
_OVERWRITE = _FLAGS.switch("overwrite", False, "Replace existing files.")


@interruption.exit_on_signal()
def main() -> None:
  """Runs the audit that the flags describe."""
  folder, overwrite = paths.parse_optional(_OUTPUT_DIR), _OVERWRITE.value
  assert folder is not None  # The flag has a default.
  with paths.prefixing_output_dir():
    check_folder(folder, overwrite=overwrite)
  if _MODEL.value and _RESULTS.value is None:
    progress.say_to_terminal("Loading TensorFlow ...")
  found = audit(
    paths.parse_optional(_MODEL),
    _TASK.value,
    results=paths.parse_optional(_RESULTS),
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
  with paths.prefixing_output_dir():
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
