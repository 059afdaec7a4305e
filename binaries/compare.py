"""Shows runs side by side: a row for each method, mean and std over its seeds.

Reads the folders of runs, or all below a folder such as that of a sweep.
"""

import pathlib
from typing import NoReturn

from binaries import command_line
from binaries.flags import compare_flags
from tff_fair import files
from tff_fair.experiments import progress
from tff_fair.experiments.comparing import evaluations as compare_evaluations
from tff_fair.experiments.comparing import formats as compare_formats
from tff_fair.experiments.comparing import tables as compare_tables
from tff_fair.experiments.runs import run as runs

_FORMATS = {
  ".csv": compare_formats.csv,
  ".md": compare_formats.markdown,
  ".tex": compare_formats.latex,
}


def main(*words: str) -> None:
  """Shows and writes the tables that the flags ask for."""
  outputs = compare_flags.outputs()
  tables = compare_tables.build(
    runs.find(compare_flags.paths(words)),
    compare_flags.columns(),
    compare_evaluations.Choice(
      round=compare_flags.evaluation(),
      criterion=compare_flags.criterion(),
      honest=compare_flags.honest(),
      unfinished=compare_flags.unfinished(),
    ),
    compare_flags.baseline(),
  )
  print(compare_formats.text(tables))
  for path in outputs:
    _write(path, _FORMATS[path.suffix](tables))
    progress.say(f"{path}: written.")


def _write(path: pathlib.Path, content: str) -> None:
  # A table that is cut off would look like a whole one.
  try:
    files.write(path, content)
  except OSError as error:
    raise command_line.UsageError(
      f"--output={path}: cannot be written: {error.strerror}."
    ) from error


def run() -> NoReturn:
  """Starts the program: the console script `tff-fair-compare`."""
  command_line.run(
    main,
    description=str(__doc__),
    groups=(compare_flags,),
    arguments="RUN ...",
    namespace=compare_flags.NAMESPACE,
  )


if __name__ == "__main__":
  run()
