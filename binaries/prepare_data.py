"""Downloads data, converts it to TFF's format, and shows what is there.

What it writes is read by TFF's own loaders and by --data_dir of training; what
it writes for workers by --worker_data.
"""

from binaries import command_line
from binaries.flags import cut_flags, data_flags
from tasks.conversions.conversion import plan
from tasks.conversions.request import ConversionRequest
from tasks.data_error import DataError
from tasks.downloads import native as native_downloads
from tasks.formats import inventory
from tff_fair.experiments import (
  RunSpec,
  amounts,
  interruption,
  spec_text,
)
from tff_fair.experiments import progress as screen

# Fields whose flags have other names.
FLAG_NAMES = {
  "source_format": "--convert",
  "sources": "--source",
  "worker_data": "--for_workers",
}


def main() -> None:
  """Does what the flags say."""
  action = data_flags.action()
  if action == "for_workers":
    _write_for_workers()
    return
  flag, do = {
    "list": ("--data_dir", _list),
    "download": (f"--download={data_flags.data_set()}", _download),
    "convert": (f"--convert={data_flags.source_format()}", _convert),
  }[action]
  try:
    do()
  except DataError as error:
    raise command_line.UsageError(f"{flag}: {error}") from error


def _list() -> None:
  directory = data_flags.data_dir()
  num_files = num_unusable = 0
  for path, text in inventory.describe(directory):
    print(f"{path.relative_to(directory)}: " + text.replace("\n", "\n  "))
    num_files += 1
    num_unusable += text.startswith(inventory.UNUSABLE)
  if not num_files:
    print(f"{directory}: no data files")
  if num_unusable:
    raise DataError(
      directory, f"{num_unusable} of {num_files} data files cannot be used."
    )


def _download() -> None:
  directory, sha256 = data_flags.data_dir(), data_flags.sha256()
  screen.say_on_screen("Loading TensorFlow Federated ...")
  first, *others = native_downloads.archives(data_flags.data_set())
  # A checksum that was given is that of the data; others are known to TFF.
  for archive, checksum in [(first, sha256), *((a, None) for a in others)]:
    path = native_downloads.destination(archive, directory)
    if path.exists() and not data_flags.overwrite():
      print(f"{path} is there already; --overwrite downloads it again.")
      continue
    with amounts.AmountProgress(archive.name, None) as progress:
      try:
        native_downloads.fetch(
          archive,
          directory,
          sha256=checksum,
          overwrite=data_flags.overwrite(),
          on_progress=progress.set,
        )
      except interruption.Interrupted as interrupted:
        interrupted.advice = "The same command goes on where it was."
        raise
    print(f"Wrote {path}.")


def _convert() -> None:
  conversion = plan(_request())
  contents, path = conversion.contents, conversion.path
  with amounts.AmountProgress(
    f"Reading for {path.name}", contents.total, contents.unit
  ) as progress:
    dropped = conversion.write(progress.add)
  print(f"Wrote {path}: {inventory.client_data(path)}")
  if contents.classes:
    numbered = (f"{k} {name}" for k, name in enumerate(contents.classes))
    print(f"Classes: {', '.join(numbered)}.")
  if dropped.clients:
    print(
      f"Dropped {dropped.clients:,} clients with too few examples, "
      f"{dropped.examples:,} altogether."
    )
  for reason, count in contents.left_out.items():
    print(f"Left out {count:,}: {reason}.")
  if conversion.tables:
    screen.say_on_screen("Counting words and tags ...")
    conversion.write_tables()
    for table in conversion.tables:
      print(f"Wrote {table}.")


def _write_for_workers() -> None:
  spec = _described_run()
  screen.say_on_screen("Loading TensorFlow Federated ...")
  # Imported late: they import it.
  from tff_fair.experiments.training import task_loading  # noqa: PLC0415
  from tff_fair.experiments.worker_data import folder_writing  # noqa: PLC0415

  task = task_loading.load(spec)
  with amounts.AmountProgress(
    "Writing", 2 * task.num_clients, "clients"
  ) as progress:
    written = folder_writing.write(
      task,
      spec,
      data_flags.for_workers(),
      overwrite=data_flags.overwrite(),
      on_progress=progress.add,
    )
  print(
    f"Wrote {written.folder}: {task.description}; version {written.version}"
  )


def _described_run() -> RunSpec:
  """Returns a run on the task whose clients are written."""
  name = data_flags.task()
  data_dir = data_flags.given_data_dir()
  return RunSpec(
    task=name,
    task_options=spec_text.parse_task_options(name, data_flags.task_options()),
    seed=cut_flags.settings()["seed"],
    data_dir=None if data_dir is None else str(data_dir),
  )


def _request() -> ConversionRequest:
  return ConversionRequest(
    source_format=data_flags.source_format(),
    sources=data_flags.sources(),
    data_dir=data_flags.data_dir(),
    output_name=data_flags.output_name(),
    overwrite=data_flags.overwrite(),
    **cut_flags.settings(),
  )


PROGRAM = command_line.Program(
  main,
  str(__doc__),
  (data_flags, cut_flags),
  namespace=data_flags.NAMESPACE,
  flag_names=FLAG_NAMES,
)
run = PROGRAM.run  # The console script tff-fair-prepare-data.


if __name__ == "__main__":
  run()
