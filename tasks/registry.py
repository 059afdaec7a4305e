"""Finds tasks and models by name, in this project, packages and users' files.

The name of a user's function is path/to/file.py:function or
PACKAGE.MODULE:function; see `tff_fair.user_functions`. Installed packages add
tasks with entry points of the group tff_fair.tasks:

[project.entry-points."tff_fair.tasks"]
hospitals = "my_package.my_module:hospitals"
"""

import dataclasses
import functools
import importlib
import numbers
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, cast

from tasks import label_noise, options as task_options
from tasks.data_error import DataError, reporting_unreadable
from tasks.formats import file_kinds, source_files
from tasks.models import names as model_names
from tasks.task import Task
from tasks.user_code.user_task import UserTask
from tff_fair import declared, spelling, user_functions
from tff_fair.declared import FieldError

# Each name is also a module of this package, which has `Options` and `load`.
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
_OF_TABLES = ("client=COLUMN", "label=COLUMN")
# By file ending: the task that reads such files, and what it needs besides
# `file`.
_READERS = {
  **dict.fromkeys((".csv", ".tsv", ".parquet"), ("table", _OF_TABLES)),
  ".npz": ("arrays", ()),
}
# Tasks without options of label noise: an example's label is several words or
# tags.
_WITHOUT_CLASS_LABELS = ("stackoverflow_tag", "stackoverflow_word")


class TaskModule(Protocol):
  """The interface of a task's module."""

  Options: type[task_options.TaskOptions]

  def load(
    self,
    config: task_options.TaskOptions,
    *,
    data_dir: pathlib.Path | None,
    seed: int,
    model_seed: int,
  ) -> Task:
    """Builds the task.

    Args:
      config: The task's options, an instance of the module's `Options`.
      data_dir: An existing folder with the files that the task documents; None
        for the default location of the task's loader.
      seed: Seed of everything random about the data: partition, train and test
        split, choice of clients.
      model_seed: Seed of the initial weights.
    """


def _unknown(name: str) -> FieldError:
  """Returns the error for an unknown task."""
  problem = f"unknown task; {spelling.advice(name, names(), 'tasks')}"
  if reader := _READERS.get(
    file_kinds.strip_compression_suffix(name.lower()).suffix
  ):
    options = [f"file={name}", *reader[1]]
    shown = " ".join(f"--task_option={option}" for option in options)
    problem = (
      f"is a file, which the task {reader[0]} reads; give --task={reader[0]} "
      f"{shown} (docs/own_data.md)."
    )
  return FieldError("task", problem, value=name)


def names() -> tuple[str, ...]:
  """Returns the names of all tasks, ending with tasks of installed packages."""
  return (*_NAMES, *_installed())


def check_name(name: str) -> None:
  """Checks that there is a task of this name; imports a user's function.

  Raises:
    FieldError: If there is no such task, the user's function cannot be
      imported, or its arguments cannot be options.
  """
  if not _may_not_run(name):
    _module(name)


def is_task(name: str) -> bool:
  """Returns whether `check_name` accepts a name."""
  try:
    check_name(name)
  except FieldError:
    return False
  return True


def short_name(name: str) -> str:
  """Returns the task's name; for a function, only the part after the colon."""
  return user_functions.short_name(name)


def file_digest(name: str) -> str | None:
  """Returns a digest of the files of a user's task; None for other tasks.

  Raises:
    FieldError: If there is no such file.
  """
  function = _function(name)
  return None if function is None else user_functions.digest(function)


def load(
  name: str,
  /,  # An option may be called `name`, too.
  *,
  data_dir: str | os.PathLike[str] | None = None,
  seed: int = 0,
  model_seed: int | None = None,
  **options: task_options.Value,
) -> Task:
  """Builds a task.

  Args:
    name: One of `names()`, or a function such as path/to/file.py:function.
    data_dir: An existing directory with the data files of the task; None for
      the default location of the task's loader. Tasks whose data is part of an
      installed package do not use it.
    seed: Seed, at least 0, of everything random about the data: partition,
      train and test split, choice of clients.
    model_seed: Seed, at least 0, of the initial weights of the model; None
      means `seed`.
    **options: Options of the task; see `option_defaults`.

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
  function = _function(name)
  with (
    source_files.recording() as files,
    user_functions.report_errors_as("task", function or name),
  ):
    task = module.load(
      config,
      data_dir=_directory(data_dir),
      seed=int(seed),
      model_seed=int(model_seed),
    )
  # A user's function may also read other files, which are not recorded.
  if function is None:
    task = dataclasses.replace(task, files=tuple(files))
  if isinstance(config, label_noise.Options):
    return label_noise.with_noise(task, config, int(seed))
  return task


def option_names(name: str) -> tuple[str, ...]:
  """Returns the names of a task's options."""
  return tuple(option_defaults(name))


def option_defaults(name: str) -> dict[str, task_options.Value]:
  """Returns a task's options with their default values."""
  return {} if _may_not_run(name) else _options_type(name)().to_dict()


def option_fields(name: str) -> Mapping[str, declared.Field]:
  """Returns a task's options by name: type, default, meaning and bounds."""
  return task_options.fields_of(_options_type(name))


