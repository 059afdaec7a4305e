"""Measures how fair a user's model is, or results from elsewhere.

It trains nothing. It writes a table of the clients, a summary and a page.
"""

from binaries import command_line
from binaries.flags import audit_flags
from tff_fair.experiments import audit, interruption, progress
from tff_fair.experiments.auditing.audit import check_folder


@interruption.at_once()
def main() -> None:
  """Audits as the flags say."""
  folder, overwrite = audit_flags.output_dir(), audit_flags.overwrite()
  with command_line.folder_named("output_dir"):
    check_folder(folder, overwrite=overwrite)
  arguments = audit_flags.arguments()
  if "results" not in arguments:
    progress.say_on_screen("Loading TensorFlow ...")
  found = audit(**arguments)
  print(found.describe())
  with command_line.folder_named("output_dir"):
    path = found.write(folder, overwrite=overwrite)
  progress.say(f"{path}: written, with a table of the clients beside it.")


PROGRAM = command_line.Program(
  main, str(__doc__), (audit_flags,), namespace=audit_flags.NAMESPACE
)
run = PROGRAM.run  # The console script tff-fair-audit.


if __name__ == "__main__":
  run()
