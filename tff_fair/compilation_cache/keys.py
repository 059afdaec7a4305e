"""What decides a computation, as text.

A key is made of plain values and of functions in files of ours. Where it cannot
be known what decides a computation, there is no key: a function of the user may
do anything.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.util
import os
import pathlib
import platform
import sys
import types
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

# Their files decide what a name stands for.
_PACKAGES = ("tff_fair", "tasks")
# Variables that may decide how graphs are optimized, but for those of logs.
_VARIABLES = ("TF_", "XLA_", "CUDA_VISIBLE_DEVICES")
_OF_LOGS = "TF_CPP_"


def digest(value: object) -> str:
  """Returns the name of what a value decides, here and now.

  Raises:
    TypeError: If the value is or has something that may stand for anything.
  """
  content = f"{_text(value)}\n{_text(_surroundings())}"
  return hashlib.sha256(content.encode()).hexdigest()


def _text(value: object) -> str:
  """Returns a text that equal values share, and different ones do not."""
  return f"{type(value).__name__}({_content(value)})"


def _content(value: object) -> str:
  match value:
    case None | bool() | int() | float() | str() | bytes() | tf.TensorSpec():
      content = repr(value)
    case np.ndarray():
      digest_of_values = hashlib.sha256(value.tobytes()).hexdigest()
      content = f"{value.dtype.str}{value.shape}:{digest_of_values}"
    case list() | tuple():
      content = ", ".join(map(_text, value))
    case Mapping():
      content = _content([*value.items()])
    case functools.partial():
      content = _content([value.func, value.args, value.keywords])
    case types.FunctionType() if _is_ours(value.__code__.co_filename):
      held = [cell.cell_contents for cell in value.__closure__ or ()]
      given = [value.__defaults__, value.__kwdefaults__, held]
      line = value.__code__.co_firstlineno
      content = _content([value.__module__, value.__qualname__, line, *given])
    case object() if dataclasses.is_dataclass(value) and _is_ours(
      str(getattr(sys.modules[type(value).__module__], "__file__", ""))
    ):
      fields = {
        f.name: getattr(value, f.name) for f in dataclasses.fields(value)
      }
      content = f"{type(value).__module__}:{_content(fields)}"
    case _:
      raise TypeError(f"{value!r} may stand for anything.")
  return content


@functools.cache
def _folders() -> Sequence[pathlib.Path]:
  """Returns the folders of the packages."""
  specs = [importlib.util.find_spec(package) for package in _PACKAGES]
  return [
    pathlib.Path(place).resolve()
    for spec in specs
    if spec is not None
    for place in spec.submodule_search_locations or ()
  ]


def _is_ours(file: str) -> bool:
  path = pathlib.Path(file).resolve()
  return any(path.is_relative_to(folder) for folder in _folders())


def of_sources() -> str:
  """Returns a digest of all files of ours, as they are now."""
  content = hashlib.sha256()
  for folder in _folders():
    for path in sorted(folder.rglob("*.py")):
      name = str(path.relative_to(folder.parent))
      file = hashlib.sha256(path.read_bytes()).hexdigest()
      content.update(f"{name}:{file}\n".encode())
  return content.hexdigest()


# Those that this program has imported, or is about to.
SOURCES = of_sources()


def _surroundings() -> Mapping[str, object]:
  """Returns what decides a computation beside its settings."""
  return {
    "sources": SOURCES,
    "python": sys.version,
    "versions": [tf.__version__, tff.__version__, np.__version__],
    # Constants are computed ahead, with the instructions that there are.
    "processor": [platform.machine(), _instructions()],
    "devices": [device.name for device in tf.config.list_physical_devices()],
    "floats": [
      tf.keras.backend.floatx(),
      tf.keras.mixed_precision.global_policy().name,
    ],
    "variables": {
      name: value
      for name, value in sorted(os.environ.items())
      if name.startswith(_VARIABLES) and not name.startswith(_OF_LOGS)
    },
  }


@functools.cache
def _instructions() -> str:
  """Returns the instruction sets of the processor, where Linux tells them."""
  try:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
  except OSError:
    return ""
  return next((x for x in lines if x.startswith(("flags", "Features"))), "")
