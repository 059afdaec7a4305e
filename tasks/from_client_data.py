"""Builds a task from a program's own clients: `ClientData`, arrays, a table.

train, test = tff.simulation.datasets.emnist.load_data()
task = tasks.from_client_data(train, test, build_model)
"""

import functools
import numbers
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tasks import client_weights as of_clients, cuts, models
from tasks.data_error import DataError
from tasks.task import (
  Arrays,
  Objective,
  Split,
  Task,
  count_examples,
  element_spec,
)
from tasks.tff_native import native_clients
from tasks.user_code import user_arrays
from tasks.user_code.user_arrays import ClientCounts

if typing.TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff

  from tasks.models.objectives import LossFn

_HALVES = ("train", "test")
_BATCH = 1024  # Examples in memory at a time while counting.


def from_client_data(
  train: Any,
  test: Any,
  model: "Callable[..., tf.keras.Model]",
  *,
  client: str | None = None,
  label: str | None = None,
  features: Sequence[str] | None = None,
  client_weights: Mapping[str, float] | str | None = None,
  group: str | None = None,
  objective: Objective | None = None,
  class_weights: Sequence[float] | None = None,
  loss: "LossFn | None" = None,
  num_classes: int | None = None,
  name: str = "client_data",
  seed: int = 0,
) -> Task:
  """Returns a task with a program's own clients and model.

  Args:
    train: Training data by client, one of:

      - a `tff.simulation.datasets.ClientData`. An element is one example:
        `(x, y)`, or a mapping of two tensors, of which one is called y, label,
        labels, target or targets. Counting reads each client once; a client is
        read again when its data is needed.
      - a mapping of clients to arrays `(x, y)`, or to mappings of two arrays.
      - a pandas DataFrame or its `groupby`, or a Hugging Face dataset, which
        are held in memory.

      x has the same shape in all examples. y is a class number, or one or t
      floats to predict; in memory, strings and truth values are classes, too. y
      of shape [1] is treated as shape [].
    test: Test data by client, of the same type; or a float, the share of each
      client's examples to test on, chosen at random. Clients without training
      or test examples are left out; the description counts them.
    model: Returns a new, uncompiled Keras model, with logits for class numbers
      or an output for each number. It may take `input_shape`, `num_classes` and
      `seed` by name, or no arguments.
    client: For a table: the column with each example's client. A `groupby` does
      not need it.
    label: For a table: the column to predict; by default the first one called
      y, label, labels, target or targets.
    features: For a table: the columns to predict from; by default all others.
    client_weights: Each client's weight, above 0, in a run with
      `client_weighting="column"`: a mapping of clients to numbers, or for a
      table the column with the number, the same in all rows of a client. This
      column is not a feature, unless listed in `features`.
    group: For a table: the column with the group of people that an example
      belongs to, such as a sex: a run then shows how differently the model
      treats groups. This column is not a feature, unless listed in
      `features`.
    objective: The loss and the metric; by default cross entropy and accuracy
      for integers, and the squared error for floats. For your own, pass
      `tasks.Objective(model_fn=...)` with a function that turns Keras models
      into TFF models.
    class_weights: For each class, the weight of its examples in the cross
      entropy, in the order of the classes; by default 1.
    loss: Your own function instead of the cross entropy or the squared error.
      It maps class numbers, int32[n], and logits, float32[n, num_classes], to
      the loss of each example, float32[n]; for numbers, it maps the labels and
      the predictions, both float32[n], or float32[n, t] for several numbers.
      You may also pass a `tf.keras.losses.Loss`.
    num_classes: Number of classes; by default the largest label plus one.
    name: The name of the task.
    seed: Seed of the initial weights, and of the choice of test examples.

  Raises:
    DataError: If no client has training and test examples, the examples are
      not as above, or a label is not one of the classes.
    ValueError: If the model does not fit the examples.
  """
  # Imported late: it imports TensorFlow.
  from tasks.models import user_model  # noqa: PLC0415

  fraction = float(test) if isinstance(test, numbers.Real) else None
  if fraction is not None and not 0 < fraction < 1:
    raise DataError(name, f"test must be between 0 and 1, found {test}.")
  if num_classes is not None and num_classes < 2:
    raise DataError(
      name, f"num_classes must be 2 or more, found {num_classes}."
    )
  if objective is not None and (class_weights is not None or loss is not None):
    raise DataError(
      name,
      "class_weights and loss have no effect on an objective that you give; "
      "leave either it or them out.",
    )
  column = client_weights if isinstance(client_weights, str) else None
  clients = _clients(
    [train] if fraction is not None else [train, test],
    user_arrays.Roles(
      client,
      label,
      [features] if isinstance(features, str) else features,
      column,
      group,
    ),
    name,
  )
  counted, num_left_out = _select_clients(clients, 1 if fraction is None else 2)
  num_classes = _num_classes(clients, counted, num_classes)
  train_half, test_half = _halves(clients, counted, fraction, seed)
  left_out = f" ({num_left_out:,} without train or test examples left out)"
  return Task(
    name=name,
    description=(
      f"{len(counted):,} clients{left_out if num_left_out else ''}, "
      f"{count_examples(train_half, test_half)}"
    ),
    client_names=[*counted],
    train=train_half,
    test=test_half,
    element_spec=clients.spec,
    num_classes=num_classes,
    class_names=clients.class_names,
    keras_model_fn=user_model.build_fn(
      f"{name}: model", model, clients.spec, num_classes, seed=seed
    ),
    objective=objective
    or _objective(num_classes, class_weights, loss, clients),
    client_weights=_weights(client_weights, clients, [*counted]),
    group_names=clients.group_names,
  )


