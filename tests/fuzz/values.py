"""Draws random types, and random values in all the forms that users give."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import attrs
import ml_dtypes
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

NUMBERS = (
  *(np.int8, np.int16, np.int32, np.int64),
  *(np.uint8, np.uint16, np.uint32, np.uint64, np.float32, np.float32),
  *(np.float64, np.float16, ml_dtypes.bfloat16, np.complex64, np.complex128),
)
DTYPES = (np.bool_, np.str_, *NUMBERS)
_SHAPES = ((), (), (), (3,), (2, 2), (None,), (0,), (1, None))
_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 0.1)
_TEXTS = (b"", b"a", b"text", b"\xc3\xa9", b"much longer than others", b"z ")


class Pair(NamedTuple):
  """A named tuple in a type."""

  first: Any
  second: Any


@attrs.define
class Attributes:
  """An attrs class in a type."""

  left: Any
  right: Any


def member_type(
  rng: random.Random,
  dtypes: Sequence[Any] = DTYPES,
  *,
  depth: int = 2,
  sequences: bool = False,
) -> tff.Type:
  """Draws a type without placements."""
  kind = rng.random()
  if sequences and kind < 0.25:
    if rng.random() < 0.5:
      shape = rng.choice([(), (), (2,), (None,)])
      return tff.SequenceType(tff.TensorType(rng.choice(dtypes), shape))
    row = collections.OrderedDict(
      x=tff.TensorType(rng.choice(dtypes), ()),
      y=tff.TensorType(rng.choice(dtypes), (2,)),
    )
    return tff.SequenceType(row)
  if depth == 0 or kind < 0.6:
    return tff.TensorType(rng.choice(dtypes), rng.choice(_SHAPES))

  def part() -> tff.Type:
    return member_type(rng, dtypes, depth=depth - 1, sequences=sequences)

  containers = [
    lambda: collections.OrderedDict(b=part(), a=part()),
    lambda: {"a": part()},
    lambda: (part(),),
    lambda: [part(), part()],
    lambda: (),
    lambda: Pair(part(), part()),
    lambda: Attributes(part(), part()),
    # TFF's own context refuses a name like that of a secure sum.
    lambda: collections.OrderedDict(federated_secure_sum_x=part()),
  ]
  weights = [3, 2, 2, 2, 1, 2, 2, 0.3]
  return tff.to_type(rng.choices(containers, weights)[0]())


def value(
  rng: random.Random, type_spec: tff.Type, *, is_wild: bool = False
) -> Any:
  """Draws a value of a type; a wild value has any form, and perhaps NaN."""
  if isinstance(type_spec, tff.types.StructWithPythonType):
    members = [value(rng, part, is_wild=is_wild) for part in type_spec]
    container = type_spec.python_container
    if container in (list, tuple):
      return container(members)
    if container in (Pair, Attributes):
      return container(*members)
    names = tff.structure.name_list(type_spec)
    return container(zip(names, members, strict=True))
  if isinstance(type_spec, tff.SequenceType):
    return sequence(rng, type_spec.element, is_wild=is_wild)
  array = numbers(rng, type_spec, is_wild=is_wild)
  if not is_wild or rng.random() > 0.3:
    return array
  with np.errstate(all="ignore"):
    return rng.choice(_FORMS)(array)


def numbers(
  rng: random.Random, type_spec: tff.TensorType, *, is_wild: bool = False
) -> np.ndarray:
  """Draws an array of small integers, so that their sums do not round.

  A wild array of floats may also have a special value, such as NaN.
  """
  shape = [
    rng.choice([0, 1, 2, 3]) if size is None else size
    for size in type_spec.shape
  ]
  draws = np.random.default_rng(rng.getrandbits(32))
  dtype = np.dtype(type_spec.dtype)
  if type_spec.dtype is np.str_:
    array = np.empty(shape, object)
    array[...] = np.array(_TEXTS, object)[draws.choice(len(_TEXTS), shape)]
    return array
  if dtype.kind == "b":
    return np.asarray(draws.integers(0, 2, shape), np.bool_)
  if dtype.kind == "u":
    return np.asarray(draws.integers(0, 9, shape)).astype(dtype)
  array = np.asarray(draws.integers(-8, 9, shape)).astype(dtype)
  if dtype.kind == "c":
    array = array + dtype.type(1j) * draws.integers(-3, 4, shape).astype(dtype)
    array = np.asarray(array, dtype)
  if is_wild and array.size and dtype.kind not in "iub" and rng.random() < 0.3:
    array = array.copy()
    array.reshape(-1)[rng.randrange(array.size)] = rng.choice(_SPECIAL)
  return array


def _masked(array: np.ndarray) -> Any:
  mask = np.zeros(array.shape, bool)
  mask.reshape(-1)[::2] = True
  return np.ma.masked_array(array, mask)


def _strided(array: np.ndarray) -> np.ndarray:
  if not array.ndim:
    return np.stack([array, array])[1]
  return np.repeat(array, 2, axis=0)[::2]


def _unicode(array: np.ndarray) -> np.ndarray:
  if array.dtype != object:
    return array
  return np.char.decode(array.astype("S"), "utf8").astype(np.str_)


class _Subclass(np.ndarray):
  """A subclass of NumPy's array class."""


