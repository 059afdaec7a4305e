"""Shows runs side by side on one HTML page.

Give folders of runs, or folders above them. Runs that differ in their seeds
alone are one method. The page works offline, in print and without scripts.
"""

import shlex
import signal
import sys

from binaries import command_line
from binaries.flags import report_flags
from tasks.data_error import DataError
from tff_fair.experiments import interruption, progress
from tff_fair.experiments.reporting import methods, page, watching
from tff_fair.experiments.reporting.page import report
from tff_fair.experiments.runs.finding import find_whole


def main(*folders: str) -> None:
  """Writes the page about the runs in some folders."""
  if not folders:
    raise command_line.UsageError(
      "RUNS: are missing; name folders of runs, or folders above them."
    )
  try:
    if report_flags.watch():
      _watch(*folders)
    else:
      _write(*folders)
  except DataError as error:
    raise command_line.UsageError(f"--output: {error}") from error


def _write(*folders: str) -> None:
  path, unfinished = report_flags.output(), report_flags.unfinished()
  runs, left_out = find_whole(folders)
  for line in left_out:
    progress.say(line)
  report(
    runs,
    path,
    title=report_flags.title(),
    overwrite=report_flags.overwrite(),
    baseline=report_flags.baseline(),
    unfinished=unfinished,
    command=_command(),
  )
  megabytes = path.stat().st_size / 1e6
  contents = page.describe(methods.arrange(runs, unfinished=unfinished))
  print(f"Wrote {path}: {contents}; {megabytes:.1f} MB.")


def _watch(*folders: str) -> None:
  path = report_flags.output()
  try:
    watching.watch(
      folders,
      path,
      title=report_flags.title(),
      overwrite=report_flags.overwrite(),
      baseline=report_flags.baseline(),
      command=_command(),
      tell=lambda text: print(text, flush=True),
    )
    print(f"All runs are finished, and {path} is complete.")
  except interruption.Interrupted as interrupted:
    if interrupted.signal_number != signal.SIGINT:
      raise
    print(f"Stopped; {path} shows the runs as they are.")


def _command() -> str:
  """Returns the command as a user can give it again."""
  return shlex.join(["python", "-m", "binaries.report", *sys.argv[1:]])


PROGRAM = command_line.Program(
  main,
  str(__doc__),
  (report_flags,),
  arguments="RUNS ...",
  namespace=report_flags.NAMESPACE,
)
run = PROGRAM.run  # The console script tff-fair-report.


if __name__ == "__main__":
  run()
