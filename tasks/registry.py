"""The tasks by name."""

import dataclasses
import numbers
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tasks import (
  adult,
  cifar10,
  cifar100,
  cinic10,
  clothing1m,
  digits,
  emnist_character,
  fashion_mnist,
  femnist_skewed,
  leaf,
  mnist,
  sent140,
  shakespeare_character,
  stackoverflow_tag,
  stackoverflow_word,
  synthetic,
  tiny_imagenet,
)
from tasks import options as task_options
from tasks.task import DataError, Task


class _Entry(NamedTuple):
  options_type: type[task_options.TaskOptions]
  load: Callable[..., Task]


_TASKS: Mapping[str, _Entry] = {
  "digits": _Entry(digits.DigitsOptions, digits.load_digits),
  "emnist_character": _Entry(
    emnist_character.EmnistCharacterOptions,
    emnist_character.load_emnist_character,
  ),
  "femnist_skewed": _Entry(
    femnist_skewed.FemnistSkewedOptions, femnist_skewed.load_femnist_skewed
  ),
  "mnist": _Entry(mnist.MnistOptions, mnist.load_mnist),
  "fashion_mnist": _Entry(
    fashion_mnist.FashionMnistOptions, fashion_mnist.load_fashion_mnist
  ),
  "cifar10": _Entry(cifar10.Cifar10Options, cifar10.load_cifar10),
  "cifar100": _Entry(cifar100.Cifar100Options, cifar100.load_cifar100),
  "cinic10": _Entry(cinic10.Cinic10Options, cinic10.load_cinic10),
  "tiny_imagenet": _Entry(
    tiny_imagenet.TinyImagenetOptions, tiny_imagenet.load_tiny_imagenet
  ),
  "clothing1m": _Entry(
    clothing1m.Clothing1mOptions, clothing1m.load_clothing1m
  ),
  "shakespeare_character": _Entry(
    shakespeare_character.ShakespeareCharacterOptions,
    shakespeare_character.load_shakespeare_character,
  ),
  "stackoverflow_tag": _Entry(
    stackoverflow_tag.StackOverflowTagOptions,
    stackoverflow_tag.load_stackoverflow_tag,
  ),
  "stackoverflow_word": _Entry(
    stackoverflow_word.StackOverflowWordOptions,
    stackoverflow_word.load_stackoverflow_word,
  ),
  "synthetic": _Entry(synthetic.SyntheticOptions, synthetic.load_synthetic),
  "sent140": _Entry(sent140.Sent140Options, sent140.load_sent140),
  "adult": _Entry(adult.AdultOptions, adult.load_adult),
  "leaf": _Entry(leaf.LeafOptions, leaf.load_leaf),
}


def names() -> tuple[str, ...]:
  """Returns the names of all tasks."""
  return tuple(_TASKS)


def load(
  name: str,
  *,
  data_dir: str | os.PathLike[str] | None = None,
  seed: int = 0,
  **options: Any,
) -> Task:
  """Builds a task.

  Args:
    name: One of `names()`.
    data_dir: An existing directory with the data files of the task; None means
      the place where the task's own loader keeps them. Tasks whose data is part
      of an installed package read nothing there.
    seed: Seed, at least 0, of everything random about the task: partition,
      train and test split, choice of clients, initial weights of the model.
    **options: Options of the task, see `option_defaults`.

  Returns:
    The task. The same arguments give the same task on every machine.

  Raises:
    ValueError: If the name, an option or the seed is not valid.
    DataError: If the data cannot be used (a ValueError too).
  """
  entry = _entry(name)
  if not isinstance(seed, numbers.Integral) or seed < 0:
    raise ValueError(f"seed must be an integer of at least 0, found {seed!r}.")
  task_options.check_names(entry.options_type, options)
  config = entry.options_type(**options)
  return entry.load(config, data_dir=_directory(data_dir), seed=int(seed))


def option_names(name: str) -> tuple[str, ...]:
  """Returns the names of a task's options."""
  return tuple(option_defaults(name))


def option_defaults(name: str) -> dict[str, Any]:
  """Returns a task's options with their default values."""
  return dataclasses.asdict(_entry(name).options_type())


def parse_options(name: str, assignments: Iterable[str]) -> dict[str, Any]:
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
  return task_options.parse(_entry(name).options_type, assignments)


def _entry(name: str) -> _Entry:
  if name not in _TASKS:
    raise ValueError(
      f"unknown task {name!r}; valid tasks: {', '.join(_TASKS)}."
    )
  return _TASKS[name]


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
