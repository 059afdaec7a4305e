"""Shows runs side by side on one HTML page.

Give folders of runs, or folders above them. Runs that differ in the seed alone
are one method. The page works offline, in print and without scripts.
"""

from typing import NoReturn

from binaries import command_line
from binaries.flags import report_flags
from tasks.data_error import DataError
from tff_fair.experiments.reporting import methods, page
from tff_fair.experiments.reporting.writing import report
from tff_fair.experiments.runs.finding import find

GROUPS = (report_flags,)


def main(*folders: str) -> None:
  """Writes the page about the runs in some folders."""
  if not folders:
    raise command_line.UsageError(
      "RUNS: are missing; name folders of runs, or folders above them."
    )
  path, overwrite = report_flags.output(), report_flags.overwrite()
  runs = find(folders)
  try:
    report(runs, path, title=report_flags.title(), overwrite=overwrite)
  except DataError as error:
    raise command_line.UsageError(f"--output: {error}") from error
  megabytes = path.stat().st_size / 1e6
  print(
    f"Wrote {path}: {page.describe(methods.arrange(runs))}; {megabytes:.1f} MB."
  )


def run() -> NoReturn:
  """Starts the program: the console script `tff-fair-report`."""
  command_line.run(
    main,
    description=str(__doc__),
    groups=GROUPS,
    arguments="RUNS ...",
    namespace=report_flags.NAMESPACE,
  )


if __name__ == "__main__":
  run()
