"""Writes the trained model of a run as a file, with a model card beside it.

Give the folder of the run. A program needs TensorFlow to use the file, and
nothing of this project. With --form it writes a round of the run, for
platforms that run TensorFlow Federated's computations.
"""

import pathlib

from binaries import command_line
from binaries.flags import export_flags
from tff_fair import experiments
from tff_fair.experiments import progress
from tff_fair.experiments.exporting import places
from tff_fair.experiments.runs import finding
from tff_fair.experiments.runs.run import Run


def main(*folders: str) -> None:
  """Exports the model that the flags ask for."""
  run, output = _run(*folders), export_flags.output()
  if export_flags.form() is not None:
    _export_form(run, output)
    return
  # Before TensorFlow is imported, which takes seconds.
  places.check_free(output, overwrite=export_flags.overwrite())
  exported = experiments.export(
    run,
    output,
    format=export_flags.format_name(),
    best=export_flags.best(),
    client=export_flags.client(),
    all_clients=export_flags.all_clients(),
    overwrite=export_flags.overwrite(),
  )
  for note in exported.notes:
    progress.say(note)
  print(
    f"Wrote {exported.path}, the model after round {exported.round_num:,}, and "
    f"{exported.card}."
  )


def _export_form(run: Run, output: pathlib.Path) -> None:
  places.check_free(output, overwrite=export_flags.overwrite())
  experiments.export_form(run, output, overwrite=export_flags.overwrite())
  print(f"Wrote {output}, a round as MapReduceForm; {places.FORM} lists it.")


def _run(*folders: str) -> Run:
  if len(folders) != 1:
    raise command_line.UsageError(
      f"RUN: expected the folder of one run, found {len(folders)} folders."
    )
  found = finding.find(folders)
  if len(found) > 1:
    raise command_line.UsageError(
      f"RUN={folders[0]}: holds {len(found)} runs; name one of them, as "
      f"{found[0].path}."
    )
  return found[0]


PROGRAM = command_line.Program(
  main,
  str(__doc__),
  (export_flags,),
  arguments="RUN",
  namespace=export_flags.NAMESPACE,
)
run = PROGRAM.run  # The console script tff-fair-export.


if __name__ == "__main__":
  run()
