"""Any data set prepared by tensorflow-datasets, divided among clients.

--task=tfds --task_option=name=cifar10 --data_dir=DIR

Images become floats by the option `pixels`, texts become bags of words, and
several features become the columns of a table (`tasks.tabular.features`).
The clients are artificial (option `partition`), or the values of the feature
that the option `client` names.
"""

import dataclasses
import os
import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tasks import central, models, task
from tasks.central import partitioned_task, partitioning
from tasks.data_error import DataError
from tasks.formats import data_files, example_checks, tfds_format
from tasks.formats.images import resize
from tasks.models import names as model_names
from tasks.tabular import columns, features, labels, population, text_columns
from tasks.tabular.text_columns import BagOfWords
from tff_fair import declared, spelling
from tff_fair.declared import FieldError

_NUM_CLIENTS = 10
# The partitions that work with numeric labels.
_WITHOUT_CLASSES = ("iid", "power_law", "users")
# The class of an example without a label, as in tensorflow-datasets; also the
# code of an empty text in a column.
_NO_LABEL = -1

LoadX = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(central.ImageOptions):
  """Options of the task `tfds`."""

  name: str = declared.value(
    "",
    'The data set, as tensorflow-datasets calls it: "cifar10", "glue/sst2", '
    'or with a version, "mnist:3.0.1".',
  )
  client: str | None = declared.value(
    None,
    'The feature with the client of each example; partition is then "users". '
    "With none, the task makes artificial clients.",
  )
  client_weight: str | None = declared.value(
    None,
    "The feature with the weight of the client, for runs with "
    "client_weighting=column: a number above 0, the same in all examples of a "
    "client. None means that the data has no weights.",
  )
  label: str | None = declared.value(
    None, "The feature to predict; none means that of the supervised keys."
  )
  features: declared.Names | None = declared.value(
    None,
    "The features to predict from; none means those of the supervised keys, or "
    "all others if there are no such keys.",
  )
  num_clients: int | None = declared.value(
    None,
    'Number of clients; none means 10, and with partition "users" all of them.',
  )
  partition: central.Partition = "iid"
  test_data: central.TestData = declared.value(
    "pooled",
    'The data that clients are tested on. "published": the split "test", in '
    'the label proportions of each client\'s training data. "local": a share '
    'of each client\'s part of the split "train". "pooled": clients get both '
    "splits alike, and a share of each client's data is used for testing.",
  )
  image_size: int | None = declared.positive_integer(
    None,
    "Width and height, in pixels, that images are resized to; none keeps "
    "their size.",
  )
  num_words: int = declared.positive_integer(
    1000, "Number of words in a bag of words."
  )
  download: bool = declared.value(
    False, "Whether to download and prepare a data set that is missing."
  )
  model: central.ImageModelName = declared.value(
    "mlp",
    "The classifier, as in the image tasks. For texts and tables choose "
    '"linear", "mlp" or "mlp_128", or one with a second softmax.',
  )

  def __post_init__(self) -> None:
    if self.client is not None:
      self.require(
        "partition",
        self.partition in ("iid", "users"),
        "users, because client names a feature",
      )
      object.__setattr__(self, "partition", "users")
    elif self.num_clients is None and self.partition not in ("users", "labels"):
      object.__setattr__(self, "num_clients", _NUM_CLIENTS)
    super().__post_init__()
    self.require(
      "partition",
      self.partition != "users" or self.client is not None,
      "another one than users, or client must name a feature",
    )
    self.require(
      "client_weight",
      self.client_weight is None or self.client is not None,
      "none, or client must name a feature",
    )


