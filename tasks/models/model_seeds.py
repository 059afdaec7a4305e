"""Tasks that differ in the seed of their model alone."""

import dataclasses
import functools
import inspect
import sys

from tasks.task import KerasModelFn, Task

_ROOM = "tasks.models."
# Models whose seed decides more than their initial weights.
_DRAWING = ("dropout_cnn",)


def with_seed_0(task: Task) -> Task:
  """Returns a task with other initial weights: those that seed 0 gives.

  Tasks that differ in the seed of their model alone then have equal models, and
  share what is compiled of them.
  """
  # It imports TensorFlow, and programs describe a task before they do.
  from tasks.models import initial_weights  # noqa: PLC0415

  build = task.keras_model_fn
  if isinstance(build, initial_weights.Starting):
    build = build.build
  if not isinstance(build, functools.partial) or not _is_ours(build.func):
    return task
  bound = inspect.signature(build.func).bind_partial(
    *build.args, **build.keywords
  )
  if "seed" not in bound.arguments:
    return task
  bound.arguments["seed"] = 0
  model_of_seed_0: KerasModelFn = functools.partial(
    build.func, *bound.args, **bound.kwargs
  )
  return dataclasses.replace(task, keras_model_fn=model_of_seed_0)


def _is_ours(function: object) -> bool:
  """Returns whether a function makes a model of ours of a seed."""
  module, name = (
    getattr(function, attribute, "")
    for attribute in ("__module__", "__qualname__")
  )
  return (
    module.startswith(_ROOM)
    and name not in _DRAWING
    and getattr(sys.modules[module], name, None) is function
  )
