"""Compares runs on one HTML page.

Give folders of runs, or folders above them. Runs that differ only in seeds are
one method. The page works offline, in print and without scripts.
"""

import shlex
import sys

from binaries import command_line, paths
from binaries.command_line import UsageError
from tff_fair.experiments import RunError
from tff_fair.experiments.analysis import questions
from tff_fair.experiments.presenting.report import page, task_runs

_FLAGS = command_line.Flags()
_OUTPUT = _FLAGS.text("output", "report.html", "The HTML file to write.")
_OVERWRITE = _FLAGS.switch("overwrite", False, "Replace an existing file.")
_TITLE = _FLAGS.text(
  "title", None, "Title of the page; by default it names the data."
)
_BASELINE = _FLAGS.text(
  "baseline",
  None,
  "The method to compare the others with, by the name of the algorithm or of "
  "its row on the page; by default fedavg, or else the first method.",
)
_QUESTION = _FLAGS.choice("question", None, questions.NAMES, questions.MEANING)
_UNFINISHED = _FLAGS.switch(
  "unfinished", False, "Include unfinished runs, with the rounds they have."
)
_VERIFY = _FLAGS.verification()


def main(*folders: str) -> None:
  """Writes the page about the runs in folders."""
  if not folders:
    raise UsageError(
      "RUNS: are missing; name folders of runs, or folders above them."
    )
  overwrite = _OVERWRITE.value
  path = paths.new_output(_OUTPUT.value, overwrite=overwrite, makes_folder=True)
  # The page shows a command that a user can repeat.
  command = shlex.join(["python", "-m", "binaries.report", *sys.argv[1:]])
  found = page.find(folders, verify=_VERIFY.value)
  tasks = task_runs.arrange(
    found.runs,
    unfinished=_UNFINISHED.value,
    baseline=_BASELINE.value,
    question=_QUESTION.value,
  )
  text = page.build(tasks, _TITLE.value, command=command)
  with command_line.prefixing_errors("--output=", RunError):
    page.write(text, path, overwrite=overwrite)
  megabytes = path.stat().st_size / 1e6
  print(f"Wrote {path}: {page.describe(tasks)}; {megabytes:.1f} MB.")
  if _VERIFY.value:
    paths.exit_if_changed(found)


PROGRAM = _FLAGS.program(
  main, __doc__, "Report: where it goes.", arguments="RUNS ..."
)
run = PROGRAM.run  # The console script tff-fair-report.


if __name__ == "__main__":
  run()
