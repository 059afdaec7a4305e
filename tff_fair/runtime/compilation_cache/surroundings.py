"""What decides a computation beside its settings and our files."""

from __future__ import annotations

import functools
import os
import pathlib
import platform
import sys
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime.compilation_cache import known_code

# Variables that may decide how graphs are built and optimized, but for those of
# logs.
_VARIABLES = (
  *("TF_", "XLA_", "CUDA_", "NVIDIA_", "KERAS_", "AUTOGRAPH_", "JAX_"),
  *("OMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "EIGEN_"),
)
_OF_LOGS = "TF_CPP_"


def find() -> dict[str, object]:
  """Returns what surrounds a program, as plain values.

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
