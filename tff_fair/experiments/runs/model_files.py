"""Loads Keras models from files, after checks for foreign code."""

import contextlib
import io
import json
import pathlib
import zipfile
from collections.abc import Iterator

import h5py
import tensorflow as tf
from keras.protobuf import saved_metadata_pb2

from tasks.models import exportable, keras_parts
from tff_fair.experiments.runs import saved_model_programs
from tff_fair.files import atomic

# Names of the outputs of an exported model that applies a threshold.
PROBABILITIES, PREDICTED_CLASS = "probabilities", "predicted_class"
_KERAS_METADATA = "keras_metadata.pb"
_MOST_LETTERS = 100  # The most letters of names in a message.


def check(path: pathlib.Path) -> None:
  """Checks that a path is a file, or the folder of a SavedModel."""
  if not path.exists():
    raise ValueError("there is no such file or folder.")
  if kind := atomic.special_kind(path):  # Reading such a file may never end.
    raise ValueError(f"is a {kind}, not a file.")
  if path.is_dir() and not (path / "saved_model.pb").exists():
    raise ValueError(
      "holds no saved_model.pb; name a .keras file, or the folder of a "
      "SavedModel."
    )


def has_only_signatures(path: pathlib.Path) -> bool:
  """Returns whether a path is a SavedModel without Keras metadata."""
  return path.is_dir() and not (path / _KERAS_METADATA).exists()


def keras_3_version(path: pathlib.Path) -> str | None:
  """Returns the version of Keras 3 that saved a file; None for other files."""
  version = None
  with contextlib.suppress(OSError, KeyError, ValueError, zipfile.BadZipFile):
    if zipfile.is_zipfile(path):
      with zipfile.ZipFile(path) as archive:
        version = json.loads(archive.read("metadata.json"))["keras_version"]
    elif h5py.is_hdf5(path):
      with h5py.File(path, "r") as file:
        version = file.attrs["keras_version"]
  major, _, _ = str(version).partition(".")
  return str(version) if major.isdecimal() and int(major) >= 3 else None


def load_model(path: pathlib.Path, *, trust: bool = False) -> tf.keras.Model:
  """Loads a model without compiling it; checks its code unless `trust`."""
  check(path)
  if (version := keras_3_version(path)) is not None:
    raise ValueError(
      f"was saved by Keras {version}, and TensorFlow here has another (that of "
      f"{tf.__version__}). Save it as a SavedModel, in Keras 3 by "
      "model.export(FOLDER), which audit takes; for training, give its layers "
      "by --model."
    )
  if not trust:
    check_code(path)
  hidden = (
    contextlib.nullcontext() if trust else exportable.without_custom_objects()
  )
  try:
    if has_only_signatures(path):
      raise ValueError("it is a SavedModel without Keras' description")
    with hidden:
      model = tf.keras.models.load_model(
        str(path), compile=False, safe_mode=not trust
      )
    if not isinstance(model, tf.keras.Model):
      raise TypeError(f"it holds a {type(model).__name__}")
    return model
  # For a damaged file, or one that is not a model, Keras may raise any error.
  except Exception as error:
    raise ValueError(
      f"cannot be loaded as a Keras model: {exportable.reason(error)} (a model "
      "with custom layers loads as a SavedModel folder, with --trust)."
    ) from error


# The functions below find code that would run when a file is loaded. Keras' own
# safe mode is not enough: it allows functions of any module and pickled arrays.


_CONFIG, _WEIGHTS, _ASSETS = "config.json", "model.weights.h5", "assets/"
_ARCHIVE_FILES = (_CONFIG, "metadata.json", _WEIGHTS)


def check_code(path: pathlib.Path) -> None:
  """Checks that a model has only Keras' own parts, and reads no other files."""
  try:
    found = sorted(set(_code(path)))
  # For a damaged file, or one that is not a model, any error may be raised.
  except Exception as error:
    raise ValueError(
      f"cannot be loaded as a Keras model: {exportable.reason(error)}."
    ) from error
  if found:
    names = ", ".join(found)
    raise ValueError(
      f"holds or names code that is not Keras' own ({names[:_MOST_LETTERS]}); "
      "if you trust the file to run with your rights, give --trust."
    )


def _code(path: pathlib.Path) -> Iterator[str]:
  """Yields the names of a model's parts that may run code or reach files."""
  if path.is_dir():
    yield from saved_model_programs.outward_operations(path)
    if not has_only_signatures(path):
      yield from _code_of_saved_layers(path / _KERAS_METADATA)
  # Keras also tells its two file formats apart by these conditions.
  elif path.suffix == ".keras" and zipfile.is_zipfile(path):
    with zipfile.ZipFile(path) as archive:
      yield from _code_of_archive(archive)
  else:
    with h5py.File(path, "r") as file:
      yield from keras_parts.find_foreign(
        json.loads(file.attrs["model_config"])
      )
      yield from _other_files(file)


def _code_of_archive(archive: zipfile.ZipFile) -> Iterator[str]:
  for name in archive.namelist():
    if name not in _ARCHIVE_FILES and not name.startswith(_ASSETS):
      yield name  # For example model.weights.npz, which Keras would unpickle.
  config = json.loads(archive.read(_CONFIG))
  config.pop("compile_config", None)  # Loading without compiling ignores it.
  yield from keras_parts.find_foreign(config)
  with (
    archive.open(_WEIGHTS) as weights,
    h5py.File(io.BytesIO(weights.read()), "r") as file,
  ):
    yield from _other_files(file)


def _code_of_saved_layers(path: pathlib.Path) -> Iterator[str]:
  metadata = saved_metadata_pb2.SavedMetadata()
  metadata.ParseFromString(path.read_bytes())
  for node in metadata.nodes:
    config = json.loads(node.metadata)
    config.pop("training_config", None)  # Loading without compiling ignores it.
    yield from keras_parts.find_foreign(config)


def _other_files(file: h5py.File) -> Iterator[str]:
  """Yields a phrase for each reference of an HDF5 file to another file."""
  found = []

  def add_link(name: bytes, link: h5py.h5l.LinkInfo) -> None:
    if link.type not in (h5py.h5l.TYPE_HARD, h5py.h5l.TYPE_SOFT):
      found.append(f"the link {name.decode(errors='replace')} to another file")

  def add_data(name: str, item: h5py.Group | h5py.Dataset) -> None:
    if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
      found.append(f"data of another file in {name}")

  file.id.links.visit(add_link, info=True)
  file.visititems(add_data)
  yield from found
