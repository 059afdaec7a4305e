"""Loads the task of a run, with the run's model.

If the data shows that a setting is not valid, the error names the setting.
"""

import tasks
from tff_fair.declared import FieldError
from tff_fair.experiments import startup
from tff_fair.experiments.spec.run_spec import RunSpec

# The task that `preload` has loaded, by spec, until a call of `load` takes it.
_preloaded: dict[RunSpec, tasks.Task] = {}


def preload(spec: RunSpec) -> None:
  """Loads the task of a run in advance, for the next `load` of the same spec.

  A task reads its data before it imports TensorFlow. So a program that begins
  with this call reports unusable data within a second.
  """
  _preloaded.clear()
  with startup.fast_import():
    _preloaded[spec] = load(spec)


def load(spec: RunSpec) -> tasks.Task:
  """Loads the task of a run with its validation data and the run's model."""
  task = _preloaded.pop(spec, None)
  if task is not None:
    return task
  try:
    task = tasks.load(
      spec.task,
      data_dir=spec.data_dir,
      seed=spec.seeds.data,
      model_seed=spec.seeds.model,
      **spec.task_options,
    )
  except (tasks.DataError, FieldError):
    raise
  except ValueError as error:
    raise FieldError("task_options", str(error)) from error
  task = tasks.with_validation(task, spec.validation_share, spec.seeds.data)
  if spec.model is None:
    return task
  return tasks.with_model(task, spec.model, seed=spec.seeds.model)
