"""What decides a computation, as text.

A key is made of plain values and of functions in files of ours. Where it cannot
be known what decides a computation, there is no key: a function of the user may
do anything.

A key names functions, and our files say what the names stand for, as long as a
program puts nothing in their place. Scripts, notebooks and tests do so:
`tff_fair.types.f = mine`. So, where a program runs code of a user, no function
in the modules of ours, TensorFlow, Keras and NumPy may be the user's. Not seen
are other values in the place of constants, and one known function in the place
of another.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import os
import pathlib
import platform
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime.compilation_cache import known_code, value_text

# Variables that may decide how graphs are built and optimized, but for those of
# logs.
_VARIABLES = (
  *("TF_", "XLA_", "CUDA_", "NVIDIA_", "KERAS_", "AUTOGRAPH_", "JAX_"),
  *("OMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "EIGEN_"),
)
_OF_LOGS = "TF_CPP_"

# Whose functions keys name.
_PACKAGES = (
  *known_code.PACKAGES,
  "keras",
  "numpy",
  "tensorflow",
  "tensorflow_federated",
)

# What names of modules and their classes stood for when they were checked.
_checked: dict[str, list[Any]] = {}


def digest(value: object) -> str:
  """Returns the name of what a value decides, here and now.

  Raises:
    TypeError: If the value is or has something that may stand for anything, or
      if the program has replaced something that decides computations.
  """
  content = value_text.text((value, SOURCES, _surroundings()))
  check_replaced()
  return hashlib.sha256(content.encode()).hexdigest()


def of_sources() -> str:
  """Returns a digest of all files of ours, as they are now."""
  content = hashlib.sha256()
  for folder in known_code.folders():
    for path in sorted(folder.rglob("*.py")):
      name = str(path.relative_to(folder.parent))
      file = hashlib.sha256(path.read_bytes()).hexdigest()
      content.update(f"{name}:{file}\n".encode())
  return content.hexdigest()


# Those that this program has imported, or is about to.
SOURCES = of_sources()


def _surroundings() -> dict[str, object]:
  """Returns what decides computations beside settings and our files.

  Raises:
    TypeError: If something of it may stand for anything.
  """
  return {
    "python": [sys.version, sys.flags.optimize],
    "versions": [tf.__version__, tff.__version__, np.__version__],
    "packages": _packages(),
    # Constants are computed ahead, with the instructions that there are.
    "processor": [platform.machine(), _instructions()],
    "devices": [device.name for device in tf.config.list_physical_devices()],
    "keras": _of_keras(),
    "tensorflow": _of_tensorflow(),
    "numpy": np.geterr(),
    "variables": {
      name: value
      for name, value in sorted(os.environ.items())
      if name.startswith(_VARIABLES) and not name.startswith(_OF_LOGS)
    },
  }


def _of_keras() -> list[object]:
  backend = tf.keras.backend
  # A layer may name an activation, say, that a user has registered.
  registered = tf.keras.utils.get_custom_objects()
  for name, value in registered.items():
    module = sys.modules.get(getattr(value, "__module__", ""))
    file = getattr(module, "__file__", None)
    if file is None or not known_code.is_known(file):
      raise TypeError(f"Keras' {name} may stand for anything.")
  policy = tf.keras.mixed_precision.global_policy()
  return [
    *(backend.floatx(), backend.epsilon(), backend.image_data_format()),
    *(policy.name, policy.compute_dtype, policy.variable_dtype),
    backend.learning_phase(),
    [*sorted(registered)],
  ]


def _of_tensorflow() -> list[object]:
  config, v1 = tf.config, tf.compat.v1
  return [
    dict(config.optimizer.get_experimental_options()),
    config.optimizer.get_jit(),
    config.experimental.tensor_float_32_execution_enabled(),
    config.get_soft_device_placement(),
    config.threading.get_inter_op_parallelism_threads(),
    config.threading.get_intra_op_parallelism_threads(),
    config.functions_run_eagerly(),
    v1.control_flow_v2_enabled(),
    v1.resource_variables_enabled(),
    # NumPy's rules of promotion come with NumPy's methods.
    hasattr(tf.Tensor, "astype"),
    # The seed of `tf.random.set_seed`, or the usual one.
    v1.get_seed(0)[0],
  ]


@functools.cache
def _packages() -> Sequence[str]:
  """Returns the packages beside TFF with their versions."""
  folder = pathlib.Path(tff.__file__).parent.parent
  return sorted(path.name for path in folder.glob("*.dist-info"))


@functools.cache
def _instructions() -> str:
  """Returns the instruction sets of the processor, where Linux tells them."""
  try:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
  except OSError:
    return ""
  return next((x for x in lines if x.startswith(("flags", "Features"))), "")


def check_replaced() -> None:
  """Checks that names stand for functions of ours and of installed packages.

  Raises:
    TypeError: If one stands for a function of a user.
  """
  if not known_code.has_others():
    return
  for title, module in sys.modules.copy().items():
    if title.partition(".")[0] in _PACKAGES:
      found = [*_values(vars(module))]
      known = _checked.get(title, [])
      if len(found) == len(known) and all(map(operator.is_, found, known)):
        continue
      for name in _foreign(vars(module)):
        raise TypeError(f"{title}.{name} may stand for anything.")
      _checked[title] = found


def _values(namespace: Mapping[str, Any]) -> Iterator[Any]:
  """Yields what names of a module and of its classes stand for."""
  for value in [*namespace.values()]:
    yield value
    if _is_class_of(namespace, value):
      yield from _values(vars(value))


def _is_class_of(namespace: Mapping[str, Any], value: Any) -> bool:
  """Returns whether a value is a class that a module defines."""
  return isinstance(value, type) and (
    value.__module__ == namespace.get("__name__")
  )


def _foreign(namespace: Mapping[str, Any]) -> Iterator[str]:
  """Yields names of a module or class that stand for functions of a user."""
  for name, value in [*namespace.items()]:
    if _is_class_of(namespace, value):
      yield from (f"{name}.{member}" for member in _foreign(vars(value)))
    elif any(map(_is_foreign, _functions(value))):
      yield name


def _functions(value: Any) -> Iterator[types.FunctionType]:
  """Yields the functions in what a decorator may have given."""
  if isinstance(value, property):
    parts = [value.fget, value.fset, value.fdel]
  elif isinstance(value, functools.cached_property | functools.partial):
    parts = [value.func]
  elif isinstance(value, classmethod | staticmethod):
    parts = [value.__func__]
  else:
    parts = [value]
  for part in parts:
    if isinstance(part, types.FunctionType):
      yield part
      # What decorates a function may be known, and the function not.
      wrapped = vars(part).get("__wrapped__")
      if isinstance(wrapped, types.FunctionType):
        yield wrapped


def _is_foreign(function: types.FunctionType) -> bool:
  file = function.__code__.co_filename
  if file.startswith("<"):  # Generated, or typed into a console.
    main = sys.modules.get("__main__")
    return main is not None and function.__globals__ is vars(main)
  return not known_code.is_known(file)
