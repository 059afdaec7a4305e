"""A user's Keras models: the same weights each time, and checked beforehand.

TFF builds a model several times, in graphs that run in another process, and a
client gets a new one in each round. So a model must come out with the same
weights wherever it is built, and keep nothing from one batch to the next.
Weights that no initializer makes, as trained ones, are taken from one building
outside of graphs, and given to all.
"""

import inspect
from collections.abc import Callable
from typing import Any

from tasks import task
from tasks.models import own_checks, shapes
from tasks.models.made import Make
from tasks.own.functions import UserCodeError


def fitting(
  name: str,
  function: Callable[..., Any],
  element_spec: task.ElementSpec,
  num_classes: int | None,
  *,
  seed: int,
) -> task.KerasModelFn:
  """Returns what makes the model of a task by a function of a user.

  Args:
    name: The function, as the user named it.
    function: Takes nothing, or any of `input_shape`, `num_classes` and `seed`
      by name; returns a new Keras model.
    element_spec: Specs of the task's `(x, y)`.
    num_classes: Number of classes; None where the model predicts a number.
    seed: Seed of the initial weights.

  Raises:
    UserCodeError: If the function takes something else; otherwise as
      `reliable`.
  """
  wanted = shapes.of_task(element_spec, num_classes)
  given = {"input_shape": wanted.x, "num_classes": num_classes, "seed": seed}
  try:
    parameters = inspect.signature(function).parameters
  except (TypeError, ValueError) as error:
    raise UserCodeError(
      name, f"its arguments cannot be read: {error}."
    ) from error
  for parameter in parameters.values():
    if parameter.name not in given and parameter.default is parameter.empty:
      raise UserCodeError(
        name,
        f"has the argument {parameter.name}; a model's function takes nothing, "
        f"or any of {', '.join(given)}.",
      )
  chosen = {n: value for n, value in given.items() if n in parameters}
  made = Make(name, function, chosen, wanted, seed)
  own_checks.check(made, is_classifier=num_classes is not None)
  return made


def reliable(
  name: str,
  build: Callable[[], Any],
  element_spec: task.ElementSpec,
  num_classes: int | None,
  *,
  seed: int,
) -> task.KerasModelFn:
  """Returns what makes a user's model with the same weights each time.

  Args:
    name: The user's function, for errors.
    build: Returns a new Keras model.
    element_spec: Specs of the task's `(x, y)`.
    num_classes: As for `fitting`.
    seed: Seed of what has none of its own.

  Raises:
    UserCodeError: If the model does not fit the task, or clients cannot train
      it: its outputs or its weights change from one call to the next.
  """
  wanted = shapes.of_task(element_spec, num_classes)
  made = Make(name, build, {}, wanted, seed)
  own_checks.check(made, is_classifier=num_classes is not None)
  return made
