"""Shows runs side by side: a row for each method, mean and std over its seeds.

Reads the folders of runs, or all below a folder such as that of a sweep.
"""

from collections.abc import Sequence

from binaries import command_line
from binaries.flags import compare_flags
from tff_fair.experiments.comparing import formats, latex, side_by_side
from tff_fair.experiments.comparing.evaluations import EvaluationChoice
from tff_fair.experiments.comparing.table import Table
from tff_fair.experiments.runs import finding

# The folders of runs are words without a flag.
FLAG_NAMES = {"runs": "RUN"}


def main(*words: str) -> None:
  """Shows and writes the tables that the flags ask for."""
  outputs = compare_flags.outputs()
  target = compare_flags.target()
  runs, left_out = finding.find_whole(
    compare_flags.paths(words),
    side_by_side.tables_to_read(with_target=target is not None),
  )
  found = side_by_side.build(
    runs,
    compare_flags.columns(),
    EvaluationChoice(
      round=compare_flags.evaluation(),
      criterion=compare_flags.criterion(),
      honest=compare_flags.honest(),
      unfinished=compare_flags.unfinished(),
      including="--unfinished",
      last=compare_flags.last(),
    ),
    compare_flags.baseline(),
    target=target,
    notes=left_out,
  )
  print(formats.text(found))
  for path in outputs:
    command_line.write_output(path, _content(path.suffix, found))


def _content(suffix: str, found: Sequence[Table]) -> str:
  if suffix == ".csv":
    return formats.csv(found)
  if suffix == ".md":
    return formats.markdown(found)
  return latex.latex(found, with_siunitx=compare_flags.with_siunitx())


PROGRAM = command_line.Program(
  main,
  str(__doc__),
  (compare_flags,),
  arguments="RUN ...",
  flag_names=FLAG_NAMES,
  namespace=compare_flags.NAMESPACE,
)
run = PROGRAM.run  # The console script tff-fair-compare.


if __name__ == "__main__":
  run()
