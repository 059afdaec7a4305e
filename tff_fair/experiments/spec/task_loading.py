"""The task of a run, with the run's model.

Problems that show only with the data raise errors that name the setting.
"""

import tasks
from tff_fair.declared import FieldError
from tff_fair.experiments import startup
from tff_fair.experiments.spec.run_spec import RunSpec

# The task that `preload` has loaded, for the next call of `load`.
_preloaded: dict[RunSpec, tasks.Task] = {}


def preload(spec: RunSpec) -> None:
  """Loads the task of a run in advance and keeps it for that run.

  A task reads its data before it imports TensorFlow. So a program that calls
  this first reports unusable data within a second.
  """
  _preloaded.clear()
  with startup.fast_import():
    _preloaded[spec] = load(spec)


def load(spec: RunSpec) -> tasks.Task:
  """Loads the task of a run, with the run's model."""
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