def _read_only(array: np.ndarray) -> np.ndarray:
  array = array.copy()
  array.flags.writeable = False
  return array


# Forms in which TFF accepts an array.
_FORMS: Sequence[Callable[[np.ndarray], Any]] = (
  lambda array: array[()],  # A scalar, of no dimensions.
  lambda array: array.tolist(),  # Python numbers, or lists of them.
  lambda array: array.astype(array.dtype.newbyteorder(">")),
  _strided,
  lambda array: array[::-1] if array.ndim else array,
  np.asfortranarray,
  _masked,
  lambda array: array.astype("S") if array.dtype == object else array,
  _unicode,
  lambda array: _unicode(array).astype(object) if array.dtype == "O" else array,
  tf.constant,
  lambda array: array.view(_Subclass),
  _read_only,
)


def sequence(
  rng: random.Random, element: tff.Type, *, is_wild: bool = False
) -> Any:
  """Draws a dataset or a list, whose elements are of the type `element`."""
  num = rng.choice([0, 1, 2, 3, 5])
  is_tensor = isinstance(element, tff.TensorType)
  if is_tensor:
    rows: list[Any] = [numbers(rng, element) for _ in range(num)]
    specs: Any = _spec(element)
  else:
    parts = tff.structure.to_elements(element)
    rows = [
      collections.OrderedDict((name, numbers(rng, t)) for name, t in parts)
      for _ in range(num)
    ]
    specs = collections.OrderedDict((name, _spec(t)) for name, t in parts)
  if num and is_wild and rng.random() < 0.3:
    return rows
  if num and not (is_tensor and None in element.shape):
    data = tf.data.Dataset.from_tensor_slices(
      tf.nest.map_structure(lambda *x: tf.stack(x), *rows)
    )
    for change in rng.choices(_CHANGES, k=rng.choice([0, 0, 1, 2, 3])):
      data = change(data)
    return data
  return tf.data.Dataset.from_tensor_slices(
    tf.nest.map_structure(
      lambda s: tf.zeros([0, *(n or 0 for n in s.shape)], s.dtype), specs
    )
  )


def _spec(tensor: tff.TensorType) -> tf.TensorSpec:
  dtype = tf.string if tensor.dtype is np.str_ else tensor.dtype
  return tf.TensorSpec(tensor.shape, dtype)


# Shuffles give the same order in each iteration: a program may return the
# dataset, and the comparison iterates over it again.
_CHANGES: Sequence[Callable[[tf.data.Dataset], tf.data.Dataset]] = (
  lambda d: d.shuffle(4, seed=3, reshuffle_each_iteration=False),
  lambda d: d.cache(),
  lambda d: d.repeat(2),
  lambda d: d.take(2),
  lambda d: d.skip(1),
  lambda d: d.map(lambda x: x),
  lambda d: d.batch(2).unbatch(),
  lambda d: d.prefetch(1),
  lambda d: d.concatenate(d),
  lambda d: d.filter(lambda *_: True),
  lambda d: d.enumerate().map(lambda _, x: x),
  lambda d: d.interleave(tf.data.Dataset.from_tensors, cycle_length=2),
)
