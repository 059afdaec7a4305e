"""Data and models to train on: federated learning tasks by name.

A task is a file here. Beneath it, data sets that come by client are read in
`federated`, and those in one place are cut over clients in `central` by means
of `cuts`. `formats` reads files, `downloads` fetches them, `conversions` writes
other data in TFF's format, `texts` makes numbers of words and characters, and
`models` are Keras models. Only `models` imports TensorFlow at once; all others
import it in the function that needs it, and options are known without it.
"""

import types

from tasks.data_error import DataError
from tasks.registry import (
  check_options,
  load,
  names,
  option_defaults,
  option_meanings,
  option_names,
  option_types,
  parse_options,
)
from tasks.task import Objective, Split, Task
from tff_fair import moved as _moved

__all__ = [
  "DataError",
  "Objective",
  "Split",
  "Task",
  "check_options",
  "load",
  "names",
  "option_defaults",
  "option_meanings",
  "option_names",
  "option_types",
  "parse_options",
]


def __getattr__(name: str) -> types.ModuleType:
  return _moved.load(f"tasks.{name}")
