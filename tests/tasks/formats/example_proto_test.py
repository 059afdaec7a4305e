import numpy as np
import pytest
import tensorflow as tf

from tasks.formats import example_proto

_INTEGERS = [
  *(0, 1, 127, 128, 255, 256, 16383, 16384, 2**31, 2**35),
  *(2**63 - 1, -1, -128, -(2**63)),
]


def _by_tensorflow(features):
  feature = {}
  for name, given in features.items():
    value = [given] if isinstance(given, bytes) else given
    if isinstance(value, list):
      kind = {"bytes_list": tf.train.BytesList(value=value)}
    elif np.issubdtype(value.dtype, np.integer):
      kind = {"int64_list": tf.train.Int64List(value=value.ravel())}
    else:
      kind = {"float_list": tf.train.FloatList(value=value.ravel())}
    feature[name] = tf.train.Feature(**kind)
  return tf.train.Example(features=tf.train.Features(feature=feature))


_CASES = {
  "image": {
    "label": np.array([7]),
    "pixels": np.linspace(0, 1, 784, dtype=np.float32).reshape(28, 28),
  },
  "bytes as integers": {"image": np.arange(256, dtype=np.uint8)},
  "all sizes of integers": {"x": np.array(_INTEGERS, np.int64)},
  "scalar": {"y": np.array(300)},
  "text": {"text": "naïve\n".encode(), "long": b"x" * 100_000},
  "texts": {"x": [b"a", b"", b"ccc"]},
  "empty text": {"x": b""},
  "no features": {},
  "double": {"x": np.array([0.1, -1e30])},
  "long name": {"n" * 200: np.array([1, 2])},
}


@pytest.mark.parametrize("features", _CASES.values(), ids=_CASES)
class TestAgainstTensorFlow:
  def test_is_read_by_tensorflow(self, features):
    found = tf.train.Example.FromString(example_proto.serialize(features))
    assert found == _by_tensorflow(features)

  def test_reads_what_tensorflow_writes(self, features):
    serialized = _by_tensorflow(features).SerializeToString()
    found = example_proto.parse(serialized)
    assert found.keys() == features.keys()
    for name, value in features.items():
      if isinstance(value, np.ndarray):
        is_integer = np.issubdtype(value.dtype, np.integer)
        dtype = np.int64 if is_integer else np.float32
        assert found[name].dtype == dtype
        np.testing.assert_array_equal(found[name], value.ravel().astype(dtype))
      else:
        assert found[name] == (value if isinstance(value, list) else [value])


def test_equal_features_give_equal_bytes():
  a, b = b"1", np.array([2.0])
  assert example_proto.serialize({"a": a, "b": b}) == example_proto.serialize(
    {"b": b, "a": a}
  )


def test_empty_arrays_survive():
  features = {"i": np.zeros(0, np.int64), "f": np.zeros(0, np.float32)}
  found = example_proto.parse(example_proto.serialize(features))
  assert {name: len(value) for name, value in found.items()} == {"i": 0, "f": 0}


@pytest.mark.parametrize("value", [np.array(["a"]), np.array([True])])
def test_other_types_are_refused(value):
  with pytest.raises(TypeError, match="hold"):
    example_proto.serialize({"x": value})


def test_every_truncation_is_noticed():
  serialized = example_proto.serialize({"x": np.array([1, 2, 300])})
  for end in range(1, len(serialized)):
    with pytest.raises(ValueError, match=r"tf\.train\.Example"):
      example_proto.parse(serialized[:end])


@pytest.mark.parametrize(
  "junk",
  [
    *(b"\xff" * 20, b"\x08\x01", b"hello"),
    # A list of floats that has three bytes.
    b"\n\r\n\x0b\n\x00\x12\x07\x12\x05\n\x03abc",
  ],
)
def test_other_bytes_are_refused(junk):
  with pytest.raises(ValueError, match=r"tf\.train\.Example"):
    example_proto.parse(junk)
