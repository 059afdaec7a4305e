"""`tf.train.Example` as bytes, written and read without TensorFlow.

The wire format of protocol buffers
(https://protobuf.dev/programming-guides/encoding) for the messages of
tensorflow/core/example/feature.proto. Unlike TensorFlow's own serialization,
equal features give equal bytes: names are sorted.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

# Bytes make a bytes_list, integers an int64_list, floats a float_list.
Value = bytes | Sequence[bytes] | np.ndarray

_LENGTH_DELIMITED = 2  # The wire type of all fields that occur.
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3
_MAX_VARINT_BYTES = 10
# Most keys and sizes; looked up, for texts make millions of them.
_SMALL_VARINTS = [bytes([value]) for value in range(0x80)]


def serialize(features: Mapping[str, Value]) -> bytes:
  """Returns a serialized `tf.train.Example`.

  Args:
    features: Values by name: bytes, a sequence of bytes, or an array of
      integers or of floats, which is flattened.

  Raises:
    TypeError: If an array holds anything else.
  """
  entries = (
    _field(1, _field(1, name.encode()) + _field(2, _feature(features[name])))
    for name in sorted(features)
  )
  return _field(1, b"".join(entries))


def parse(serialized: bytes) -> dict[str, list[bytes] | np.ndarray]:
  """Returns the features of a serialized `tf.train.Example`.

  Args:
    serialized: A serialized example.

  Returns:
    Values by name: a list of bytes, float32[n] or int64[n].

  Raises:
    ValueError: If the bytes are no serialized example.
  """
  features: dict[str, list[bytes] | np.ndarray] = {}
  for number, message in _fields(memoryview(serialized)):
    if number != 1:
      continue
    for _, entry in _fields(message):
      pair = dict(_fields(entry))
      if 1 in pair and 2 in pair:
        features[bytes(pair[1]).decode()] = _values(pair[2])
  return features


def _feature(value: Value) -> bytes:
  if isinstance(value, bytes):
    value = [value]
  if not isinstance(value, np.ndarray):
    return _field(_BYTES_LIST, b"".join(_field(1, item) for item in value))
  if np.issubdtype(value.dtype, np.integer):
    return _field(_INT64_LIST, _field(1, _varints(value)))
  if np.issubdtype(value.dtype, np.floating):
    return _field(_FLOAT_LIST, _field(1, value.astype("<f4").tobytes()))
  raise TypeError(f"A feature cannot hold {value.dtype}.")


def _field(number: int, content: bytes) -> bytes:
  size = len(content)
  key = _SMALL_VARINTS[number << 3 | _LENGTH_DELIMITED]
  return (
    key + (_SMALL_VARINTS[size] if size < 0x80 else _varint(size)) + content
  )


def _varint(value: int) -> bytes:
  groups = bytearray()
  while value > 0x7F:
    groups.append(value & 0x7F | 0x80)
    value >>= 7
  groups.append(value)
  return bytes(groups)


def _varints(values: np.ndarray) -> bytes:
  """Encodes all integers at once: an image has thousands of them."""
  unsigned = values.reshape(-1).astype(np.int64).view(np.uint64)
  if not unsigned.size or unsigned.max() < 0x80:
    return unsigned.astype(np.uint8).tobytes()
  shifts = np.arange(0, 7 * _MAX_VARINT_BYTES, 7, dtype=np.uint64)
  rest = unsigned[:, np.newaxis] >> shifts
  # A byte is written if anything is left; the first one always is.
  is_written = rest > 0
  is_written[:, 0] = True
  continues = np.zeros_like(is_written)
  continues[:, :-1] = is_written[:, 1:]
  groups = (rest & np.uint64(0x7F)).astype(np.uint8)
  groups[continues] |= 0x80
  return groups[is_written].tobytes()


def _values(feature: memoryview) -> list[bytes] | np.ndarray:
  for kind, content in _fields(feature):
    items = [item for number, item in _fields(content) if number == 1]
    if kind == _BYTES_LIST:
      return [bytes(item) for item in items]
    packed = b"".join(items)
    if kind == _FLOAT_LIST:
      return np.frombuffer(packed, "<f4")
    if kind == _INT64_LIST:
      return _decode_varints(packed)
  return []


def _decode_varints(packed: bytes) -> np.ndarray:
  groups = np.frombuffer(packed, np.uint8)
  ends = np.flatnonzero(groups < 0x80)
  if not ends.size:
    return np.zeros(0, np.int64)
  starts = np.concatenate([[0], ends[:-1] + 1])
  places = np.arange(len(groups)) - np.repeat(starts, ends - starts + 1)
  shifted = (groups & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
  return np.bitwise_or.reduceat(shifted, starts).view(np.int64)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
  """Yields number and content of the length-delimited fields of a message."""
  place = 0
  while place < len(message):
    key, place = _read_varint(message, place)
    if key & 7 != _LENGTH_DELIMITED:
      raise ValueError("not a serialized tf.train.Example")
    length, place = _read_varint(message, place)
    if place + length > len(message):
      raise ValueError("a truncated tf.train.Example")
    yield key >> 3, message[place : place + length]
    place += length


def _read_varint(message: memoryview, place: int) -> tuple[int, int]:
  value = shift = 0
  for group in message[place : place + _MAX_VARINT_BYTES]:
    place += 1
    value |= (group & 0x7F) << shift
    if group < 0x80:
      return value, place
    shift += 7
  raise ValueError("a truncated tf.train.Example")
