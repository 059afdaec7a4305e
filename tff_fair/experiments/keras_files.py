"""Keras models in files."""

import contextlib
import json
import pathlib
import zipfile

import tensorflow as tf

from tasks.formats import files

# Outputs of an exported model that decides for one of two classes.
PROBABILITIES, PREDICTED_CLASS = "probabilities", "predicted_class"
_KERAS_METADATA = "keras_metadata.pb"
# Words of configurations by Keras 3, as errors of Keras 2 quote them: in a .h5
# file the version cannot be read without h5py.
_WORDS_OF_KERAS_3 = ("'batch_shape'", "'DTypePolicy'")


def check(path: pathlib.Path) -> None:
  """Checks that a path may be that of a model.

  Raises:
    ValueError: If there is none; the text says why.
  """
  if not path.exists():
    raise ValueError("there is no such file or folder.")
  if kind := files.special_kind(path):  # To read it may never end.
    raise ValueError(f"is a {kind}, no file.")
  if path.is_dir() and not (path / "saved_model.pb").exists():
    raise ValueError(
      "holds no saved_model.pb; name a .keras file, or the folder of a "
      "SavedModel."
    )


def has_signatures_alone(path: pathlib.Path) -> bool:
  """Returns whether a path is a SavedModel that knows nothing of Keras."""
  return path.is_dir() and not (path / _KERAS_METADATA).exists()


def keras_3(path: pathlib.Path) -> str | None:
  """Returns the version of Keras that saved a .keras file, if 3 or later."""
  version = None
  with contextlib.suppress(OSError, KeyError, ValueError, zipfile.BadZipFile):
    if zipfile.is_zipfile(path):
      with zipfile.ZipFile(path) as archive:
        version = json.loads(archive.read("metadata.json"))["keras_version"]
  major, _, _ = str(version).partition(".")
  return str(version) if major.isdecimal() and int(major) >= 3 else None


def load(path: pathlib.Path) -> tf.keras.Model:
  """Loads a model, uncompiled.

  Args:
    path: A .keras or .h5 file, or the folder of a SavedModel.

  Raises:
    ValueError: If it cannot be loaded; the text says why.
  """
  check(path)
  if (version := keras_3(path)) is not None:
    raise ValueError(_other_keras(version))
  try:
    if has_signatures_alone(path):
      raise ValueError("it is a SavedModel without Keras' description")
    model = tf.keras.models.load_model(str(path), compile=False)
    if not isinstance(model, tf.keras.Model):
      raise TypeError(f"it holds a {type(model).__name__}")
    return model
  # A file that is damaged or of something else raises anything.
  except Exception as error:
    if any(word in str(error) for word in _WORDS_OF_KERAS_3):
      raise ValueError(_other_keras("3")) from error
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    raise ValueError(
      f"cannot be loaded as a Keras model: {reason} (a model with layers of "
      "its own loads as a SavedModel folder)."
    ) from error


def _other_keras(version: str) -> str:
  return (
    f"was saved by Keras {version}, and TensorFlow here has another "
    f"(that of {tf.__version__}). Save it as a SavedModel, in Keras 3 by "
    "model.export(FOLDER), which audit takes; for training, give its layers "
    "by --model."
  )