def _clients(
  halves: Sequence[Any], roles: user_arrays.Roles, name: str
) -> "_Clients":
  """Returns the clients in data of any supported type."""
  are_client_data = [
    hasattr(half, "create_tf_dataset_for_client") for half in halves
  ]
  if not any(are_client_data):
    return user_arrays.ArrayClients(halves, roles, name)
  if not all(are_client_data):
    kinds = " and ".join(type(half).__name__ for half in halves)
    raise DataError(
      name,
      f"train and test are {kinds}; expected ClientData for both, or for test "
      "a number, the share of each client's examples.",
    )
  if roles.weight is not None:
    raise DataError(
      name,
      f"client_weights={roles.weight!r} names a column, and ClientData has "
      "none; give a mapping of clients to numbers.",
    )
  roles.check_unused(name, "ClientData")
  return _DatasetClients(halves, name)


def _select_clients(
  clients: "_Clients", least: int
) -> tuple[dict[str, list[ClientCounts]], int]:
  """Returns counts by client, and the number of clients that are left out.

  Clients with fewer than `least` examples in a half are left out.
  """
  halves = range(clients.num_halves)
  everyone = dict.fromkeys(k for half in halves for k in clients.names(half))
  shared = set.intersection(*(set(clients.names(half)) for half in halves))
  counted = {
    k: [clients.count(half, k) for half in halves]
    for k in everyone
    if k in shared
  }
  enough = {
    k: found
    for k, found in counted.items()
    if all(count.num_examples >= least for count in found)
  }
  if not enough:
    raise DataError(
      clients.name,
      f"none of the {len(everyone)} clients has both train and test examples.",
    )
  return enough, len(everyone) - len(enough)


def _halves(
  clients: "_Clients",
  counted: Mapping[str, Sequence[ClientCounts]],
  fraction: float | None,
  seed: int,
) -> Sequence[Split]:
  """Returns train and test data, split from `train` if `fraction` is given."""
  numbers = [[c.num_examples for c in counts] for counts in counted.values()]
  splits = [
    clients.split(half, [*counted], np.array(num_examples, np.int64))
    for half, num_examples in enumerate(zip(*numbers, strict=True))
  ]
  if fraction is None:
    return splits
  return cuts.local_split(splits[0], fraction, seed)


def _weights(
  given: Mapping[Any, float] | str | None,
  clients: "_Clients",
  names: Sequence[str],
) -> np.ndarray | None:
  """Returns the weights of the clients `names`; None without weights."""
  match given:
    case None:
      return None
    case str():
      weights = clients.weights
    case Mapping():
      weights = {str(client): weight for client, weight in given.items()}
    case _:
      raise DataError(
        clients.name,
        f"client_weights is {type(given).__name__}, expected a mapping of "
        "clients to numbers, or the name of a column.",
      )
  return of_clients.as_array(weights, names, f"{clients.name}, client_weights")


def _num_classes(
  clients: "_Clients",
  counted: Mapping[str, Sequence[ClientCounts]],
  given: int | None,
) -> int | None:
  """Returns the number of classes; None if labels are numbers."""
  if not clients.is_classifier:
    return None
  every_count = (count for counts in counted.values() for count in counts)
  largest = max(max(count.label_range) for count in every_count)
  number = given or len(clients.class_names or ()) or 1 + largest
  for k, counts in counted.items():
    for half, count in enumerate(counts):
      for label in count.label_range:
        if not 0 <= label < number:
          raise DataError(
            f"{clients.name}, {_HALVES[half]}, client {k}",
            f"y has the label {label}, expected 0 to {number - 1}. Number the "
            "classes from 0"
            + (f", or give num_classes={label + 1}." if label > 0 else "."),
          )
  if number < 2:
    raise DataError(
      clients.name,
      "all labels are 0; give the number of classes (num_classes) if there are "
      "more.",
    )
  return number


def _objective(
  num_classes: int | None,
  class_weights: Sequence[float] | None,
  loss: "LossFn | None",
  clients: "_Clients",
) -> Objective:
  import tensorflow as tf  # noqa: PLC0415

  from tasks.models import user_model  # noqa: PLC0415

  name = clients.name
  if loss is not None and class_weights is not None:
    raise DataError(
      name, "both loss and class_weights are given; leave one out."
    )
  if loss is not None and not callable(loss):
    raise DataError(name, f"loss is {loss!r}, expected a function.")
  if class_weights is not None:
    _check_class_weights(class_weights, num_classes, name)
  if loss is not None:
    if isinstance(loss, tf.keras.losses.Loss):
      loss = functools.partial(_unreduced_loss, loss)
    user_model.check_loss(f"{name}: loss", loss, clients.spec[1], num_classes)
  return models.objective(num_classes, class_weights, loss)


