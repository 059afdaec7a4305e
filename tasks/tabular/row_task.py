"""The common options and the builder of the tasks `table` and `arrays`."""

import dataclasses
import math
import typing
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tasks import client_weights, models, options, task
from tasks.data_error import DataError
from tasks.tabular import population
from tasks.tabular.labels import Labels
from tff_fair import declared, user_functions

if typing.TYPE_CHECKING:
  import tensorflow as tf

_HALVES = ("train", "test")
_BALANCED = ("balanced",)


def _are_weights(texts: declared.Names) -> bool:
  return texts == _BALANCED or all(0 < float(t) < math.inf for t in texts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowOptions(options.LocalTestOptions):
  """Options of tasks with a user's own rows."""

  file: str = ""  # Each task describes its own.
  test_fraction: float = declared.value(
    0.2,
    "The share of a client's rows, chosen at random within each class, that is "
    "used for testing, if the data does not say which rows are.",
    **declared.BETWEEN_0_AND_1,
  )
  min_examples: int = 2
  num_clients: int | None = declared.value(
    None, "Number of clients, chosen at random; none means all.", minimum=2
  )
  class_weights: declared.Names | None = declared.value(
    None,
    "The weight of an example of each class in the loss, in the order of the "
    'classes, such as "1,10"; "balanced" gives all classes the same total '
    "weight over the training rows. None means 1 for all.",
    expects="balanced, or numbers above 0, separated by commas, or none",
    is_valid=_are_weights,
  )
  loss: str | None = declared.value(
    None,
    "A function of yours that replaces the cross entropy or the squared error, "
    "path/to/file.py:function. It maps class numbers, int32[n], and logits, "
    "float32[n, classes], to the loss of each example, float32[n]; or numbers "
    "and predictions, both float32[n], or float32[n, numbers] if there are "
    "several.",
    expects="a function of yours, such as path/to/file.py:function, or none",
    is_valid=user_functions.is_name,
  )
  model: models.DenseModelName = declared.value(
    "linear",
    'The network. "linear": no hidden layer, so logistic or linear '
    'regression. "mlp": two hidden layers of 200 units; "mlp_128": one of '
    "128.",
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require(
      "loss",
      self.loss is None or self.class_weights is None,
      "none if class_weights are given",
    )


def divide(
  config: RowOptions,
  clients: np.ndarray,
  names: Sequence[str],
  split_column: tuple[np.ndarray, Sequence[str]] | None,
  classes: np.ndarray | None,
  *,
  seed: int,
  source: str,
  source_of_split: Callable[[int], str],
  blocks: np.ndarray | None = None,
) -> population.Population:
  """Assigns rows to clients, and splits clients' rows into train and test."""
  if split_column is None and blocks is not None:
    is_test = population.choose_test_blocks(
      clients, blocks, config.test_fraction, seed, classes
    )
  elif split_column is None:
    is_test = population.choose_test_rows(
      clients, config.test_fraction, seed, classes
    )
  else:
    codes, words = split_column
    is_known = np.array([word in _HALVES for word in words], bool)[codes]
    if not is_known.all():
      row = int(np.argmin(is_known))
      raise DataError(
        source_of_split(row),
        f"must be train or test, found {words[codes[row]]!r}.",
      )
    is_test = np.array([word == "test" for word in words], bool)[codes]
  return population.divide(
    clients,
    names,
    is_test,
    min_examples=config.min_examples,
    num_clients=config.num_clients,
    seed=seed,
    source=source,
    classes=classes if split_column is None and blocks is None else None,
  )


class Groups(NamedTuple):
  """Groups of people that the model should treat alike."""

  codes: np.ndarray  # The group of each row, int[rows], an index of `names`.
  names: Sequence[str]  # Names of the groups.
  source: str  # The file and the column or array of groups, for errors.


def check_groups(
  names: Sequence[str], source: str, *, is_classifier: bool
) -> None:
  """Checks the number of groups, and that labels are classes."""
  if not is_classifier:
    raise DataError(
      f"{source} (group)", "needs classes as labels, but these are numbers."
    )
  if not 2 <= len(names) <= _MOST_GROUPS:
    shown = ", ".join(map(repr, names[:3]))
    raise DataError(
      f"{source} (group)",
      f"has {len(names):,} values, such as {shown}; expected 2 to "
      f"{_MOST_GROUPS} groups.",
    )


_MOST_GROUPS = 20


def build_task(
  name: str,
  title: str,
  config: RowOptions,
  clients: population.Population,
  labels: Labels,
  load_x: Callable[[np.ndarray], np.ndarray],
  x_shape: Sequence[int],
  *,
  seed: int,
  preprocessing: task.Preprocessing | None = None,
  load_raw: Callable[[np.ndarray], dict[str, np.ndarray]] | None = None,
  weights: tuple[np.ndarray, str] | None = None,
  groups: Groups | None = None,
) -> task.Task:
  """Builds a task from rows with clients and labels.

  `load_x` and `load_raw` map positions of rows, int64[n], to x and to raw
  values by column.
  """
  classes = labels.num_classes
  if groups is not None:
    check_groups(groups.names, groups.source, is_classifier=classes is not None)
  train, test = (
    _split(half, labels, load_x, load_raw, groups)
    for half in (clients.train, clients.test)
  )
  numbers = labels.y.shape[1:]  # [t] if a label has t numbers.
  return task.Task(
    name=name,
    description=(
      f"{title}: {len(clients.names):,} clients ({clients.num_left_out:,} with "
      f"too few rows left out), {task.count_examples(train, test)}, "
      f"{_in_words(labels)}"
    ),
    client_names=clients.names,
    train=train,
    test=test,
    element_spec=task.element_spec(
      x_shape, y_shape=numbers, y_dtype=labels.y.dtype.name
    ),
    num_classes=classes,
    keras_model_fn=models.dense_classifier(
      config.model, tuple(x_shape), classes or (*numbers, 1)[0], seed
    ),
    objective=_objective(config, clients, labels),
    label_scale=labels.scale,
    class_names=labels.class_names,
    group_names=groups and groups.names,
    preprocessing=preprocessing,
    client_weights=weights
    and client_weights.of_parts(
      weights[0],
      clients.names,
      [clients.train.parts, clients.test.parts],
      weights[1],
    ),
  )


def _in_words(labels: Labels) -> str:
  """Returns words such as "10 classes" or "a number as label"."""
  if labels.num_classes is not None:
    return f"{labels.num_classes:,} classes"
  numbers = labels.y.shape[1:]
  return f"{numbers[0]:,} numbers as label" if numbers else "a number as label"


def _objective(
  config: RowOptions, clients: population.Population, labels: Labels
) -> task.Objective:
  """Returns the objective, with the class weights or the loss of `config`."""
  texts, number = config.class_weights, labels.num_classes
  if config.loss is not None:
    return models.objective(number, loss=_user_loss(config.loss, labels))
  if texts is None:
    return models.objective(number)
  weights = None
  if number is not None and texts == _BALANCED:
    y = labels.y[clients.train.rows]
    counts = np.bincount(y, minlength=number)
    weights = (y.size / (number * np.maximum(counts, 1))).tolist()
  elif number is not None:
    weights = list(map(float, texts))
  if weights is None or len(weights) != number:
    found = "numbers as labels" if number is None else f"{number} classes"
    names = ", ".join(labels.class_names or ())
    raise declared.FieldError(
      "class_weights",
      f"the data has {found}" + (f": {names}." if names else "."),
      value=declared.as_text(texts),
    )
  return models.class_objective(weights)


def _user_loss(
  name: str, labels: Labels
) -> Callable[["tf.Tensor", "tf.Tensor"], "tf.Tensor"]:
  """Returns a user's loss; checks that it gives one number per example."""
  import tensorflow as tf  # noqa: PLC0415

  from tasks.models import user_model  # noqa: PLC0415

  y_spec = tf.TensorSpec([None, *labels.y.shape[1:]], labels.y.dtype)
  with user_functions.report_errors_as("loss", name):
    function = user_functions.load(name)
    user_model.check_loss(
      name, function, y_spec, labels.num_classes, user_functions.file_of(name)
    )
  return function


def _split(
  half: population.ClientRows,
  labels: Labels,
  load_x: Callable[[np.ndarray], np.ndarray],
  load_raw: Callable[[np.ndarray], dict[str, np.ndarray]] | None,
  groups: Groups | None,
) -> task.Split:
  """Returns the training or test data of a task; see `build_task`."""

  def load(client_id: int) -> task.Arrays:
    rows = half.of_client(client_id)
    return load_x(rows), labels.y[rows]

  def raw(client_id: int) -> task.RawArrays:
    assert load_raw is not None
    rows = half.of_client(client_id)
    y = labels.y[rows]
    if labels.class_names is None:
      y = y * labels.scale + labels.mean
    return load_raw(rows), y

  return task.Split(
    num_examples=half.sizes.astype(np.int64),
    load=load,
    raw=raw if load_raw else None,
    groups=groups
    and (lambda client_id: groups.codes[half.of_client(client_id)]),
  )
