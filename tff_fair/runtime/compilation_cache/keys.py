"""The keys of compiled computations: digests of all that determines them.

A key covers the settings, this project's files, the installed packages,
environment variables, the Keras settings, and the processor. It does not cover
a user's code, so a program that has imported such code cannot use keys.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import pathlib
import pickle
import platform
import sys
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import known_code

# Prefixes of environment variables that may affect how graphs are built and
# optimized. Variables with the prefix `_LOG_PREFIX` affect only logs.
_VARIABLES = (
  *("TF_", "XLA_", "CUDA_", "NVIDIA_", "KERAS_", "AUTOGRAPH_", "JAX_"),
  *("OMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "EIGEN_"),
)
_LOG_PREFIX = "TF_CPP_"


class NotCacheableError(Exception):
  """A computation may depend on something that no key covers."""


def digest(value: object) -> str:
  """Returns the cache key of results that are derived from `value`."""
  if known_code.has_user_code():
    raise NotCacheableError("The program has code of a user.")
  content = io.BytesIO()
  pickler = pickle.Pickler(content)
  # With `fast`, an object is pickled again each time it occurs, so that equal
  # values give equal bytes.
  pickler.fast = True
  try:
    pickler.dump((value, SOURCE_DIGEST, _environment()))
  # Pickling raises errors of many classes, for example for local functions.
  except Exception as error:
    raise NotCacheableError(str(error)) from error
  return hashlib.sha256(content.getvalue()).hexdigest()


def source_digest() -> str:
  """Returns a digest of the current content of all files of this project."""
  content = hashlib.sha256()
  for folder in known_code.folders():
    for path in sorted(folder.rglob("*.py")):
      name = str(path.relative_to(folder.parent))
      file = hashlib.sha256(path.read_bytes()).hexdigest()
      content.update(f"{name}:{file}\n".encode())
  return content.hexdigest()


# The digest of the files that this program has imported or will import.
SOURCE_DIGEST = source_digest()


def _environment() -> dict[str, object]:
  """Returns all that affects compilation, except for settings and code."""
  keras = tf.keras.backend
  return {
    "python": [sys.version, sys.flags.optimize],
    "versions": [tf.__version__, tff.__version__, np.__version__],
    "packages": _packages(),
    # The compiler folds constants with this processor's instructions.
    "processor": [platform.machine(), _instructions()],
    "devices": [device.name for device in tf.config.list_physical_devices()],
    # The user's Keras configuration file sets these.
    "keras": [keras.floatx(), keras.epsilon(), keras.image_data_format()],
    "variables": {
      name: value
      for name, value in sorted(os.environ.items())
      if name.startswith(_VARIABLES) and not name.startswith(_LOG_PREFIX)
    },
  }


@functools.cache
def _packages() -> Sequence[str]:
  """Returns the packages installed in TFF's folder, with their versions."""
  folder = pathlib.Path(tff.__file__).parent.parent
  return sorted(path.name for path in folder.glob("*.dist-info"))


@functools.cache
def _instructions() -> str:
  """Returns the processor's instruction sets, if Linux reports them."""
  try:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
  except OSError:
    return ""
  return next((x for x in lines if x.startswith(("flags", "Features"))), "")
