"""Checks that descriptions of Keras models name only parts of Keras itself.

Keras imports, builds and calls whatever a description in a file names:
functions of any module, bytecode, any TensorFlow function. `find_foreign` reads
a description as JSON, before Keras builds any part of it.
"""

import functools
import inspect
import types
from collections.abc import Iterator, Mapping

import tensorflow as tf

# Keras' modules of classes and of functions, as in every installation.
_CLASS_MODULES = (
  *("layers", "initializers", "regularizers", "constraints", "models"),
  *("losses", "metrics", "optimizers", "optimizers.schedules"),
  "mixed_precision",
)
_FUNCTION_MODULES = ("activations", "losses", "metrics")
# Layers that contain code or load a file.
_WITH_CODE = ("Lambda", "TFSMLayer")
_NOT_FUNCTIONS = ("get", "serialize", "deserialize")
# Kinds of plain values that Keras writes as objects; they import nothing.
_VALUES = ("__tensor__", "__numpy__", "__bytes__", "__tuple__", "__ellipsis__")
# Keras turns `y + 1` and `tf.nn.relu(y)` into layers that store the canonical
# name of a TensorFlow function.
_CALL_LAYERS = ("TFOpLambda", "SlicingOpLambda")
_CALL_MODULE = "keras.src.layers.core.tf_op_layer"
_CALLS = (
  *("__operators__.", "math.", "nn.", "linalg.", "image.", "signal."),
  *("strings.", "bitwise.", "dtypes.", "random.stateless_"),
)
_FILE_CALL = "nn.fixed_unigram_candidate_sampler"  # Reads a file.
_OTHER_CALLS = """
  argsort batch_to_space bitcast boolean_mask broadcast_dynamic_shape
  broadcast_static_shape broadcast_to cast clip_by_norm clip_by_value concat
  constant convert_to_tensor dynamic_partition dynamic_stitch einsum
  ensure_shape expand_dims eye fill gather gather_nd histogram_fixed_width
  identity identity_n linspace meshgrid norm one_hot ones ones_like pad
  random.categorical random.gamma random.normal random.poisson random.shuffle
  random.truncated_normal random.uniform range rank realdiv repeat reshape
  reverse reverse_sequence roll scatter_nd searchsorted sequence_mask shape
  shape_n size slice sort space_to_batch split squeeze stack stop_gradient
  strided_slice tensor_scatter_nd_add tensor_scatter_nd_max
  tensor_scatter_nd_min tensor_scatter_nd_sub tensor_scatter_nd_update tensordot
  tile transpose truncatediv truncatemod unique unique_with_counts unravel_index
  unstack where zeros zeros_like
"""
_FILE = "vocabulary"  # The setting of a lookup layer: a list or a file's path.


def find_foreign(config: object) -> Iterator[str]:
  """Yields the names in a description that are not Keras' own."""
  # Uses no recursion, since a description may be nested very deeply.
  waiting = [config]
  while waiting:
    value = waiting.pop()
    if isinstance(value, Mapping):
      if "class_name" in value:
        yield from _foreign_object(value)
      waiting.extend(value.values())
    elif isinstance(value, list | tuple):
      waiting.extend(value)


def _foreign_object(config: Mapping[str, object]) -> Iterator[str]:
  """Yields the name of an object if it is not Keras' own; ignores its parts."""
  name, inner = config["class_name"], config.get("config")
  shown = str(name)
  if not isinstance(name, str):
    yield shown
  elif name in _VALUES or (name == "TensorShape" and "module" not in config):
    pass
  elif name in ("TypeSpec", "CompositeTensor"):
    if "module" in config or not str(config.get("type_spec")).startswith("tf."):
      yield shown
  elif name == "function":
    if not _is_function(config):
      yield f"the function {inner}"
  elif name in _CALL_LAYERS:
    call = inner.get("function") if isinstance(inner, Mapping) else None
    if config.get("module") not in (None, _CALL_MODULE) or not _is_call(call):
      yield f"the function {call}"
  elif not _is_class(config):
    yield shown
  elif isinstance(inner, Mapping) and isinstance(inner.get(_FILE), str):
    yield f"{name} of the file {inner[_FILE]}"


def _is_class(config: Mapping[str, object]) -> bool:
  name = config["class_name"]
  places = _classes().get(str(name), ())
  registered = config.get("registered_name")
  module = config.get("module")
  return registered in (None, name) and (
    bool(places) if module is None else module in places
  )


def _is_function(config: Mapping[str, object]) -> bool:
  name = config.get("config")
  places = _functions().get(name, ()) if isinstance(name, str) else ()
  return config.get("module") in places and config.get("registered_name") in (
    None,
    name,
    "function",
    *places,
  )


def _is_call(name: object) -> bool:
  if not isinstance(name, str):
    return False
  name = name.removeprefix("compat.v1.")
  return name in _OTHER_CALLS.split() or (
    name.startswith(_CALLS) and name != _FILE_CALL
  )


@functools.cache
def _classes() -> Mapping[str, frozenset[str]]:
  """Returns the modules that a description may give for each Keras class."""
  found: dict[str, set[str]] = {}
  for module in _CLASS_MODULES:
    for name, value in vars(_keras_module(module)).items():
      if inspect.isclass(value) and _is_of_keras(value):
        places = {f"keras.{module}", value.__module__}
        found.setdefault(value.__name__, set()).update(places)
        found.setdefault(name, set()).update(places)
  for name in ("Sequential", "Model", "Functional"):
    found.setdefault(name, set()).update(("keras", "keras.models"))
  found["Functional"].add(tf.keras.Sequential.__base__.__module__)
  # Part of ConvLSTM2D in SavedModels.
  found["ConvLSTMCell"] = {"keras.src.layers.rnn.base_conv_lstm"}
  for name in _WITH_CODE:
    found.pop(name, None)
  return {name: frozenset(places) for name, places in found.items()}


@functools.cache
def _functions() -> Mapping[str, frozenset[str]]:
  """Returns the modules that a description may give for each Keras function."""
  found: dict[str, set[str]] = {}
  for module in _FUNCTION_MODULES:
    for name, value in vars(_keras_module(module)).items():
      if (
        isinstance(value, types.FunctionType)
        and _is_of_keras(value)
        and name not in _NOT_FUNCTIONS
      ):
        found.setdefault(name, set()).update(("builtins", f"keras.{module}"))
  return {name: frozenset(places) for name, places in found.items()}


def _keras_module(name: str) -> object:
  return functools.reduce(getattr, name.split("."), tf.keras)


def _is_of_keras(value: object) -> bool:
  module = getattr(value, "__module__", "") or ""
  return module.partition(".")[0] == "keras"
