"""The tasks by name: ours, those of installed packages, and users' functions.

A user's function is named as path/to/file.py:function, or as
PACKAGE.MODULE:function; see `tasks.own`.
"""

import functools
import importlib
import numbers
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, cast

from tasks import label_noise
from tasks import options as task_options
from tasks.data_error import DataError
from tasks.own import functions, installed
from tasks.own.functions import UserCodeError
from tasks.own.made_task import MadeTask
from tasks.task import Task
from tff_fair import spelling

Value = task_options.Value

# Each is a module of this package with its `Options` and its `load`.
_NAMES = (
  "digits",
  "emnist_character",
  "femnist_skewed",
  "mnist",
  "fashion_mnist",
  "cifar10",
  "cifar100",
  "cinic10",
  "tiny_imagenet",
  "clothing1m",
  "shakespeare_character",
  "stackoverflow_tag",
  "stackoverflow_word",
  "synthetic",
  "sent140",
  "adult",
  "leaf",
  "table",
  "arrays",
  "tfds",
  "client_data",
)
# The task that reads a file of a user's, and its options beside the file.
_OF_TABLES = ("client=COLUMN", "label=COLUMN")
_READERS = {
  **dict.fromkeys((".csv", ".parquet"), ("table", _OF_TABLES)),
  ".npz": ("arrays", ()),
}
# Their labels are several words or tags; all others may have noisy labels.
_WITHOUT_CLASS_LABELS = ("stackoverflow_tag", "stackoverflow_word")


class _TaskModule(Protocol):
  """The module of a task."""

  Options: type[task_options.TaskOptions]

  def load(
    self,
    config: task_options.TaskOptions,
    *,
    data_dir: pathlib.Path | None,
    seed: int,
    model_seed: int,
  ) -> Task:
    """Builds the task; `config` is of the module's `Options`."""


class UnknownTaskError(ValueError):
  """There is no task of a name.

  Attributes:
    problem: What the name may mean, or what is valid.
  """

  def __init__(self, name: str) -> None:
    what, advice = "unknown task", spelling.advice(name, names(), "tasks")
    if reader := _READERS.get(_ending(name)):
      what = f"is a file, which the task {reader[0]} reads"
      options = [f"file={name}", *reader[1]]
      shown = " ".join(f"--task_option={option}" for option in options)
      advice = f"give --task={reader[0]} {shown} (docs/own_data.md)."
    self.problem = f"{what}; {advice}"
    super().__init__(f"{what} {name!r}; {advice}")


def _ending(file: str) -> str:
  """Returns what kind of file a name says that it is: ".csv"."""
  return pathlib.PurePath(file.lower().removesuffix(".gz")).suffix


def names() -> tuple[str, ...]:
  """Returns the names of all tasks, those of installed packages last."""
  return (*_NAMES, *installed.functions(_NAMES))


def check_name(name: str) -> None:
  """Checks that there is a task of a name; imports a user's function.

  Raises:
    UnknownTaskError: If there is none.
    UserCodeError: If the user's function cannot be imported, or its arguments
      can be no options.
  """
  _module(name)


def is_task(name: str) -> bool:
  """Returns whether there is a task of a name, as `check_name` finds it."""
  try:
    check_name(name)
  except (UnknownTaskError, UserCodeError):
    return False
  return True


def short_name(name: str) -> str:
  """Returns the name of a task as folders are called: a function's own."""
  return functions.short_name(name)


def file_digest(name: str) -> str | None:
  """Returns a digest of the files of a user that make a task; None of ours.

  Raises:
    UserCodeError: If there is no such file.
  """
  function = _function(name)
  return None if function is None else functions.digest(function)


