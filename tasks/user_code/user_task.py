"""Users' functions as tasks: their keyword arguments are the tasks' options.

    def load(*, num_clients: int = 10, seed: int) -> tasks.Task: ...

A function may have the arguments `data_dir` (a `pathlib.Path` or None), `seed`,
and `model_seed` (the seed of the initial weights). Every other argument needs a
default, and an annotation that `tff_fair.declared` knows; "Args" in the
docstring explains the arguments.
"""

import dataclasses
import inspect
import pathlib
import re
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tasks import options
from tasks.data_error import DataError
from tasks.formats import example_checks
from tasks.task import Arrays, Split, Task
from tff_fair import declared, user_functions
from tff_fair.declared import FieldError

# Arguments of a user's function that are not options.
_CONTEXT_ARGUMENTS = ("data_dir", "seed", "model_seed")
_Read = TypeVar("_Read")
_KINDS = "int, float, bool, str, Literal of texts, or one of these or None"
_ARGUMENT = re.compile(
  r"^(\w+)(?: \([^)\n]*\))?: (.*(?:\n[ \t]+.*)*)", re.MULTILINE
)
_NO_MEANING = "The docstring of the function does not describe it."


class UserTask:
  """A task built by a user's function, whose name `tasks.registry` explains."""

  # The options, derived from the function's arguments.
  Options: type[options.TaskOptions]

  def __init__(self, name: str, function: Callable[..., object]) -> None:
    self._name = name
    self._path = user_functions.file_of(name)
    self._function = function
    try:
      parameters = inspect.signature(function).parameters
      hints = typing.get_type_hints(function)
    except (TypeError, ValueError, NameError, AttributeError) as error:
      raise FieldError(
        name, f"its arguments cannot be read: {error}."
      ) from error
    self._given = [given for given in _CONTEXT_ARGUMENTS if given in parameters]
    self._meanings = _argument_meanings(inspect.getdoc(function) or "")
    fields = [
      self._field(parameter, hints)
      for parameter in parameters.values()
      if parameter.name not in _CONTEXT_ARGUMENTS
    ]
    self._arguments = [name for name, *_ in fields]
    self.Options = dataclasses.make_dataclass(
      "Options", fields, bases=(options.TaskOptions,), frozen=True, kw_only=True
    )

  def load(
    self,
    config: options.TaskOptions,
    *,
    data_dir: pathlib.Path | None,
    seed: int,
    model_seed: int,
  ) -> Task:
    """Builds the task."""
    given = {"data_dir": data_dir, "seed": seed, "model_seed": model_seed}
    arguments = {n: getattr(config, n) for n in self._arguments}
    arguments |= {n: given[n] for n in self._given}
    task = self._call_function(arguments)
    _check_spec(self._name, task)
    task = dataclasses.replace(
      task,
      train=self._with_error_context(task.train, task),
      test=self._with_error_context(task.test, task),
    )
    for half in (task.train, task.test):
      half.load(0)
    # Imported late: it imports TensorFlow, which the function has done by now.
    from tasks.models import user_model  # noqa: PLC0415
    from tasks.models.initial_weights import SeededModelBuilder  # noqa: PLC0415

    if isinstance(task.keras_model_fn, SeededModelBuilder):
      # `tasks.from_client_data` built this model, with the seed of the data.
      if model_seed == seed:
        return task
      return dataclasses.replace(
        task, keras_model_fn=task.keras_model_fn.with_seed(model_seed)
      )
    return dataclasses.replace(
      task,
      keras_model_fn=user_model.deterministic_build_fn(
        self._name,
        task.keras_model_fn,
        task.element_spec,
        task.num_classes,
        seed=model_seed,
      ),
    )

  def _call_function(self, arguments: Mapping[str, object]) -> Task:
    """Returns the function's task; errors name the function."""
    try:
      task = self._function(**arguments)
    except DataError as error:
      raise DataError(self._name, str(error), setting="task") from error
    except FieldError as error:
      raise FieldError(self._name, str(error)) from error
    except Exception as error:
      raise user_functions.user_code_error(
        self._name, self._path, error
      ) from error
    if not isinstance(task, Task):
      raise FieldError(
        self._name,
        f"expected a tasks.Task, found {type(task).__name__} "
        f"({' '.join(repr(task).split())[:60]}).",
      )
    return task

  def _with_error_context(self, half: Split, task: Task) -> Split:
    """Returns a split whose errors name the function and the client."""

    def load_checked(client_id: int) -> Arrays:
      arrays = half.load(client_id)
      _check_arrays(task, int(half.num_examples[client_id]), arrays)
      return arrays

    def reading(load: Callable[[int], _Read]) -> Callable[[int], _Read]:
      def read(client_id: int) -> _Read:
        try:
          return load(client_id)
        except Exception as error:
          problem = (
            str(error)
            if isinstance(error, DataError)
            else user_functions.user_code_error(
              self._name, self._path, error
            ).problem
          )
          raise DataError(
            f"{self._name}, client {task.client_names[client_id]!r}",
            problem,
            setting="task",
          ) from error

      return read

    return dataclasses.replace(
      half, load=reading(load_checked), raw=half.raw and reading(half.raw)
    )

  def _field(
    self, parameter: inspect.Parameter, hints: Mapping[str, object]
  ) -> tuple[str, Any, Any]:
    """Returns the field for an option, as `make_dataclass` takes it."""
    name = parameter.name
    problem = next(_problems(parameter, hints.get(name)), None)
    if problem is not None:
      raise FieldError(self._name, f"its argument {name} {problem}")
    meaning = self._meanings.get(name, _NO_MEANING)
    return name, hints[name], declared.value(parameter.default, meaning)


