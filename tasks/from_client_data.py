"""A task of any `tff.simulation.datasets.ClientData`, and a model.

train, test = tff.simulation.datasets.emnist.load_data()
task = tasks.from_client_data(train, test, build_model)
"""

import functools
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tasks import models
from tasks.data_error import DataError
from tasks.federated import native_clients
from tasks.formats import class_labels
from tasks.task import (
  Arrays,
  Objective,
  Task,
  count_examples,
  element_spec,
)

if typing.TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff

_LABELS = ("y", "label", "labels", "target", "targets")
_BATCH = 1024  # Examples that counting holds at a time.


class _Counted(typing.NamedTuple):
  """What one reading of a client tells.

  Attributes:
    number: Its number of examples.
    labels: Its smallest and its largest class number; nothing of labels that
      are numbers.
  """

  number: int
  labels: tuple[int, ...] = ()


def from_client_data(
  train: "tff.simulation.datasets.ClientData",
  test: "tff.simulation.datasets.ClientData",
  model: "Callable[..., tf.keras.Model]",
  *,
  objective: Objective | None = None,
  num_classes: int | None = None,
  name: str = "client_data",
  seed: int = 0,
) -> Task:
  """Returns a task of two `ClientData`.

  Counting reads each client once; a client is read again when it takes part.

  Args:
    train: Training data by client. An element is one example: `(x, y)`, or a
      mapping of two tensors, of which one is called y, label or target. x has
      the same shape in all examples. y is a class number, or, as a float, a
      number to predict; y of shape [1] is taken as one of shape [].
    test: Test data by client, with elements of the same kind. Clients without
      examples in one of the two are left out, and the description counts them.
    model: Returns a new Keras model, uncompiled: with logits for class numbers,
      with one output for a number. It takes nothing, or any of `input_shape`,
      `num_classes` and `seed` by name.
    objective: The loss and the metric; by default cross entropy and accuracy
      for integers, the squared error for floats.
    num_classes: Number of classes; by default the largest label plus one.
    name: The name of the task.
    seed: Seed of the initial weights.

  Raises:
    DataError: If no client has examples in both, the examples are not as
      above, or a label is none of the classes.
    ValueError: If the model does not fit the examples.
  """
  # Imported late: it imports TensorFlow.
  from tasks.models import own  # noqa: PLC0415

  reading = _Reading(train, name)
  halves = [reading.of(half) for half in (train, test)]
  known = set(test.client_ids)
  everyone = set(train.client_ids) | known
  counted = {
    k: [_count(half, k, is_classifier=reading.is_classifier) for half in halves]
    for k in train.client_ids
    if k in known
  }
  names = [k for k, found in counted.items() if all(h.number for h in found)]
  if not names:
    raise DataError(
      f"{name}: none of the {len(everyone)} clients has examples both to train "
      "and to be tested on."
    )
  if not reading.is_classifier:
    num_classes = None
  else:
    num_classes = _num_classes(counted, names, num_classes, name)
  train_half, test_half = (
    native_clients.split(
      half,
      names,
      {k: counted[k][place].number for k in names},
      functools.partial(_to_arrays, num_classes=num_classes),
      source=f"{name}, {title}",
    )
    for place, (half, title) in enumerate(
      zip(halves, ("train", "test"), strict=True)
    )
  )
  left_out = len(everyone) - len(names)
  of_others = f" ({left_out:,} without train or test examples left out)"
  description = (
    f"{len(names):,} clients{of_others if left_out else ''}, "
    f"{count_examples(train_half, test_half)}"
  )
  return Task(
    name=name,
    description=description,
    client_names=names,
    train=train_half,
    test=test_half,
    element_spec=reading.spec,
    num_classes=num_classes,
    keras_model_fn=own.fitting(
      f"{name}: model", model, reading.spec, num_classes, seed=seed
    ),
    objective=objective or _objective(reading.is_classifier),
  )


def _num_classes(
  counted: Mapping[str, Sequence[_Counted]],
  names: Sequence[str],
  given: int | None,
  name: str,
) -> int:
  """Returns the number of classes: by default the largest label plus one.

  Args:
    counted: What is known of train and test of each client.
    names: The clients that take part.
    given: The number, if it is given.
    name: The task, for errors.

  Raises:
    DataError: If a label is none of the classes, or there is one class.
  """
  number = given or 1 + max(
    max(half.labels) for k in names for half in counted[k]
  )
  for k in names:
    for title, half in zip(("train", "test"), counted[k], strict=True):
      for label in half.labels:
        if not 0 <= label < number:
          raise DataError(
            f"{name}, {title}, client {k}: y has the label {label}, expected 0 "
            f"to {number - 1}. Number the classes from 0"
            + (f", or give num_classes={label + 1}." if label > 0 else ".")
          )
  if number < 2:
    raise DataError(
      f"{name}: all labels are 0; name the number of classes (num_classes), "
      "if there are others."
    )
  return number


