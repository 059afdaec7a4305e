"""Shows runs side by side on one HTML page, which needs nothing beside itself.

Give folders of runs, or folders above them. Runs that differ in the seed alone
are shown as one method. The page can be read offline, in print and without
scripts.
"""

from typing import NoReturn

from binaries import command_line, report_flags, runs
from binaries.report_page import methods, page
from tasks.data_error import DataError
from tasks.formats import whole_file as staging

GROUPS = (report_flags,)


def main(*folders: str) -> None:
  """Writes the page about the runs in some folders."""
  if not folders:
    raise command_line.UsageError(
      "RUNS: are missing; name folders of runs, or folders above them."
    )
  path, overwrite = report_flags.output(), report_flags.overwrite()
  try:
    staging.check_free(path, overwrite=overwrite)
    tasks = methods.arrange(runs.find(folders))
    text = page.build(tasks, report_flags.title())
    with staging.replacement(path, overwrite=overwrite) as staged:
      staged.write_text(text, encoding="utf-8")
  except DataError as error:
    raise command_line.UsageError(f"--output: {error}") from error
  megabytes = path.stat().st_size / 1e6
  print(f"Wrote {path}: {page.describe(tasks)}; {megabytes:.1f} MB.")


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
