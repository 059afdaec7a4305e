"""Trains one fair algorithm on one task, and shows how fair the result is.

Without flags: AdaFed on handwritten digits, in less than a minute.
"""

import shlex
import sys
from typing import NoReturn

from binaries import command_line
from binaries.flags import run_flags
from tff_fair import experiments
from tff_fair.experiments import garbage, interruption, progress
from tff_fair.experiments.runs import fairness_table
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.training import exclusion, task_loading

# The exit status of a run in which no client counted.
_STATUS_UNTRAINED = 3


@interruption.at_once()
def main() -> None:
  """Trains as the flags say."""
  if (catalog_text := run_flags.catalog_wanted()) is not None:
    print(catalog_text)
    return
  output_dir = run_flags.output_dir()
  try:
    if output_dir is not None:
      RunFolder(output_dir).check_usable()
    spec = run_flags.spec()
    workers = run_flags.workers()
    options = run_flags.COMPUTING.options()
    if options["worker_data"] is None:
      task_loading.load_ahead(spec)
    train = experiments.run  # Imports it.
    garbage.spare_what_stays()
    run = train(
      spec,
      output_dir,
      workers=workers,
      **options,
      # As a user can give it again, whichever way the program was started.
      command=shlex.join(["python", "-m", "binaries.train", *sys.argv[1:]]),
    )
  except experiments.RunError as error:
    # It begins with the folder.
    raise command_line.UsageError(f"--output_dir={error}") from error
  print(fairness_table.describe(run.summary or {}))
  if run.is_untrained:
    progress.say(f"{run.path}: {exclusion.advise(run.cohorts)}")
    sys.exit(_STATUS_UNTRAINED)


def run() -> NoReturn:
  """Starts the program: the console script `tff-fair-train`."""
  command_line.run(main, description=str(__doc__), groups=run_flags.GROUPS)


if __name__ == "__main__":
  run()