class _Examples(typing.NamedTuple):
  """The labelled examples of the splits "train" and "test"."""

  values: Mapping[str, Sequence[Any]]  # The values of each feature.
  classes: np.ndarray  # The class of each example, int32[n].
  class_names: Sequence[str]  # Empty if numbers are predicted.
  # Numeric labels, float64[n], if numbers are predicted; classes are then 0.
  numbers: np.ndarray | None
  num_train: int  # The first `num_train` examples are of the split "train".
  num_left_out: int  # The number of examples without a label.


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; y is int32[n], or float32[n] for numbers.

  x is float32[n, height, width, channels], [n, words], or [n, width] for a
  table. `data_dir` is the folder of tensorflow-datasets; None means its
  default, TFDS_DATA_DIR or ~/tensorflow_datasets.
  """
  data_set = tfds_format.DataSet(_find_data_set(config, data_dir))
  inputs, label = _roles(config, data_set)
  found = _read(config, data_set, inputs, label)
  if found.numbers is not None:
    config.require(
      "partition",
      config.partition in _WITHOUT_CLASSES,
      f"{', '.join(_WITHOUT_CLASSES)}, since {label!r} is a number",
    )
    config.require(
      "model",
      not config.model.endswith("softmax"),
      f"one without a softmax, since {label!r} is a number",
    )
  data = _central_data(config, data_set, found)
  if [data_set.features[name].kind for name in inputs] == ["image"]:
    return central.build_image_task(
      "tfds",
      config,
      _with_images(config, data, found.values[inputs[0]]),
      seed=seed,
      model_seed=model_seed,
    )
  if config.model not in model_names.HIDDEN_UNITS:
    raise FieldError(
      "model",
      f"expected linear, mlp or mlp_128: {config.name} has no images.",
      value=config.model,
    )
  split = partitioning.make_split(config, data, seed)
  train = partitioned_task.client_rows(split.train)
  what, load_x, x_shape = _inputs(config, data_set, inputs, found, train)
  build = models.dense_classifier(
    config.model, x_shape, data.num_outputs, model_seed, config.initial_weights
  )
  data = dataclasses.replace(
    data, title=f"{data.title}, {what}", load_x=load_x, x_shape=x_shape
  )
  return central.build_task("tfds", config, data, build, seed=seed, split=split)


def _find_data_set(
  config: Options, data_dir: pathlib.Path | None
) -> pathlib.Path:
  """Returns the data set's folder; downloads the data set if requested."""
  if not config.name:
    raise DataError(
      "name", "is missing; name a data set, such as cifar10.", setting="name"
    )
  directory = (
    data_dir
    or pathlib.Path(
      os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    ).expanduser()
  )
  name, _, version = config.name.partition(":")
  found = tfds_format.find(directory, name, version or "*.*.*")
  if found is None and config.download:
    import tensorflow_datasets as tfds  # noqa: PLC0415

    with data_files.reporting_damage(
      f"{directory}: {config.name}", "cannot be prepared"
    ):
      tfds.builder(config.name, data_dir=str(directory)).download_and_prepare()
    found = tfds_format.find(directory, name, version or "*.*.*")
  if found is None:
    there = ", ".join(tfds_format.names(directory)) or "nothing"
    raise DataError(
      directory,
      f"there is no data set {config.name} that tensorflow-datasets has "
      f"prepared; found {there}. The option download=true downloads it.",
    )
  return found


def _roles(
  config: Options, data_set: tfds_format.DataSet
) -> tuple[list[str], str]:
  """Returns the features to predict from, and the feature to predict."""
  supervised = data_set.supervised
  label = config.label or (supervised and supervised[1])
  given = list(config.features or ())
  roles = {
    "label": label,
    "client": config.client,
    "client_weight": config.client_weight,
  }
  for option, name in [*roles.items(), *(("features", n) for n in given)]:
    if name and name not in data_set.features:
      advice = spelling.advice(name, data_set.features, "features")
      raise DataError(
        data_set.directory, f"has no feature {name!r} ({option}); {advice}"
      )
  if not label:
    raise DataError(
      data_set.directory,
      "does not say what to predict; name a feature by label=...: "
      f"{', '.join(data_set.features)}.",
    )
  known = supervised[0] if supervised else data_set.features
  others = [name for name in known if name not in roles.values()]
  inputs = [n for n in given or others if n not in (label, config.client)]
  if not inputs:
    raise DataError(
      data_set.directory, f"has no feature to predict {label!r} from."
    )
  return inputs, label


def _read(
  config: Options,
  data_set: tfds_format.DataSet,
  inputs: Sequence[str],
  label: str,
) -> _Examples:
  """Reads the examples that have a label."""
  place = data_set.directory
  if "train" not in data_set.splits:
    raise DataError(
      place, f"has no split train; found {', '.join(data_set.splits)}."
    )
  roles = [label, config.client, config.client_weight]
  wanted = list(dict.fromkeys([*inputs, *filter(None, roles)]))
  halves = [
    data_set.read(split, wanted)
    for split in ("train", "test")
    if split in data_set.splits
  ]
  values = {n: [v for half in halves for v in half[n]] for n in wanted}
  feature = data_set.features[label]
  classes: labels.Classes | None = None
  numbers: np.ndarray | None = None
  if feature.kind == "class":
    codes = np.array(values[label], np.int64)
    classes = labels.Classes(codes, feature.class_names)
  elif feature.kind in ("number", "truth", "text"):
    column = _column(place, label, feature, values[label])
    source = f"{place}, feature {label!r}"
    classes = labels.classes_of(column, "auto", source=source)
    if classes is None and isinstance(column, columns.Numbers):
      numbers = column.values
      codes = np.where(np.isnan(numbers), _NO_LABEL, 0)
      classes = labels.Classes(codes, ())
  if classes is None:
    raise DataError(
      place,
      f"feature {label!r} is neither a class nor a number, but "
      f"{feature.kind}; name another one by label=....",
    )
  is_labelled = classes.codes != _NO_LABEL
  labelled = np.flatnonzero(is_labelled)
  if not len(labelled):
    raise DataError(place, "no example has a label.")
  return _Examples(
    {name: [column[k] for k in labelled] for name, column in values.items()},
    classes.codes[labelled].astype(np.int32),
    classes.names,
    None if numbers is None else numbers[labelled],
    int(is_labelled[: len(halves[0][label])].sum()),
    int((~is_labelled).sum()),
  )


