"""A task: a population of clients with data, and a model."""

import dataclasses
import functools
import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np

if typing.TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff

Arrays = tuple[np.ndarray, np.ndarray]
# Columns of raw values by name, and labels in their own units.
RawArrays = tuple[Mapping[str, np.ndarray], np.ndarray]
ElementSpec = tuple["tf.TensorSpec", "tf.TensorSpec"]
KerasModelFn = Callable[[], "tf.keras.Model"]
ModelFn = Callable[[], "tff.learning.models.VariableModel"]
FunctionalModelFn = Callable[[], "tff.learning.models.FunctionalModel | None"]


def element_spec(
  x_shape: Sequence[int],
  x_dtype: str = "float32",
  *,
  y_shape: Sequence[int] = (),
  y_dtype: str = "int32",
) -> ElementSpec:
  """Returns the specs of the arrays `(x, y)` of any number of examples.

  `x_shape` and `y_shape` are the shapes of one example's x and y.
  """
  import tensorflow as tf  # noqa: PLC0415

  return (
    tf.TensorSpec([None, *x_shape], tf.as_dtype(x_dtype)),
    tf.TensorSpec([None, *y_shape], tf.as_dtype(y_dtype)),
  )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Split:
  """One part (train, test or validation) of every client's data.

  Attributes:
    num_examples: Each client's number of examples, int64[num_clients], known
      without reading any client's data. It is at least 1 in training and test
      data, but may be 0 in validation data.
    load: Maps a client id to that client's whole arrays `(x, y)`, both with
      `num_examples[client_id]` rows. Called only when this data is needed.
    raw: If the task has a `preprocessing`, maps a client id to the original
      columns, from which `load` computes x, and to the labels: class numbers,
      or numbers in their own units. The examples are in the order of `load`.
    true_labels: If labels were replaced (`tasks.label_noise`), maps a client id
      to the original labels, in the order of `load`.
    groups: If the task has groups of people, maps a client id to the groups of
      its examples, int[n], in the order of `load`: indices of
      `Task.group_names`.
    noise_levels: If labels are noisy, the share of each client's labels that
      was replaced, float64[num_clients].
  """

  num_examples: np.ndarray
  load: Callable[[int], Arrays]
  raw: Callable[[int], RawArrays] | None = None
  true_labels: Callable[[int], np.ndarray] | None = None
  groups: Callable[[int], np.ndarray] | None = None
  noise_levels: np.ndarray | None = None


def count_examples(train: Split, test: Split, unit: str = "examples") -> str:
  """Returns a text such as "1,347 train and 450 test examples"."""
  return (
    f"{train.num_examples.sum():,} train and {test.num_examples.sum():,} test "
    f"{unit}"
  )


def one_element(arrays: Arrays) -> "tf.data.Dataset":
  """Returns a client's whole arrays as a dataset with the task's spec.

  The dataset has exactly one element.
  """
  import tensorflow as tf  # noqa: PLC0415

  # Batches slices, because `from_tensors` would put the client's number of
  # examples into the spec, so that specs of clients would differ.
  return tf.data.Dataset.from_tensor_slices(arrays).batch(len(arrays[1]))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Objective:
  """A loss and a metric, with functions that turn Keras models into TFF models.

  Attributes:
    model_fn: Maps a function that returns a new Keras model, and the specs of
      the data, to `Task.model_fn`.
    functional_model_fn: Maps the same arguments to `Task.functional_model_fn`;
      None if a functional model would not be faster.
    activation: Turns the model's outputs into probabilities, as the loss does;
      None if the outputs are the predictions.
    padding: The class number of padding in sequences of labels, if any.
  """

  model_fn: Callable[[KerasModelFn, ElementSpec], ModelFn]
  functional_model_fn: (
    Callable[[KerasModelFn, ElementSpec], FunctionalModelFn] | None
  ) = None
  activation: Literal["softmax", "sigmoid"] | None = None
  padding: int | None = None


