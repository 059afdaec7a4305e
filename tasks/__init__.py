"""Data and models to train on: federated learning tasks by name.

A task is a file here. Beneath it, data sets that come by client are read in
`federated`, and those in one place are cut over clients in `central` by means
of `cuts`. `formats` reads files, `downloads` fetches them, `conversions` writes
other data in TFF's format, `texts` makes numbers of words and characters, and
`models` are Keras models. Only `models` imports TensorFlow at once; all others
import it in the function that needs it, and options are known without it.
"""

import types

from tasks.data_error import DataError as DataError
from tasks.registry import check_options as check_options
from tasks.registry import load as load
from tasks.registry import names as names
from tasks.registry import option_defaults as option_defaults
from tasks.registry import option_meanings as option_meanings
from tasks.registry import option_names as option_names
from tasks.registry import option_types as option_types
from tasks.registry import parse_options as parse_options
from tasks.task import Objective as Objective
from tasks.task import Split as Split
from tasks.task import Task as Task
from tff_fair import moved as _moved


def __getattr__(name: str) -> types.ModuleType:
  return _moved.load(f"tasks.{name}")