def _check_spec(name: str, task: Task) -> None:
  """Checks that labels are class numbers, or numbers to predict."""
  dtype = task.element_spec[1].dtype
  if not (dtype.is_integer or dtype.is_floating):
    raise FieldError(
      name,
      f"its labels are {dtype.name}; expected int32 class numbers, or float32 "
      "numbers to predict.",
    )


def _check_arrays(task: Task, number: int, arrays: Arrays) -> None:
  """Checks that a client's arrays match the task."""
  for title, values, spec in zip("xy", arrays, task.element_spec, strict=True):
    expected = (number, *spec.shape[1:])
    if values.dtype != spec.dtype.as_numpy_dtype or not (
      spec.shape.is_compatible_with(values.shape) and len(values) == number
    ):
      raise DataError(
        f"{title} is {values.dtype}{list(values.shape)}",
        f"by element_spec and num_examples it is {spec.dtype.name}"
        f"{list(expected)}.",
      )
  y = arrays[1]
  if task.has_class_labels and task.num_classes:
    example_checks.check_labels(y, task.num_classes, "y")


def _problems(
  parameter: inspect.Parameter, annotation: object
) -> Iterator[str]:
  """Yields the reasons why an argument cannot be an option."""
  if parameter.kind not in (
    parameter.KEYWORD_ONLY,
    parameter.POSITIONAL_OR_KEYWORD,
  ):
    yield "cannot be given by name; options are arguments with names."
  if hasattr(options.TaskOptions, parameter.name):
    yield "has a reserved name; choose another."
  if parameter.annotation is parameter.empty:
    yield f"has no annotation; expected {_KINDS}."
  if not declared.is_known(annotation):
    yield f"is annotated with {annotation}; expected {_KINDS}."
  if parameter.default is parameter.empty:
    yield "has no default; an option needs one."
  try:
    declared.check(parameter.name, annotation, parameter.default)
  except declared.FieldError as error:
    yield f"does not take its default {parameter.default!r}: {error.problem}"


def _argument_meanings(docstring: str) -> dict[str, str]:
  """Returns the descriptions of a Google-style docstring's "Args", by name."""
  section = re.search(r"^Args:\n((?:[ \t]+.*\n|\n)*)", f"{docstring}\n", re.M)
  found = _ARGUMENT.findall(textwrap.dedent(section[1]) if section else "")
  return {name: " ".join(text.split()) for name, text in found}