def load(
  name: str,
  /,  # An option may have this name.
  *,
  data_dir: str | os.PathLike[str] | None = None,
  seed: int = 0,
  model_seed: int | None = None,
  **options: task_options.Value,
) -> Task:
  """Builds a task.

  Args:
    name: One of `names()`, or a user's function, as above.
    data_dir: An existing directory with the data files of the task. None means
      the place where the task's own loader keeps them. Tasks whose data is part
      of an installed package read nothing there.
    seed: Seed, at least 0, of everything random about the data: partition,
      train and test split, choice of clients.
    model_seed: Seed, at least 0, of the initial weights of the model; `None`
      is `seed`.
    **options: Options of the task, see `option_defaults`.

  Returns:
    The task. The same arguments give the same task on every machine.

  Raises:
    ValueError: If the name, an option or the seed is not valid, or a user's
      function fails.
    DataError: If the data cannot be used (a ValueError too).
  """
  module = _module(name)
  if model_seed is None:
    model_seed = seed
  for given, value in (("seed", seed), ("model_seed", model_seed)):
    if not isinstance(value, numbers.Integral) or value < 0:
      raise ValueError(
        f"{given} must be an integer of at least 0, found {value!r}."
      )
  config = task_options.build(_options_type(name, options), options)
  task = module.load(
    config,
    data_dir=_directory(data_dir),
    seed=int(seed),
    model_seed=int(model_seed),
  )
  if isinstance(config, label_noise.Options):
    return label_noise.with_noise(task, config, int(seed))
  return task


def option_names(name: str) -> tuple[str, ...]:
  """Returns the names of a task's options."""
  return tuple(option_defaults(name))


def option_defaults(name: str) -> dict[str, task_options.Value]:
  """Returns a task's options with their default values."""
  return _options_type(name)().to_dict()


def option_types(name: str) -> Mapping[str, object]:
  """Returns the annotated type of each option of a task."""
  return task_options.annotations(_options_type(name))


def option_meanings(name: str) -> dict[str, str]:
  """Returns the meaning of each option of a task, in a sentence or more."""
  return task_options.meanings(_options_type(name))


def parse_options(
  name: str, assignments: Iterable[str]
) -> dict[str, task_options.Value]:
  """Reads options from `option=value` texts, as given on a command line.

  Args:
    name: One of `names()`.
    assignments: Texts such as "num_clients=100", "only_digits=false" or
      "num_clients=none".

  Returns:
    Values of the right types by option name, ready for `load`.

  Raises:
    ValueError: If a text is no assignment, or its option or value is not valid.
  """
  texts = list(assignments)
  given = [text.partition("=")[0] for text in texts]
  return task_options.parse(_options_type(name, given), texts)


def check_options(
  name: str, options: Mapping[str, object]
) -> dict[str, task_options.Value]:
  """Checks options together, as `load` does, but reads no data.

  Args:
    name: One of `names()`.
    options: Values by option name; the others have their defaults.

  Returns:
    The given options, each in its type: an integer as a float, say.

  Raises:
    ValueError: If the task, an option or a value is not valid; it names the
      option.
  """
  options_type = _options_type(name, options)
  checked = task_options.build(options_type, options).to_dict()
  return {option: checked[option] for option in options}


def _options_type(
  name: str, given: Iterable[str] = ()
) -> type[task_options.TaskOptions]:
  """Returns a task's options; checks that it can have the given ones."""
  own = _module(name).Options
  if name in _WITHOUT_CLASS_LABELS:
    label_noise.check_none_given(name, given)
    return own
  return label_noise.added_to(own)  # type: ignore[arg-type]  # Classes hash.


def _module(name: str) -> _TaskModule:
  if name in _NAMES:
    return cast(_TaskModule, importlib.import_module(f"tasks.{name}"))
  function = _function(name)
  if function is None:
    raise UnknownTaskError(name)
  return _made_task(function, functions.load(function))


def _function(name: str) -> str | None:
  """Returns the function of a task that is not ours."""
  if name in _NAMES:
    return None
  return name if ":" in name else installed.functions(_NAMES).get(name)


@functools.lru_cache(maxsize=16)
def _made_task(name: str, function: Callable[..., object]) -> MadeTask:
  return MadeTask(name, function)


def _directory(data_dir: str | os.PathLike[str] | None) -> pathlib.Path | None:
  if data_dir is None:
    return None
  # An empty text would mean the working directory.
  if not os.fspath(data_dir):
    raise DataError("data_dir is empty; name a directory or leave it out.")
  # Leaves a home directory that does not exist as it is, to be named below.
  directory = pathlib.Path(os.path.expanduser(data_dir))
  try:
    next(directory.iterdir(), None)
  except OSError as error:
    raise DataError(
      f"data_dir {directory} cannot be read: {error.strerror}."
    ) from error
  return directory
