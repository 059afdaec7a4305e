"""Federated learning tasks by name: data and models to train.

Each task is a module of this package. `tff_native` reads TFF's data sets, whose
examples are grouped by client; `central` and `cuts` divide other data sets
among clients; and `tabular` reads tables. `formats` reads files, `downloads`
fetches them, `conversions` writes data in TFF's format, `models` has Keras
models, `user_code` runs users' functions, and `registry` finds tasks and models
by name. Except for `models` and `tabular.layers`, modules import TensorFlow
only in functions, so that reading a task's options does not load it.
"""

from tasks.client_source import ClientSource as ClientSource
from tasks.data_error import DataError as DataError
from tasks.digests import data_digests as data_digests
from tasks.from_client_data import from_client_data as from_client_data
from tasks.registry import (
  check_model as check_model,
  check_name as check_name,
  check_options as check_options,
  file_digest as file_digest,
  is_task as is_task,
  load as load,
  model_digest as model_digest,
  names as names,
  option_defaults as option_defaults,
  option_fields as option_fields,
  option_names as option_names,
  parse_options as parse_options,
  short_name as short_name,
  with_model as with_model,
)
from tasks.task import Objective as Objective, Split as Split, Task as Task
from tasks.validation import with_validation as with_validation
from tff_fair import lazy
from tff_fair.user_functions import (
  may_run_code as may_run_code,
  reading_records as reading_records,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
