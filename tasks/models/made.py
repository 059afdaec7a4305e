"""A user's Keras model, made anew each time with the same weights.

A seed decides them. Those that no initializer makes, as trained ones, are taken
from one building outside of graphs, and given to all.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tasks import task
from tasks.models import one_output, seeds, shapes, starting
from tasks.own import functions
from tasks.own.functions import UserCodeError


class Make:
  """Makes a user's model, of weights that a seed decides.

  No dataclass, so that later programs compile it anew: this project does not
  know what else decides a user's function.
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

  def of_seed(self, seed: int) -> Make:
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
