"""Shows how fair any training of a model could be, and runs beside that.

For a model that is linear in its weights: the least mean loss, loss of the
worst clients and largest loss on the training data, each with a proven gap.
Name a task, or finished runs; of other models, runs give the representation.
It writes ceiling.json into the folders of the runs, from which tables of
tff-fair-compare, pages and model cards show it; one that is there is replaced.
"""

from binaries import command_line, paths
from binaries.command_line import UsageError
from tff_fair import experiments
from tff_fair.experiments import interruption, progress
from tff_fair.experiments.analysis import ceiling_records
from tff_fair.experiments.analysis.ceiling import WEIGHTINGS
from tff_fair.experiments.presenting import ceiling as presenting
from tff_fair.experiments.spec import spec_text

# The folders of runs are words without a flag.
FLAG_NAMES = {"runs": "RUN"}
_FLAGS = command_line.Flags()
_RUNS = _FLAGS.names(
  "runs",
  [],
  "Folders of finished runs, or folders above them, beside those that are "
  "given without a flag.",
)
_TASK = _FLAGS.text(
  "task",
  None,
  "In place of runs, a task; python -m binaries.train --list shows all.",
)
_TASK_OPTION = _FLAGS.texts(
  "task_option", [], "An option of the task, as name=value"
)
_DATA_DIR = _FLAGS.text(
  "data_dir", None, "Directory of the task's data files, as for training."
)
_SEED = _FLAGS.integer("seed", 0, "Seed of the task's data.", lower_bound=0)
_MODEL = _FLAGS.text(
  "model", None, "Another model for the task, as for training: linear, say."
)
_SHARE = _FLAGS.number(
  "share", 0.1, "The share of the clients that are the worst, in (0, 1]."
)
_WEIGHTING = _FLAGS.choice(
  "weighting",
  "uniform",
  WEIGHTINGS,
  "What a client counts for in the mean: once, by its training examples, or "
  "by the weights that the task's data have.",
)
_RADIUS = _FLAGS.number(
  "radius",
  None,
  "The weights, with biases, lie in the ball of this radius. By default 100 "
  "(of labels that are numbers, times the root of their mean square), and "
  "twice as far out as the runs.",
)
_TRUST = _FLAGS.switch(
  "trust",
  False,
  "Run the code of a run's task, though the run records no version of it, or "
  "another one.",
)
_OUTPUT = _FLAGS.texts(
  "output",
  [],
  "File to write besides showing the tables, by its ending a page (.html) or "
  "all numbers (.json)",
)
_OVERWRITE = _FLAGS.switch(
  "overwrite", False, "Replace files that are there already."
)
_CONTENTS = {".html": presenting.page, ".json": presenting.json}
_OF_TASK = (_TASK_OPTION, _DATA_DIR, _SEED, _MODEL)


@interruption.at_once()
def main(*words: str) -> None:
  """Shows and writes the ceiling that the flags ask for."""
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
  for flag in _OF_TASK:
    if runs and flag.present:
      raise UsageError(f"--{flag.name}: goes with --task; leave it out.")
  progress.say_on_screen("Loading TensorFlow ...")
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
  "Ceiling: of which runs or task, and where it goes.",
  arguments="RUN ...",
  flag_names=FLAG_NAMES,
)
run = PROGRAM.run  # The console script tff-fair-ceiling.


if __name__ == "__main__":
  run()
