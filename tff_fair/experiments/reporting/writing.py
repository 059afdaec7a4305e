"""Writes a report: one HTML file about some runs, which needs nothing else."""

import os
import pathlib
from collections.abc import Iterable

from tasks.formats import files
from tasks.formats import whole_file as staging
from tff_fair.experiments import progress
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.reporting import methods, page
from tff_fair.experiments.runs import finding
from tff_fair.experiments.runs.finding import Place
from tff_fair.experiments.runs.run import Run


def report(
  runs: Run | Place | Iterable[Run | Place],
  path: Place,
  *,
  title: str | None = None,
  overwrite: bool = False,
  baseline: str | None = None,
  unfinished: bool = False,
  command: str | None = None,
) -> pathlib.Path:
  """Writes a page that shows runs side by side.

  Runs that differ in their seeds alone are one method of the page. The page
  works offline, in print and without scripts.

  Args:
    runs: Runs, folders of runs, or folders above them; a run counts once.
    path: The HTML file to write. Its folder is made if need be.
    title: Title of the page; by default it names the data.
    overwrite: Whether to replace a file that is there already.
    baseline: The label or name of the method to compare the others with; by
      default FedAvg, or else the first.
    unfinished: Whether to show runs that are not finished, too, once they were
      evaluated after a round.
    command: The command that writes the page, for its foot.

  Returns:
    The file.

  Raises:
    RunError: If the file is there already, a folder holds no run, all runs are
      damaged, or two runs are the same. Fewer damaged runs are left out, with a
      line on stderr.
    ValueError: If there are no runs, or the baseline is not one of the methods.
    tasks.data_error.DataError: If the file cannot be written.
  """
  path = pathlib.Path(path)
  check_path(path, overwrite=overwrite)
  found, left_out = finding.find_whole(runs)
  for line in left_out:
    progress.say(line)
  if not found:
    raise ValueError(
      "Found no runs, expected one at least; give runs, or folders of runs."
    )
  tasks = methods.arrange(found, unfinished=unfinished, baseline=baseline)
  text = page.build(tasks, title, command=command)
  with staging.replacement(path, overwrite=overwrite) as staged:
    staged.write_text(text, encoding="utf-8")
  return path


def check_path(path: pathlib.Path, *, overwrite: bool) -> None:
  """Checks that a page may be written.

  Raises:
    RunError: If it is a folder, or there already and nobody allows to replace
      it.
  """
  if path.is_dir():
    raise RunError(
      f"{path}: is a folder; name a file in it, as {path / 'page.html'}."
    )
  try:
    files.check_regular(path)
  except OSError as error:
    raise RunError(str(error)) from error
  if os.path.lexists(path) and not overwrite:
    raise RunError(
      f"{path}: exists already; choose another file, or replace it with "
      "overwrite=True."
    )
