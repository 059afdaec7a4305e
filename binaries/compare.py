"""Compares runs in tables: a row for each method, mean and std over its seeds.

Give folders of runs, or folders above them, such as the folder of a sweep.
"""

from collections.abc import Callable, Mapping, Sequence

from binaries import command_line, paths
from binaries.command_line import UsageError
from tff_fair.experiments.analysis import (
  columns as table_columns,
  compare,
  questions,
)
from tff_fair.experiments.analysis.chosen_evaluations import (
  BEST,
  LAST,
  EvaluationSelector,
)
from tff_fair.experiments.analysis.comparison_table import Table
from tff_fair.experiments.analysis.method_tables import Target
from tff_fair.experiments.presenting import text_tables

_FLAGS = command_line.Flags()
_RUNS = _FLAGS.names(
  "runs", [], "Folders of runs, or folders above them, in addition to RUN."
)
_COLUMNS = _FLAGS.names(
  "columns",
  list(compare.COLUMNS),
  f"Columns of the table, of: {', '.join(table_columns.NAMES)}. Accuracies "
  "are in percent, errors of regressions in units of the label; only "
  f"regressions have R². {table_columns.CLIENTS} adds a column for each "
  f"client, for up to {table_columns.MAX_CLIENTS} clients.",
)
_BASELINE = _FLAGS.text(
  "baseline",
  None,
  "The method to compare the others with. Adds paired differences to it, with "
  "intervals, p-values after Holm's correction, and wins, ties and losses by "
  "client; and how many of its suffering clients, those below its mean, "
  "improve, and how many others degrade.",
)
# Python refuses to parse integers of more than a few thousand digits.
_MOST_DIGITS = 18
_ROUND = _FLAGS.text(
  "round",
  LAST,
  f"The evaluation to compare: {LAST}; the number of a round, for the "
  f"evaluation after it; or {BEST}, each run's best by --criterion.",
)
_CRITERION = _FLAGS.text(
  "criterion",
  "mean",
  f"The measure by which --round={BEST} chooses; any of the --columns.",
)
_LAST = _FLAGS.integer(
  "last",
  None,
  "Also show the mean of this many evaluations of each run, up to the "
  "evaluation of --round.",
)
_TARGET = _FLAGS.number(
  "target",
  None,
  "Also show what each method costs until --target_of reaches this value: "
  "rounds, bytes, local steps. 0.8 is an accuracy of 80 %.",
)
_TARGET_OF = _FLAGS.text(
  "target_of",
  "mean",
  "The measure that should reach --target; any of the --columns.",
)
_QUESTION = _FLAGS.choice("question", None, questions.NAMES, questions.MEANING)
_HONEST = _FLAGS.switch(
  "honest", False, "Exclude the clients that attack from all statistics."
)
_UNFINISHED = _FLAGS.switch(
  "unfinished", False, "Include unfinished runs, with the rounds they have."
)
_VERIFY = _FLAGS.verification()
_OUTPUT = _FLAGS.texts(
  "output",
  [],
  "Also write the tables to a file: one table with unrounded numbers (.csv), "
  "Markdown (.md) or LaTeX (.tex)",
)
_SIUNITX = _FLAGS.switch(
  "siunitx", False, "Align numbers in LaTeX with the package siunitx."
)
_OVERWRITE = _FLAGS.switch("overwrite", False, "Replace existing files.")
_CONTENTS: Mapping[str, Callable[[Sequence[Table]], str]] = {
  ".csv": text_tables.csv,
  ".md": text_tables.markdown,
  ".tex": lambda found: text_tables.latex(found, with_siunitx=_SIUNITX.value),
}


def main(*words: str) -> None:
  """Shows and writes the tables that the flags describe."""
  outputs = [
    paths.new_output(text, overwrite=_OVERWRITE.value, endings=tuple(_CONTENTS))
    for text in _OUTPUT.value
  ]
  runs = [*words, *_RUNS.value]
  if not runs:
    raise UsageError(
      "RUN: is missing; name the folders of runs, or folders above them."
    )
  if _SIUNITX.value and not any(path.suffix == ".tex" for path in outputs):
    raise UsageError(
      "--siunitx: has no effect without an --output that ends in .tex; give "
      "one, or leave it out."
    )
  choice = EvaluationSelector(
    round=_round(),
    criterion=_CRITERION.value,
    honest=_HONEST.value,
    unfinished=_UNFINISHED.value,
    inclusion_hint="--unfinished",
    last=_LAST.value,
  )
  columns: list[str] = _COLUMNS.value
  if not columns:
    raise UsageError("--columns: is empty; leave it out for the usual ones.")
  for name in columns:
    if columns.count(name) > 1:
      raise UsageError(f"--columns: {name} is given twice.")
  target = Target.from_options(_TARGET.value, _TARGET_OF.value)
  found = compare.find(
    runs, with_costs=target is not None, verify=_VERIFY.value
  )
  tables = compare.build(
    found, columns, choice, _BASELINE.value, target, _QUESTION.value
  )
  print(text_tables.text(tables))
  for path in outputs:
    paths.write_output(path, _CONTENTS[path.suffix](tables))
  if _VERIFY.value:
    paths.exit_if_changed(found)


def _round() -> str | int:
  text: str = _ROUND.value
  if text in (LAST, BEST):
    return text
  if not text.isdecimal() or len(text) > _MOST_DIGITS:
    raise UsageError(
      f"--round={text[:40]}: expected {LAST}, {BEST} or the number of a round."
    )
  return int(text)


PROGRAM = _FLAGS.program(
  main,
  __doc__,
  "Comparison: which runs, which columns, and where the tables go.",
  arguments="RUN ...",
  flag_names=command_line.RUN_ARGUMENT,
)
run = PROGRAM.run  # The console script tff-fair-compare.


if __name__ == "__main__":
  run()