def _unreduced_loss(
  loss: "tf.keras.losses.Loss", y: "tf.Tensor", outputs: "tf.Tensor"
) -> "tf.Tensor":
  """Returns each example's loss, without the averaging of a Keras loss."""
  if y.shape.rank == outputs.shape.rank == 1:  # Keras expects [n, 1].
    y, outputs = y[:, None], outputs[:, None]
  return loss.call(y, outputs)


def _check_class_weights(
  given: Sequence[float], num_classes: int | None, name: str
) -> None:
  if isinstance(given, str | Mapping) or not all(
    isinstance(weight, numbers.Real) and 0 < weight < np.inf for weight in given
  ):
    raise DataError(
      name,
      f"class_weights is {given!r}, expected a list of numbers above 0, in the "
      "order of the classes.",
    )
  if len(given) != num_classes:
    kind = "numbers" if num_classes is None else f"{num_classes} classes"
    raise DataError(
      name,
      f"class_weights has {len(given)} numbers, but the labels are {kind}; "
      "give one for each class.",
    )


class _DatasetClients:
  """The clients of one or two `ClientData`, used like `ArrayClients`."""

  class_names: Sequence[str] | None = None
  group_names: Sequence[str] | None = None

  def __init__(
    self, halves: "Sequence[tff.simulation.datasets.ClientData]", name: str
  ) -> None:
    """Takes train and test data, whose elements must have the same type."""
    self.name = name
    self.weights: dict[str, float] = {}
    self.num_halves = len(halves)
    self._elements = halves[0].element_type_structure
    self._keys = user_arrays.keys(self._elements, name)
    x, y = (self._elements[key] for key in self._keys)
    for title, found in (("x", x), ("y", y)):
      if not hasattr(found, "dtype") or not found.shape.is_fully_defined():
        raise DataError(
          name,
          f"{title} is {found}; expected one tensor, of the same shape in all "
          "examples, with one example per element.",
        )
    self.is_classifier = y.dtype.is_integer
    # A label of shape [1] becomes one of shape [].
    y_shape = [] if y.shape == [1] else y.shape.as_list()
    if not self.is_classifier and (not y.dtype.is_floating or len(y_shape) > 1):
      raise DataError(
        name,
        f"y is {y}; expected a class number, or floats to predict, one or [t] "
        "of them.",
      )
    self.spec = element_spec(
      x.shape.as_list(),
      "float32" if x.dtype.is_floating else x.dtype.name,
      y_shape=y_shape,
      y_dtype="int32" if self.is_classifier else "float32",
    )
    self._halves = [self._converted(half) for half in halves]

  def names(self, half: int) -> Sequence[str]:
    """Returns the names of the clients in a half: 0 is train, 1 is test."""
    return self._halves[half].client_ids

  def count(self, half: int, client: str) -> ClientCounts:
    """Counts a client's examples and finds the range of classes in one pass."""
    number, labels = 0, set[int]()
    examples = self._halves[half].create_tf_dataset_for_client(client)
    for batch in examples.batch(_BATCH).as_numpy_iterator():
      number += len(batch["y"])
      if self.is_classifier:
        labels |= {int(batch["y"].min()), int(batch["y"].max())}
    return ClientCounts(number, (min(labels), max(labels)) if labels else ())

  def split(
    self, half: int, names: Sequence[str], num_examples: np.ndarray
  ) -> Split:
    """Returns the clients' data of a half: 0 is train, 1 is test."""
    return native_clients.split(
      native_clients.reader(self._halves[half]),
      names,
      num_examples,
      _finite_arrays,
      source=f"{self.name}, {_HALVES[half]}",
      keeps_latest=True,
    )

  def _converted(
    self, client_data: "tff.simulation.datasets.ClientData"
  ) -> "tff.simulation.datasets.ClientData":
    """Returns data whose elements are mappings of x and y that fit `spec`."""
    import tensorflow as tf  # noqa: PLC0415

    if client_data.element_type_structure != self._elements:
      raise DataError(
        self.name,
        f"elements of test are {client_data.element_type_structure}, of train "
        f"{self._elements}.",
      )
    x_key, y_key = self._keys
    x_spec, y_spec = self.spec

    def convert(*parts: Any) -> "dict[str, tf.Tensor]":
      # A dataset passes the parts of a tuple as separate arguments.
      element = parts if len(parts) > 1 else parts[0]
      y = tf.cast(element[y_key], y_spec.dtype)
      return {
        "x": tf.cast(element[x_key], x_spec.dtype),
        "y": tf.reshape(y, y_spec.shape[1:]),
      }

    return client_data.preprocess(lambda dataset: dataset.map(convert))


_Clients = user_arrays.ArrayClients | _DatasetClients


def _finite_arrays(examples: Mapping[str, np.ndarray]) -> Arrays:
  for title, values in examples.items():
    if values.dtype.kind == "f" and not np.isfinite(values).all():
      raise ValueError(f"{title} has values that are not finite")
  return examples["x"], examples["y"]