def _objective(is_classifier: bool) -> Objective:
  return (
    models.class_objective() if is_classifier else models.number_objective()
  )


class _Reading:
  """How the elements of a `ClientData` become x and y."""

  def __init__(
    self, client_data: "tff.simulation.datasets.ClientData", name: str
  ) -> None:
    """Takes the data whose elements are as all others should be.

    Raises:
      DataError: If they are no examples of x and y.
    """
    self._name = name
    self._elements = client_data.element_type_structure
    self._keys = _keys(self._elements, name)
    x, y = (self._elements[key] for key in self._keys)
    for title, found in (("x", x), ("y", y)):
      if not hasattr(found, "dtype") or not found.shape.is_fully_defined():
        raise DataError(
          f"{name}: {title} is {found}; expected one tensor of a shape that is "
          "the same in all examples, one example an element."
        )
    self.is_classifier = y.dtype.is_integer
    # A column of labels is meant as one label an example.
    y_shape = [] if y.shape == [1] else y.shape.as_list()
    if not self.is_classifier and (not y.dtype.is_floating or y_shape):
      raise DataError(
        f"{name}: y is {y}; expected a class number, or one float to predict."
      )
    self.spec = element_spec(
      x.shape.as_list(),
      "float32" if x.dtype.is_floating else x.dtype.name,
      y_shape=y_shape,
      y_dtype="int32" if self.is_classifier else "float32",
    )

  def of(
    self, client_data: "tff.simulation.datasets.ClientData"
  ) -> "tff.simulation.datasets.ClientData":
    """Returns data whose elements are mappings of x and y in the task's types.

    Raises:
      DataError: If the data has other elements.
    """
    import tensorflow as tf  # noqa: PLC0415

    if client_data.element_type_structure != self._elements:
      raise DataError(
        f"{self._name}: elements of test are "
        f"{client_data.element_type_structure}, of train {self._elements}."
      )
    x_key, y_key = self._keys
    x_spec, y_spec = self.spec

    def convert(*parts: Any) -> "dict[str, tf.Tensor]":
      # A dataset gives the parts of a tuple one by one.
      element = parts if len(parts) > 1 else parts[0]
      return {
        "x": tf.cast(element[x_key], x_spec.dtype),
        "y": tf.reshape(
          tf.cast(element[y_key], y_spec.dtype), y_spec.shape[1:]
        ),
      }

    return client_data.preprocess(lambda dataset: dataset.map(convert))


def _keys(elements: Any, name: str) -> tuple[Any, Any]:
  """Returns where elements have x and y."""
  if isinstance(elements, Mapping):
    labels = [key for key in elements if key in _LABELS]
    if "x" in elements and "y" in elements:
      return "x", "y"
    if len(elements) == 2 and len(labels) == 1:
      (x,) = set(elements) - set(labels)
      return x, labels[0]
  elif isinstance(elements, Sequence) and len(elements) == 2:
    return 0, 1
  raise DataError(
    f"{name}: elements are {elements}; expected (x, y), or a mapping of two "
    f"tensors, one of them called {', '.join(_LABELS)}."
  )


def _count(
  client_data: "tff.simulation.datasets.ClientData",
  client: str,
  *,
  is_classifier: bool,
) -> _Counted:
  """Reads a client once; of labels that are numbers, takes the number alone."""
  number, labels = 0, set[int]()
  examples = client_data.create_tf_dataset_for_client(client)
  for batch in examples.batch(_BATCH).as_numpy_iterator():
    number += len(batch["y"])
    if is_classifier:
      labels |= {int(batch["y"].min()), int(batch["y"].max())}
  return _Counted(number, (min(labels), max(labels)) if labels else ())


def _to_arrays(
  examples: Mapping[str, np.ndarray], *, num_classes: int | None
) -> Arrays:
  x, y = examples["x"], examples["y"]
  if num_classes is not None:
    class_labels.class_labels(y.ravel(), num_classes)
  for title, values in (("x", x), ("y", y)):
    if values.dtype.kind == "f" and not np.isfinite(values).all():
      raise ValueError(f"{title} has values that are not finite")
  return x, y
