"""Reads and writes serialized `tf.train.Example`s without TensorFlow.

Implements tensorflow/core/example/feature.proto with the protobuf library.
Unlike in TensorFlow's own serialization, names are sorted, so equal features
give equal bytes.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import (
  descriptor_pb2,
  descriptor_pool,
  message,
  message_factory,
)

# Bytes become a bytes_list, integers an int64_list, floats a float_list.
Value = bytes | Sequence[bytes] | np.ndarray

_PACKAGE = "tff_fair.example"
_Field = descriptor_pb2.FieldDescriptorProto
_ONE, _MANY = _Field.LABEL_OPTIONAL, _Field.LABEL_REPEATED
# The fields of each message in the order of their numbers: name, type, label.
_MESSAGES: Mapping[str, Sequence[tuple[str, int | str, int]]] = {
  "BytesList": [("value", _Field.TYPE_BYTES, _MANY)],
  # The bytes of packed floats, which NumPy reads and writes directly.
  "FloatList": [("value", _Field.TYPE_BYTES, _ONE)],
  "Int64List": [("value", _Field.TYPE_INT64, _MANY)],
  "Feature": [
    ("bytes_list", "BytesList", _ONE),
    ("float_list", "FloatList", _ONE),
    ("int64_list", "Int64List", _ONE),
  ],
  # TensorFlow declares a map, which is encoded in the same way.
  "Entry": [("key", _Field.TYPE_STRING, _ONE), ("value", "Feature", _ONE)],
  "Features": [("feature", "Entry", _MANY)],
  "Example": [("features", "Features", _ONE)],
}


def serialize(features: Mapping[str, Value]) -> bytes:
  """Returns a serialized `tf.train.Example`."""
  example = _example_class()()
  example.features.SetInParent()
  for name in sorted(features):
    entry = example.features.feature.add(key=name)
    _write(entry.value, features[name])
  return example.SerializeToString()


def parse(serialized: bytes) -> dict[str, list[bytes] | np.ndarray]:
  """Returns features by name, each a list of bytes, float32[n] or int64[n]."""
  example = _example_class()()
  try:
    example.ParseFromString(serialized)
    if serialized and not example.HasField("features"):
      raise ValueError("no features")
    return {entry.key: _read(entry.value) for entry in example.features.feature}
  except (message.DecodeError, ValueError) as error:
    raise ValueError(f"not a serialized tf.train.Example: {error}") from error


def _write(feature: Any, value: Value) -> None:
  if isinstance(value, bytes):
    value = [value]
  if not isinstance(value, np.ndarray):
    feature.bytes_list.SetInParent()
    feature.bytes_list.value.extend(value)
  elif np.issubdtype(value.dtype, np.integer):
    feature.int64_list.SetInParent()
    feature.int64_list.value.extend(value.ravel().tolist())
  elif np.issubdtype(value.dtype, np.floating):
    # A number too large for float32 becomes infinite.
    with np.errstate(over="ignore"):
      feature.float_list.value = value.astype("<f4").tobytes()
  else:
    raise TypeError(f"A feature cannot hold {value.dtype}.")


def _read(feature: Any) -> list[bytes] | np.ndarray:
  if feature.HasField("float_list"):
    return np.frombuffer(feature.float_list.value, "<f4")
  if feature.HasField("int64_list"):
    return np.array(feature.int64_list.value, np.int64)
  return list(feature.bytes_list.value)


@functools.cache
def _example_class() -> Any:
  file = descriptor_pb2.FileDescriptorProto(
    name="tff_fair/example.proto", package=_PACKAGE
  )
  for name, fields in _MESSAGES.items():
    described = file.message_type.add(name=name)
    for number, (field, kind, label) in enumerate(fields, start=1):
      added = described.field.add(name=field, number=number, label=label)
      if isinstance(kind, str):
        added.type = _Field.TYPE_MESSAGE
        added.type_name = f".{_PACKAGE}.{kind}"
      else:
        added.type = kind
        added.options.packed = kind != _Field.TYPE_BYTES and label == _MANY
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  return message_factory.GetMessageClass(
    pool.FindMessageTypeByName(f"{_PACKAGE}.Example")
  )
