"""A user's Keras models: the same weights each time, and checked beforehand.

TFF builds a model several times, in graphs that run in another process, and a
client gets a new one in each round. So a model must come out with the same
weights wherever it is built, and keep nothing from one batch to the next.
Weights that no initializer makes, as trained ones, are taken from one building
outside of graphs, and given to all.
"""

import contextlib
import functools
import inspect
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tasks import task
from tasks.models import one_output, own_checks, seeds, shapes, starting
from tasks.own import functions
from tasks.own.functions import UserCodeError


class Make:
  """Makes a user's model, of weights that a seed decides.

  No dataclass, so that what is compiled is not kept for later programs: nobody
  knows what else decides a user's function.
  """

  def __init__(
    self,
    name: str,
    function: Callable[..., Any],
    arguments: Mapping[str, object],
    wanted: shapes.Shapes,
    seed: int,
  ) -> None:
    """Takes a function and what it is given.

    Args:
      name: The function, as the user named it, for errors.
      function: Returns a new Keras model.
      arguments: Its arguments by name.
      wanted: The shapes of the task.
      seed: Seed of all that the function gives no seed of its own.
    """
    self.name = name
    self.wanted = wanted
    self._function = function
    self._arguments = arguments
    self._seed = seed
    self._starting: starting.Starting | None = None

  def of_seed(self, seed: int) -> "Make":
    """Returns what makes the same model, of the weights of another seed."""
    arguments = dict(self._arguments)
    if "seed" in arguments:
      arguments["seed"] = seed
    made = Make(self.name, self._function, arguments, self.wanted, seed)
    if self._starting is not None:
      made.keep(made.anew())
    return made

  def __call__(self) -> tf.keras.Model:
    """Returns a new model with its weights."""
    return self.anew() if self._starting is None else self._starting()

  @property
  def digest(self) -> str | None:
    """The digest of the weights, where no initializer makes them."""
    return None if self._starting is None else self._starting.digest

  def keep(self, model: tf.keras.Model) -> None:
    """Gives all models from now on the weights that one has now.

    Args:
      model: As the function has made it.

    Raises:
      UserCodeError: If the model cannot be built in graphs.
    """
    build: task.KerasModelFn = functools.partial(starting.clone, model)
    try:
      with tf.Graph().as_default():
        build()
    # A layer may be of the user's, and tell its settings wrong.
    except Exception:
      build = self.anew
    self._starting = starting.Starting.of(
      build, [weight.numpy() for weight in model.weights]
    )

  def anew(self, *, other_draws: bool = False) -> tf.keras.Model:
    """Returns a new model as the function makes it, with its weights.

    Args:
      other_draws: Whether what has no seed of its own draws others than usual.
    """
    seed = self._seed + other_draws
    model = self.unbuilt(seed)
    if not model.built:
      with seeds.seeded(seed):
        model(tf.keras.Input(self.wanted.x, dtype=self.wanted.x_dtype))
    return model

  def unbuilt(self, seed: int | None = None) -> Any:
    """Returns what the function returns.

    Args:
      seed: Seed of what has none; by default the usual one.

    Raises:
      UserCodeError: If it fails.
    """
    seed = self._seed if seed is None else seed
    with seeds.seeded(seed):
      try:
        made = self._function(**self._arguments)
      except Exception as error:
        if "is in an invalid state" in str(error):  # Keras' words.
          raise UserCodeError(
            self.name,
            "calls a model or a layer from before, which Keras cannot call any "
            "more once others were built in a graph; build or load all of the "
            "model within the function.",
          ) from error
        file = None
        with contextlib.suppress(TypeError):
          file = inspect.getsourcefile(inspect.unwrap(self._function))
        path = None if file is None else pathlib.Path(file)
        raise functions.blamed(self.name, path, error) from error
    if self.wanted.are_two_classes and isinstance(made, tf.keras.Model):
      return one_output.with_two_logits(made, self.wanted, seed)
    return made


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
