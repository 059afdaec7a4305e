"""Data and models to train on: federated learning tasks by name."""

import importlib
import typing

from tasks.data_error import DataError as DataError

if typing.TYPE_CHECKING:
  from tasks.registry import load as load
  from tasks.registry import names as names
  from tasks.registry import option_defaults as option_defaults
  from tasks.registry import option_names as option_names
  from tasks.registry import parse_options as parse_options
  from tasks.task import Split as Split
  from tasks.task import Task as Task
else:
  _TASK_NAMES = ("Split", "Task")
  _REGISTRY_NAMES = (
    *("load", "names", "option_defaults", "option_names", "parse_options"),
  )

  def __getattr__(name: str) -> object:
    """Imports TensorFlow, which takes seconds, only for what is built on it."""
    if name in _TASK_NAMES:
      return getattr(importlib.import_module("tasks.task"), name)
    if name in _REGISTRY_NAMES:
      return getattr(importlib.import_module("tasks.registry"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