class Preprocessing(Protocol):
  """Converts raw values to a model's x, and its outputs to labels' own units.

  Attributes:
    columns: The kind of each column of raw values, by name: "number" for
      float32[n] with NaN if missing, "text" for string[n] with "" if missing.
    typical: A typical value of each column in the training rows.
  """

  columns: Mapping[str, Literal["number", "text"]]
  typical: Mapping[str, float | str]

  def wrap(self, model: "tf.keras.Model") -> "tf.keras.Model":
    """Returns a model that takes raw values, with `model` as a layer.

    Args:
      model: A model of the task, from its x to its outputs.

    Returns:
      A model of plain Keras layers that maps a dictionary of columns to class
      probabilities, float32[n, classes], or to numbers in the label's own
      units, float32[n].
    """


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Task:
  """A federated learning problem: clients, their data and a model.

  A client's integer id is its index in `client_names`. A task reads or builds a
  client's data only when a caller asks for it.

  Attributes:
    name: The name in the registry.
    description: One line about the data and the numbers of clients and
      examples.
    client_names: Names of the clients in the data.
    train: The clients' training data.
    test: The clients' test data.
    element_spec: Specs of the whole arrays `(x, y)`, whose leading dimension is
      None; equal to the model's `input_spec`.
    num_classes: The number of classes of labels and of the model's outputs;
      None if the label is one or t numbers, and the model outputs as many.
    keras_model_fn: Returns a new Keras model, uncompiled; its initial weights
      depend only on the task's model seed.
    objective: The loss and the metric of the model.
    label_scale: If the label is a number, the size of one unit of y in the
      label's own units: an error of y times this value is in these units.
    class_names: Names of the classes, if the data has them.
    group_names: Names of the groups of people in the test examples, if the data
      has groups; see `Split.groups`.
    preprocessing: The conversion of raw values to x, if the task has it.
    client_weights: Each client's weight by id, float64[num_clients], if the
      data has weights; used with `client_weighting="column"`.
    validation: Training examples that are held out for choosing settings (see
      `tasks.with_validation`); a client may have none. None if no examples are
      held out.
    files: The files that the examples come from, if this project reads them.
  """

  name: str
  description: str
  client_names: Sequence[str]
  train: Split
  test: Split
  element_spec: ElementSpec
  num_classes: int | None
  keras_model_fn: KerasModelFn
  objective: Objective
  label_scale: float = 1.0
  class_names: Sequence[str] | None = None
  group_names: Sequence[str] | None = None
  preprocessing: Preprocessing | None = None
  client_weights: np.ndarray | None = None
  validation: Split | None = None
  files: Sequence[pathlib.Path] = ()

  @property
  def num_clients(self) -> int:
    """The number of clients."""
    return len(self.client_names)

  @property
  def has_class_labels(self) -> bool:
    """Whether each label is a single class, not a number or several words."""
    label = self.element_spec[1]
    return (
      self.num_classes is not None
      and label.shape.rank == 1
      and label.dtype.is_integer
    )

  @property
  def class_titles(self) -> list[str]:
    """The names of the classes as text; their numbers if they have no names."""
    return [*map(str, self.class_names or range(self.num_classes or 0))]

  @functools.cached_property
  def model_fn(self) -> ModelFn:
    """Returns a new `VariableModel` with the weights of the Keras model."""
    return self.objective.model_fn(self.keras_model_fn, self.element_spec)

  @functools.cached_property
  def functional_model_fn(self) -> FunctionalModelFn:
    """Returns the model as a `FunctionalModel`; None if that is not faster."""
    convert = self.objective.functional_model_fn
    if convert is None:
      return lambda: None
    return convert(self.keras_model_fn, self.element_spec)

  @property
  def model(self) -> "ModelFn | tff.learning.models.FunctionalModel":
    """The model for processes and evaluation, in the form that trains faster.

    Both forms have the same weights, loss and metrics.
    """
    return self.functional_model_fn() or self.model_fn

  @property
  def model_parts(self) -> tuple[object, ...]:
    """Everything that determines `model`, as a key for caches."""
    return self.keras_model_fn, self.objective, self.element_spec

  @functools.cached_property
  def label_counts(self) -> np.ndarray:
    """Numbers of training examples, int64[num_clients, num_classes].

    Only for a task with `has_class_labels`. Reads every client's data once.
    """
    assert self.num_classes is not None
    return np.stack(
      [
        np.bincount(np.ravel(self.train.load(k)[1]), minlength=self.num_classes)
        for k in range(self.num_clients)
      ]
    )

  def train_data(self, client_id: int) -> "tf.data.Dataset":
    """Returns a client's training examples as one element `(x, y)`.

    Args:
      client_id: Index of the client in `client_names`.

    Returns:
      A dataset with `element_spec` as its spec and exactly one element.

    Raises:
      ValueError: If there is no such client.
      DataError: If the client's data cannot be read.
    """
    return self._dataset(self.train, client_id)

  def test_data(self, client_id: int) -> "tf.data.Dataset":
    """Returns a client's test examples, like `train_data`."""
    return self._dataset(self.test, client_id)

  def check_client_id(self, client_id: int) -> None:
    """Checks that there is a client with this id.

    Raises:
      ValueError: If there is no such client.
    """
    # A negative id would silently select a client from the end.
    if not 0 <= client_id < self.num_clients:
      raise ValueError(
        f"Task {self.name} has no client {client_id}: its client ids run from "
        f"0 to {self.num_clients - 1}."
      )

  def _dataset(self, split: Split, client_id: int) -> "tf.data.Dataset":
    self.check_client_id(client_id)
    return one_element(split.load(client_id))