def _texts(feature: tfds_format.Feature, values: Sequence[Any]) -> np.ndarray:
  """Returns values as strings, object[n]."""
  if feature.kind == "class":
    return np.array(
      [feature.class_names[v] if v >= 0 else "" for v in values], object
    )
  return np.array([example_checks.as_text(v) for v in values], object)


def _central_data(
  config: Options, data_set: tfds_format.DataSet, found: _Examples
) -> central.CentralData:
  """Returns the data without x, which suffices to divide it among clients."""
  title = f"{config.name.partition(':')[0]} {data_set.directory.name}"
  if found.num_left_out:
    title += f" ({found.num_left_out:,} without label left out)"
  if others := [n for n in data_set.splits if n not in ("train", "test")]:
    title += f" (without the splits {', '.join(others)})"
  users: np.ndarray | None = None
  if config.client is not None:
    users = _texts(
      data_set.features[config.client], found.values[config.client]
    )
  weights: np.ndarray | None = None
  if (name := config.client_weight) is not None:
    if (kind := data_set.features[name].kind) != "number":
      raise DataError(
        data_set.directory,
        f"feature {name!r} (client_weight) is not a number, but {kind}.",
      )
    weights = np.array(found.values[name], np.float64)
  return central.CentralData(
    title=title,
    source=str(data_set.directory),
    labels=found.classes,
    num_train=found.num_train,
    load_x=lambda positions: positions,
    x_shape=(),
    class_names=found.class_names,
    numbers=found.numbers,
    users=users,
    weights=weights,
  )


def _with_images(
  config: Options, data: central.CentralData, values: Sequence[np.ndarray]
) -> central.CentralData:
  """Returns data whose x are images, converted to floats on demand."""
  size = config.image_size
  if size is not None:
    values = [resize(image, size) for image in values]
  shapes = sorted({image.shape for image in values})
  if len(shapes) > 1:
    raise DataError(
      data.source,
      f"has images of shapes {list(shapes[0])} and {list(shapes[1])}; give "
      "them one size by image_size=....",
    )
  pixels = np.array(values, np.uint8)
  return dataclasses.replace(
    data,
    x_shape=pixels.shape[1:],
    load_x=partitioned_task.image_loader(pixels, data.num_train, config.pixels),
  )


def _inputs(
  config: Options,
  data_set: tfds_format.DataSet,
  names: Sequence[str],
  found: _Examples,
  train: population.ClientRows,
) -> tuple[str, LoadX, tuple[int, ...]]:
  """Returns a description of x, the function that loads it, and its shape."""
  kinds = {data_set.features[name].kind for name in names}
  if kinds == {"text"}:
    texts = [_texts(data_set.features[n], found.values[n]) for n in names]
    # Texts with few categories become columns of a table, unless there is only
    # one feature.
    if len(names) == 1 or any(
      text_columns.refusal(set(text), len(text)) is not None for text in texts
    ):
      joined = [" ".join(parts) for parts in zip(*texts, strict=True)]
      bag = BagOfWords(joined, train.rows, config.num_words)
      return f"bags of {len(bag.words):,} words", bag, (len(bag.words),)
  if kinds == {"numbers"} and len(names) == 1:
    x = np.array(found.values[names[0]], np.float32)
    shape = "x".join(map(str, x.shape[1:]))
    return f"x {shape}", lambda rows: x[rows], x.shape[1:]
  table: dict[str, columns.Column] = {}
  for name in names:
    feature = data_set.features[name]
    if feature.kind not in ("number", "truth", "class", "text"):
      raise DataError(
        data_set.directory,
        f"feature {name!r} ({feature.kind}) cannot be a column of a table. "
        f"Name others by features=...: {', '.join(data_set.features)}.",
      )
    column = _column(data_set.directory, name, feature, found.values[name])
    table[name] = column
    if isinstance(column, columns.Numbers):
      continue
    known = int((column.codes >= 0).sum())
    if (refusal := text_columns.refusal(column.values, known)) is not None:
      raise DataError(
        data_set.directory,
        f"feature {name!r} {refusal.problem}, such as "
        f"{refusal.example[:60]!r}. Name others by features=....",
      )
  encoder = features.Encoder(table, features.fit(table, train))
  return (
    f"{len(table):,} columns, {encoder.width:,} features",
    encoder,
    (encoder.width,),
  )


def _column(
  place: pathlib.Path,
  name: str,
  feature: tfds_format.Feature,
  values: Sequence[Any],
) -> columns.Column:
  """Returns the values of a feature as a column of a table."""
  if feature.kind == "number":
    numbers = np.array(values, np.float64)
    example_checks.check_finite(
      place, f"feature {name!r}", np.where(np.isnan(numbers), 0, numbers)
    )
    return columns.Numbers(numbers)
  texts, codes = np.unique(_texts(feature, values), return_inverse=True)
  gatherer = columns.TextGatherer()
  gatherer.add(codes, texts.tolist())
  return gatherer.column()