def parse_options(
  name: str, assignments: Iterable[str]
) -> dict[str, task_options.Value]:
  """Parses options from `option=value` strings, as on a command line.

  Args:
    name: The task's name, as for `load`.
    assignments: Strings such as "num_clients=100", "only_digits=false" or
      "num_clients=none".

  Returns:
    Values of the right types by option name, ready for `load`.

  Raises:
    ValueError: If a string is not an assignment, or its option or value is not
      valid.
  """
  texts = list(assignments)
  given = declared.assignments(texts)
  if _may_not_run(name):
    return dict(given)
  return task_options.parse(_options_type(name, given), texts)


def check_options(
  name: str, options: Mapping[str, object]
) -> dict[str, task_options.Value]:
  """Checks options and their combination, as `load` does, but reads no data.

  Args:
    name: The task's name, as for `load`.
    options: Values by option name; all others have their defaults.

  Returns:
    The given options, converted to their types, such as an integer to a float.

  Raises:
    ValueError: If the task, an option or a value is not valid; the message
      names the option.
  """
  if _may_not_run(name):
    # Without the user's code, the recorded values cannot be checked.
    return dict(options)  # type: ignore[arg-type]
  options_type = _options_type(name, options)
  checked = task_options.build(options_type, options).to_dict()
  return {option: checked[option] for option in options}


def _options_type(
  name: str, given: Iterable[str] = ()
) -> type[task_options.TaskOptions]:
  """Returns the class of a task's options.

  If labels are classes, it includes the options of label noise; otherwise, such
  an option in `given` raises a `ValueError`.
  """
  base_type = _module(name).Options
  if name in _WITHOUT_CLASS_LABELS:
    if set(label_noise.NAMES) & set(given):
      raise label_noise.no_class_labels(name)
    return base_type
  return label_noise.extend_options(base_type)  # type: ignore[arg-type]  # Classes are hashable.


def _module(name: str) -> TaskModule:
  if name in _NAMES:
    return cast(TaskModule, importlib.import_module(f"tasks.{name}"))
  function = _function(name)
  if function is None:
    raise _unknown(name)
  with user_functions.report_errors_as("task", function):
    return _user_task(function, user_functions.load(function))


def _may_not_run(name: str) -> bool:
  """Returns whether a task is a user's code that may not run now."""
  function = _function(name)
  return function is not None and not user_functions.may_run(function)


def _function(name: str) -> str | None:
  """Returns the name of a task's function; None for this project's tasks."""
  if name in _NAMES:
    return None
  return name if ":" in name else _installed().get(name)


@functools.lru_cache(maxsize=16)
def _user_task(name: str, function: Callable[..., object]) -> UserTask:
  return UserTask(name, function)


def _directory(data_dir: str | os.PathLike[str] | None) -> pathlib.Path | None:
  if data_dir is None:
    return None
  # An empty string would mean the working directory.
  if not os.fspath(data_dir):
    raise DataError("data_dir", "is empty; name a directory or leave it out.")
  # Unlike pathlib's, this does not fail if the user in ~user is unknown; the
  # error below names the path.
  directory = pathlib.Path(os.path.expanduser(data_dir))
  with reporting_unreadable(directory):
    next(directory.iterdir(), None)
  return directory


@functools.cache
def _installed() -> Mapping[str, str]:
  """Returns the function of each task of an installed package, by task name."""
  return user_functions.entry_points("tff_fair.tasks", "task", _NAMES)


# The functions below replace a task's model.


def check_model(name: str) -> None:
  """Checks the name of a model, as far as possible without TensorFlow.

  Args:
    name: One of `tasks.models.names.ALL`, or a user's function as
      path/to/file.py:function or PACKAGE.MODULE:function.

  Raises:
    FieldError: If there is no such model, or no such function.
  """
  if user_functions.is_name(name):
    if user_functions.may_run(name):
      with user_functions.report_errors_as("model", name):
        user_functions.check(name)
  elif name not in model_names.ALL:
    raise FieldError(
      "model",
      f"unknown model; valid models: {', '.join(model_names.ALL)}, or a "
      "function of yours, as path/to/file.py:function.",
      value=name,
    )


def model_digest(name: str) -> str | None:
  """Returns a digest of the files of a user's model; None for other models.

  Raises:
    FieldError: If there is no such file.
  """
  return user_functions.digest(name) if user_functions.is_name(name) else None


def with_model(task: Task, name: str, *, seed: int) -> Task:
  """Returns a task with another model, but the same data, loss and metric.

  Args:
    task: The task.
    name: As for `check_model`. A user's function returns a new, uncompiled
      Keras model, with logits or one number as its output. It may take
      `input_shape`, `num_classes` (None if the label is a number) and `seed` by
      name, or no arguments. Even without a seed, the model has the same initial
      weights each time.
    seed: Seed of the initial weights.

  Raises:
    FieldError: If there is no such model, the model does not fit the task's
      shapes, or clients cannot train it.
  """
  check_model(name)
  # Imported late, since they import TensorFlow.
  from tasks.models import catalog, user_model  # noqa: PLC0415

  data = task.element_spec, task.num_classes
  if user_functions.is_name(name):
    with user_functions.report_errors_as("model", name):
      build = user_model.build_fn(
        name, user_functions.load(name), *data, seed=seed
      )
  else:
    wanted = catalog.required_shapes(*data)
    try:
      build = catalog.build_fn(name, wanted, seed)
    except ValueError as error:
      raise FieldError("model", str(error), value=name) from error
  return dataclasses.replace(task, keras_model_fn=build)
