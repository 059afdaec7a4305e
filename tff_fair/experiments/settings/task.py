"""The settings of the task and of the method."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal

from tasks.models import names as model_names
from tff_fair import declared
from tff_fair.declared import Value

# The hyperparameter of methods that have a server step of their own.
SERVER_RATE = "learning_rate"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSettings:
  """Task: data and model."""

  task: str = declared.value(
    "digits",
    "Name of the task; --list shows all. Or a function of yours that returns a "
    "task, as path/to/file.py:function or PACKAGE.MODULE:function.",
  )
  data_dir: str | None = declared.value(
    None,
    "Directory of the task's data files. By default the task's loader keeps "
    "them where it always does; `digits` needs none.",
  )
  model: str | None = declared.value(
    None,
    "Another model for the task: one of "
    f"{', '.join(model_names.ALL)}; or a function of yours that returns a "
    "Keras model, named as a task's function. By default the task's own.",
  )
  task_options: Mapping[str, Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlgorithmSettings:
  """Algorithm: the method, and how it sees and sums the clients."""

  algorithm: str = declared.value(
    "adafed", "Name of the method; --list shows all."
  )
  hparams: Mapping[str, Value] = dataclasses.field(default_factory=dict)
  client_weighting: Literal["num_examples", "uniform", "column"] = (
    declared.value(
      "num_examples",
      "The weight of a client: its training examples; the same for all; or the "
      "number that the data has for it, in the column that the task's option "
      "client_weight names.",
    )
  )
  loss_at: Literal["before", "training", "after"] = declared.value(
    "before",
    "Where a client takes its loss: before local training, in a pass of its "
    "own; during it, at no cost; or after it.",
  )
  aggregation: Literal["streaming", "two_phase", "stacked", "secure"] | None = (
    declared.value(
      None,
      "How the server sums client updates; by default the cheapest way that "
      "the method allows. --list shows all.",
    )
  )
  personal_lam: float | None = declared.value(
    None,
    "Ditto's personal models beside the global one of any method: each client "
    "trains one of its own, too, which this factor pulls towards the global "
    "one. Results are those of personal models then, and of the global one "
    "beside them. By default no personal models.",
    expects="0 or a positive number (in float32)",
    is_valid=lambda value: 0 <= declared.as_float32(value) < math.inf,
  )
