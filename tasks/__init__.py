"""Data and models to train on: federated learning tasks by name.

A task is a file here. Beneath it, data sets that come by client are read in
`federated`, those in one place are cut over clients in `central` by means of
`cuts`, and `tabular` reads tables. `formats` reads files, `downloads` fetches
them, `conversions` writes other data in TFF's format, `models` are Keras
models, `user_code` has users' functions, and `registry` finds all by name. Only
`models` imports TensorFlow at once; all others import it in the function that
needs it, and options are known without it.
"""

from tasks.client_source import ClientSource
from tasks.data_error import DataError
from tasks.digests import data_digests
from tasks.from_client_data import from_client_data
from tasks.registry import (
  UnknownTaskError,
  check_model,
  check_name,
  check_options,
  file_digest,
  is_task,
  load,
  model_digest,
  names,
  option_defaults,
  option_meanings,
  option_names,
  option_types,
  parse_options,
  short_name,
  with_model,
)
from tasks.task import Objective, Split, Task
from tasks.validation import with_validation
from tff_fair.user_functions import (
  UserCodeError,
  may_run_code,
  reading_records,
)

__all__ = [
  "ClientSource",
  "DataError",
  "Objective",
  "Split",
  "Task",
  "UnknownTaskError",
  "UserCodeError",
  "check_model",
  "check_name",
  "check_options",
  "data_digests",
  "file_digest",
  "from_client_data",
  "is_task",
  "load",
  "may_run_code",
  "model_digest",
  "names",
  "option_defaults",
  "option_meanings",
  "option_names",
  "option_types",
  "parse_options",
  "reading_records",
  "short_name",
  "with_model",
  "with_validation",
]


def __dir__() -> list[str]:
  return __all__
