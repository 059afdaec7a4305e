"""Data: what to do, and where files are."""

import pathlib

from absl import flags

from binaries import command_line
from binaries.command_line import UsageError
from tasks.conversions.request import FORMATS, OF_SEVERAL_SOURCES, Format
from tasks.downloads import native as native_downloads

# These flags share names, not meanings, with those of training.
NAMESPACE = flags.FlagValues()

_CONVERT = flags.DEFINE_enum(
  "convert",
  None,
  FORMATS,
  "Convert --source into client data in TFF's format, a file in --data_dir. "
  "cifar: a folder of batches, as pickles or binary; images: a folder with a "
  "folder for each class; leaf: JSON files, or folders train and test of them; "
  "mnist: a folder of idx files, by writer if QMNIST's labels are there; "
  "plays: texts with speakers' names; stack_exchange: dumps, Posts.xml.",
  flag_values=NAMESPACE,
)
_DOWNLOAD = flags.DEFINE_enum(
  "download",
  None,
  native_downloads.NAMES,
  "Download a data set of TFF into --data_dir. After an interruption, the same "
  "command goes on where it was.",
  flag_values=NAMESPACE,
)
_FOR_WORKERS = flags.DEFINE_string(
  "for_workers",
  None,
  "Write the clients of --task into this folder, as workers read them: copy it "
  "to each host, or put it on a file system that all share, and train with "
  "--worker_data. It must be new or empty.",
  flag_values=NAMESPACE,
)
_TASK = flags.DEFINE_string(
  "task",
  None,
  "The task whose clients are written for workers, as training takes it. "
  "--data_dir and --seed are those of training, too.",
  flag_values=NAMESPACE,
)
_TASK_OPTION = flags.DEFINE_multi_string(
  "task_option",
  [],
  "An option of the task, as name=value",
  flag_values=NAMESPACE,
)
_LIST = flags.DEFINE_boolean(
  "list",
  False,
  "Show what the files under --data_dir hold: clients, examples, labels.",
  flag_values=NAMESPACE,
)
_DATA_DIR = flags.DEFINE_string(
  "data_dir",
  None,
  "Directory of the data: what training takes as --data_dir, and TFF's loaders "
  "as cache_dir.",
  flag_values=NAMESPACE,
)
_SOURCE = flags.DEFINE_multi_string(
  "source",
  [],
  "File or folder to convert; dumps and plays can be several",
  flag_values=NAMESPACE,
)
_OUTPUT_NAME = flags.DEFINE_string(
  "output_name",
  None,
  "Name of the file to write; by default the one that TFF's loader looks for, "
  "where there is one.",
  flag_values=NAMESPACE,
)
_OVERWRITE = flags.DEFINE_boolean(
  "overwrite",
  False,
  "Replace files that are there already.",
  flag_values=NAMESPACE,
)
_SHA256 = flags.DEFINE_string(
  "sha256",
  None,
  "SHA-256 checksum that the downloaded (packed) data must have.",
  flag_values=NAMESPACE,
)


def action() -> str:
  """Returns "list", "download", "convert" or "for_workers".

  Raises:
    UsageError: If not exactly one is asked for.
  """
  wanted = {
    "list": _LIST.value,
    "download": _DOWNLOAD.value is not None,
    "convert": _CONVERT.value is not None,
    "for_workers": _FOR_WORKERS.value is not None,
  }
  names = [name for name, is_wanted in wanted.items() if is_wanted]
  if len(names) != 1:
    raise UsageError(
      f"--{names[0] if names else 'list'}: give exactly one of --list, "
      "--download=NAME, --convert=FORMAT and --for_workers=DIR; --help "
      "explains them."
    )
  return names[0]


def data_dir() -> pathlib.Path:
  """Returns the directory of the data.

  Raises:
    UsageError: If there is none.
  """
  if not _DATA_DIR.value:
    raise UsageError("--data_dir: is missing; name the directory of the data.")
  return command_line.path("data_dir", _DATA_DIR.value)


def given_data_dir() -> pathlib.Path | None:
  """Returns the directory of the data, if there is one."""
  return data_dir() if _DATA_DIR.value else None


def for_workers() -> pathlib.Path:
  """Returns the folder to write for workers.

  Raises:
    UsageError: If its name is empty.
  """
  if not _FOR_WORKERS.value:
    raise UsageError("--for_workers: is empty; name a folder.")
  return command_line.path("for_workers", _FOR_WORKERS.value)


def task() -> str:
  """Returns the name of the task to write.

  Raises:
    UsageError: If there is none.
  """
  if not _TASK.value:
    raise UsageError("--task: is missing; name the task to write for workers.")
  return str(_TASK.value)


def task_options() -> list[str]:
  """Returns the options of the task, as name=value each."""
  return list(_TASK_OPTION.value)


def data_set() -> str:
  """Returns the name of the data set to download."""
  return _DOWNLOAD.value


def sha256() -> str | None:
  """Returns the checksum that was given, if one was.

  Raises:
    UsageError: If it cannot be one.
  """
  text = _SHA256.value
  if text is not None and (
    len(text) != 64 or not set(text.lower()) <= set("0123456789abcdef")
  ):
    raise UsageError(f"--sha256={text}: expected 64 hexadecimal digits.")
  return text


def source_format() -> Format:
  """Returns the format to convert from."""
  return _CONVERT.value


def sources() -> list[pathlib.Path]:
  """Returns the files and folders to convert, at least one.

  Raises:
    UsageError: If there is none, or there are more than the format takes.
  """
  paths = [command_line.path("source", text) for text in _SOURCE.value]
  if not paths:
    raise UsageError("--source: is missing; name what to convert.")
  if len(paths) > 1 and _CONVERT.value not in OF_SEVERAL_SOURCES:
    raise UsageError(
      f"--source={paths[1]}: --convert={_CONVERT.value} takes one source."
    )
  return paths


def output_name() -> str | None:
  """Returns the name of the file to write, if one was given."""
  return _OUTPUT_NAME.value


def overwrite() -> bool:
  """Returns whether files may be replaced."""
  return _OVERWRITE.value
