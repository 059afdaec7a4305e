"""Another model for a task: one of ours by name, or a user's own."""

import dataclasses

from tasks.models import names
from tasks.own import functions
from tasks.own.functions import UserCodeError
from tasks.task import Task


def check_model(name: str) -> None:
  """Checks the name of a model, as far as it can be known without TensorFlow.

  Args:
    name: One of `tasks.models.names.ALL`, or a user's function as
      path/to/file.py:function or PACKAGE.MODULE:function.

  Raises:
    UserCodeError: If there is no such model, or no such function.
  """
  if functions.is_name(name):
    functions.check(name)
  elif name not in names.ALL:
    raise UserCodeError(
      name,
      f"unknown model; valid models: {', '.join(names.ALL)}, or a function of "
      "yours, as path/to/file.py:function.",
    )


def model_digest(name: str) -> str | None:
  """Returns a digest of the user's files that make a model; None of ours.

  Raises:
    UserCodeError: If there is no such file.
  """
  return functions.digest(name) if functions.is_name(name) else None


def with_model(task: Task, name: str, *, seed: int) -> Task:
  """Returns a task with another model; data, loss and metric stay.

  Args:
    task: The task.
    name: As for `check_model`. A user's function returns a new Keras model,
      uncompiled, with logits or one number as its outputs. It takes nothing, or
      any of `input_shape`, `num_classes` (None where the label is a number) and
      `seed` by name. Without a seed of its own it has the same initial weights
      each time, too.
    seed: Seed of the initial weights.

  Raises:
    UserCodeError: If there is no such model, the model does not fit the task's
      shapes, or clients cannot train it.
  """
  check_model(name)
  # Imported late: they import TensorFlow.
  from tasks.models import named, own, shapes  # noqa: PLC0415

  data = task.element_spec, task.num_classes
  if functions.is_name(name):
    build = own.fitting(name, functions.load(name), *data, seed=seed)
  else:
    wanted = shapes.of_task(*data)
    try:
      build = named.build_fn(name, wanted, seed)
    except ValueError as error:
      raise UserCodeError(name, str(error)) from error
  return dataclasses.replace(task, keras_model_fn=build)
