"""Shows the least losses that methods can reach, and compares them with runs.

For a model that is linear in its weights, the program computes the least mean
loss, the least loss of the worst clients and the least largest loss on the
training data, each with a proven bound on its error. Name a task, or finished
runs; if the model has hidden layers, these layers come from the runs. The
program writes ceiling.json into each run's folder, and replaces an earlier one;
tff-fair-compare, reports and model cards show this file.
"""

from binaries import command_line, paths
from binaries.command_line import UsageError
from tff_fair import experiments
from tff_fair.experiments import interruption, progress
from tff_fair.experiments.analysis import ceiling_records
from tff_fair.experiments.analysis.ceiling import WEIGHTINGS
from tff_fair.experiments.presenting import ceiling as presenting
from tff_fair.experiments.spec import spec_text

_FLAGS = command_line.Flags()
_RUNS = _FLAGS.names(
  "runs",
  [],
  "Folders of finished runs, or folders above them, in addition to RUN.",
)
_TASK = _FLAGS.text(
  "task",
  None,
  "The task, if you give no runs; python -m binaries.train --list shows all.",
)
_TASK_OPTION = _FLAGS.task_options()
_DATA_DIR = _FLAGS.text(
  "data_dir", None, "Folder of the task's data files, as in training."
)
_SEED = _FLAGS.integer("seed", 0, "Seed of the task's data.", lower_bound=0)
_MODEL = _FLAGS.text(
  "model", None, "Another model for the task, as in training, such as linear."
)
_SHARE = _FLAGS.number(
  "share",
  0.1,
  "The share of the clients that counts as the worst clients, in (0, 1].",
)
_WEIGHTING = _FLAGS.choice(
  "weighting",
  "uniform",
  WEIGHTINGS,
  "How the mean weighs clients: equally, by their numbers of training "
  "examples, or by the weights in the task's data.",
)
_RADIUS = _FLAGS.number(
  "radius",
  None,
  "The largest norm of all weights and biases together. By default 100 (for "
  "numeric labels times their root mean square), or twice the largest norm of "
  "the runs' weights if that is larger.",
)
_TRUST = _FLAGS.switch(
  "trust",
  False,
  "Run the user's code of a run's task, even if the run has no digest of the "
  "code or another one.",
)
_OUTPUT = _FLAGS.texts(
  "output",
  [],
  "Also write a file: a page (.html) or all numbers (.json)",
)
_OVERWRITE = _FLAGS.switch("overwrite", False, "Replace existing files.")
_CONTENTS = {".html": presenting.page, ".json": presenting.json}
_TASK_FLAGS = (_TASK_OPTION, _DATA_DIR, _SEED, _MODEL)


@interruption.exit_on_signal()
def main(*words: str) -> None:
  """Shows and writes the ceiling that the flags describe."""
  outputs = [
    paths.new_output(text, overwrite=_OVERWRITE.value, endings=tuple(_CONTENTS))
    for text in _OUTPUT.value
  ]
  runs = [*words, *_RUNS.value]
  if bool(runs) == (_TASK.value is not None):
    raise UsageError(
      "RUN: expected folders of runs, or --task, and not both; the data of "
      "runs are those of their task."
    )
  for flag in _TASK_FLAGS:
    if runs and flag.present:
      raise UsageError(f"--{flag.name}: goes with --task; leave it out.")
  progress.say_to_terminal("Loading TensorFlow ...")
  found = experiments.ceiling(
    runs or None,
    task=_TASK.value,
    task_options=None
    if runs
    else spec_text.parse_task_options(_TASK.value, _TASK_OPTION.value),
    data_dir=_DATA_DIR.value,
    seed=_SEED.value,
    model=_MODEL.value,
    share=_SHARE.value,
    weighting=_WEIGHTING.value,
    radius=_RADIUS.value,
    trust=_TRUST.value,
  )
  print(presenting.text(found))
  if runs:
    ceiling_records.write(found)
  for path in outputs:
    paths.write_output(path, _CONTENTS[path.suffix](found))


PROGRAM = _FLAGS.program(
  main,
  __doc__,
  "Ceiling: the runs or the task, and the files to write.",
  arguments="RUN ...",
  flag_names=command_line.RUN_ARGUMENT,
)
run = PROGRAM.run  # The console script tff-fair-ceiling.


if __name__ == "__main__":
  run()
