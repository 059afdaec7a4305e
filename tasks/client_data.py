"""Any file of client data in TFF's format, such as one from `prepare_data`.

--task=client_data --task_option=file=images.sqlite --data_dir=DIR

An example has a label called y, label, labels, target or targets: a class
number, or a float to predict. The only other numeric feature, besides `shape`
and further labels, becomes x: integers are the bytes of an image, and are
divided by 255. The shape of x comes from the option `shape`, the feature
`shape` or the size of x.
"""

import dataclasses
import math
import pathlib
import typing

import numpy as np

from tasks import cuts, data_error, models, options, registry, task
from tasks.data_error import DataError
from tasks.formats import data_files, example_proto, sqlite_file
from tasks.from_client_data import from_client_data
from tasks.tabular import reading
from tasks.user_code.user_arrays import LABELS
from tff_fair import declared

if typing.TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff

_HALVES = ("train", "test")
_SHAPE = "shape"  # The feature in which `prepare_data` writes images' shapes.
_CHANNELS = (1, 3)  # Numbers of channels to try if no shape is given.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(options.TaskOptions):
  """Options of the task `client_data`."""

  file: str = declared.value(
    "",
    "The SQLite file, with the splits train and test. A relative path begins "
    "in data_dir if that is given, otherwise in the working directory.",
  )
  num_clients: int | None = declared.positive_integer(
    None,
    "Number of clients, chosen at random from those with examples in both "
    "splits; none means all.",
  )
  shape: str | None = declared.value(
    None,
    'The shape of x, such as "32x32x3". None means the feature `shape` if '
    "there is one; otherwise integers are square images, in grey or colour, "
    "and floats are vectors.",
    expects="such as 28x28 or 32x32x3, or none",
    is_valid=options.shape_of,
  )
  model: models.ImageModelName = declared.value(
    "linear",
    'The model, as in the image tasks. If x are not images, choose "linear", '
    '"mlp" or "mlp_128"; if labels are classes, the models with a second '
    "softmax are valid, too.",
  )


@data_error.reporting_file_option()
def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, *shape], y is int32[n] or float32[n]."""
  path = reading.locate(config.file, data_dir)
  sqlite_file.check(path)
  everyone, counts = sqlite_file.population(path, _HALVES)
  in_both = np.flatnonzero((counts > 0).all(axis=1))
  if not in_both.size:
    raise DataError(path, "has no client in both train and test.")
  chosen = cuts.random_subset(
    in_both, config.num_clients, seed, what="clients in both splits"
  )
  names = list(everyone.take(chosen))
  example = _first_example(path, names[0])
  x, y = _roles(path, example)
  shape = _shape(config, path, x, example)
  train, test = (
    _half(path, half, names, {k: example[k] for k in (x, y)}, shape)
    for half in _HALVES
  )
  loaded = from_client_data(train, test, _linear, name="client_data")
  return dataclasses.replace(
    registry.with_model(loaded, config.model, seed=model_seed),
    description=f"{path.name}, x {'x'.join(map(str, shape))}"
    f"{_left_out(path, len(everyone) - in_both.size)}: {loaded.description}",
  )


def _linear(
  input_shape: tuple[int, ...], num_classes: int | None
) -> "tf.keras.Model":
  """Returns a placeholder model that fits any data; `load` replaces it."""
  return models.mlp(input_shape, (), num_classes or 1, 0)


def _left_out(path: pathlib.Path, num_clients: int) -> str:
  """Describes what is left out: clients in only one half, and other splits."""
  with sqlite_file.connect(path) as connection:
    splits = sqlite_file.split_names(connection)
  others = [split for split in splits if split not in _HALVES]
  parts = [
    *([f"{num_clients:,} clients in only one half"] if num_clients else []),
    *([f"the splits {', '.join(others)}"] if others else []),
  ]
  return f" ({' and '.join(parts)} left out)" if parts else ""


def _first_example(path: pathlib.Path, client: str) -> dict[str, np.ndarray]:
  """Returns the numeric features of a client's first example."""
  found = sqlite_file.serialized_examples(path, "train", client, limit=1)
  if not found:
    raise DataError(path, "split train has no examples.")
  with data_files.reporting_damage(f"{path}, split train"):
    features = example_proto.parse(found[0])
  return {k: v for k, v in features.items() if isinstance(v, np.ndarray)}


def _roles(
  path: pathlib.Path, example: dict[str, np.ndarray]
) -> tuple[str, str]:
  """Returns the names of the features that become x and y."""
  labels = [k for k in example if k in LABELS and example[k].size == 1]
  # Further labels must not become x: CIFAR-100 has label and coarse_label.
  inputs = [k for k in example if k != _SHAPE and "label" not in k]
  inputs = [k for k in inputs if k not in labels]
  if len(labels) != 1 or len(inputs) != 1:
    found = ", ".join(f"{k} ({v.size} {v.dtype})" for k, v in example.items())
    raise DataError(
      path,
      "expected examples with one feature of numbers and one label, called "
      f"{', '.join(LABELS)}; found {found or 'none of numbers'}. For other "
      "features, write a function that returns a task (docs/data.md).",
    )
  return inputs[0], labels[0]


def _shape(
  config: Options, path: pathlib.Path, name: str, example: dict[str, np.ndarray]
) -> tuple[int, ...]:
  """Returns the shape of x, from the option, the file or the size of x."""
  x = example[name]
  if config.shape is not None:
    shape = options.shape_of(config.shape)
    assert shape is not None
    if math.prod(shape) != x.size:
      raise DataError(
        path,
        f"{name} has {x.size:,} numbers, shape={config.shape} has "
        f"{math.prod(shape):,}.",
      )
    return shape
  stored = tuple(int(side) for side in example.get(_SHAPE, ()))
  if stored and math.prod(stored) == x.size:
    return stored
  if x.dtype.kind == "i":
    for channels in _CHANNELS:
      side = math.isqrt(x.size // channels)
      if side * side * channels == x.size:
        return side, side, channels
  return (x.size,)


def _half(
  path: pathlib.Path,
  name: str,
  clients: list[str],
  features: dict[str, np.ndarray],
  shape: tuple[int, ...],
) -> "tff.simulation.datasets.ClientData":
  """Returns the split `name` as `ClientData` of examples `(x, y)`."""
  import tensorflow as tf  # noqa: PLC0415
  import tensorflow_federated as tff  # noqa: PLC0415

  (x, first), (y, _) = features.items()

  def as_pair(example: "dict[str, tf.Tensor]") -> "tuple[tf.Tensor, tf.Tensor]":
    values = tf.cast(tf.reshape(example[x], shape), tf.float32)
    return values / 255 if first.dtype.kind == "i" else values, example[y]

  spec = {
    k: tf.TensorSpec([] if k == y else [v.size], tf.as_dtype(v.dtype))
    for k, v in features.items()
  }
  client_data = tff.simulation.datasets
  data = client_data.load_and_parse_sql_client_data(str(path), spec, name)
  return client_data.ClientData.from_clients_and_tf_fn(
    clients, lambda k: data.serializable_dataset_fn(k).map(as_pair)
  )
