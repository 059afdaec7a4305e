"""Draws random programs: sequences of intrinsics with random functions."""

# TFF takes the names of arguments from lambdas, which ruff would simplify.
#
# ruff: noqa: PLW0108

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tests.fuzz import values
from tests.runtime.side_by_side import Subject

_MOST_STEPS = 7


def subject(rng: random.Random) -> Subject:
  """Draws a program of one to three arguments."""
  dtypes = rng.choice(
    [values.DTYPES, [np.float32], [np.float32, np.int32], values.NUMBERS]
  )
  types = [_parameter(rng, dtypes) for _ in range(rng.randint(1, 3))]
  if not any(t.placement is tff.CLIENTS and not t.all_equal for t in types):
    types.append(
      tff.FederatedType(values.member_type(rng, dtypes), tff.CLIENTS)
    )
  comp = _Program(rng).traced(types)
  is_wild = rng.random() < 0.4

  def arguments(rng: random.Random, num_clients: int) -> list[Any]:
    return [_argument(rng, t, num_clients, is_wild) for t in types]

  return Subject(
    family=f"program{', wild' if is_wild else ''}",
    comp=comp,
    arguments=arguments,
  )


def _parameter(rng: random.Random, dtypes: Any) -> tff.FederatedType:
  placement = rng.choice([tff.CLIENTS, tff.CLIENTS, tff.SERVER])
  member = values.member_type(
    rng, dtypes, sequences=placement is tff.CLIENTS and rng.random() < 0.5
  )
  all_equal = placement is tff.SERVER or rng.random() < 0.07
  return tff.FederatedType(member, placement, all_equal)


def _argument(
  rng: random.Random,
  type_spec: tff.FederatedType,
  num_clients: int,
  is_wild: bool,
) -> Any:
  if type_spec.all_equal:
    return values.value(rng, type_spec.member, is_wild=is_wild)
  return [
    values.value(rng, type_spec.member, is_wild=is_wild)
    for _ in range(num_clients)
  ]


class _Program:
  """A program under construction."""

  def __init__(self, rng: random.Random) -> None:
    self._rng = rng
    self._pool: list[Any] = []

  def traced(self, types: list[tff.FederatedType]) -> tff.Computation:
    def program(*args: Any) -> Any:
      self._pool = [*args]
      for _ in range(self._rng.randint(1, _MOST_STEPS)):
        self._step()
      return self._result()

    return traced(program, *types)

  def _result(self) -> Any:
    at_server = self._of(tff.SERVER)
    # With a result at clients, a program is not one graph and has no parts.
    pool = at_server if at_server and self._rng.random() < 0.8 else self._pool
    chosen = [
      self._rng.choice(pool[-4:]) for _ in range(self._rng.randint(1, 3))
    ]
    # These names are not sorted, and one resembles an intrinsic's name.
    names = ["z", "a", "federated_x"]
    pairs = [*zip(names, chosen, strict=False)]
    return self._rng.choice(
      [
        lambda: chosen[0],
        lambda: tuple(chosen),
        lambda: collections.OrderedDict(pairs),
        lambda: values.Pair(chosen[0], chosen[-1]),
        lambda: values.Attributes(chosen[0], [chosen[-1]]),
      ]
    )()

  def _of(self, placement: Any) -> list[Any]:
    return [v for v in self._pool if v.type_signature.placement is placement]

  def _step(self) -> None:
    steps: list[Callable[[], Any]] = [self._value]
    if self._of(tff.CLIENTS):
      steps += [lambda: self._mapped(self._chosen(tff.CLIENTS))] * 3
      steps += [self._sum] * 4
    if self._of(tff.SERVER):
      steps += [lambda: self._mapped(self._chosen(tff.SERVER))] * 3
      steps += [self._broadcast] * 2
    self._pool.append(self._rng.choice(steps)())

  def _chosen(self, placement: Any) -> Any:
    """Returns one of the pool's values at `placement`, or a zip of several."""
    pool = self._of(placement)
    num = self._rng.choice([1, 1, 2, 3])
    if num == 1:
      return self._rng.choice(pool[-3:])
    return tff.federated_zip(tuple(self._rng.choice(pool) for _ in range(num)))

  def _mapped(self, value: Any) -> Any:
    applied = function(self._rng, value.type_signature.member)
    if self._rng.random() < 0.2:  # Put the map into an inner computation.

      @tff.federated_computation(value.type_signature)
      def inner(x: Any) -> Any:
        return tff.federated_map(applied, x)

      return inner(value)
    return tff.federated_map(applied, value)

  def _broadcast(self) -> Any:
    return tff.federated_broadcast(self._rng.choice(self._of(tff.SERVER)))

  def _value(self) -> Any:
    placement = self._rng.choice([tff.CLIENTS, tff.SERVER])
    if self._rng.random() < 0.5:
      number = self._rng.choice(
        [np.float32(2.5), np.int32(3), np.str_("v"), np.bool_(True)]
      )
      return tff.federated_value(number, placement)
    return tff.federated_eval(constant(self._rng), placement)

  def _sum(self) -> Any:
    value = self._chosen(tff.CLIENTS)
    if not _is_of_tensors(value.type_signature.member):
      value = self._mapped(value)
    kinds: list[Callable[[Any], Any]] = [
      *[tff.federated_sum] * 4,
      tff.federated_mean,
      tff.federated_min,
      tff.federated_max,
      self._aggregate,
      self._aggregate,
      self._weighted_mean,
    ]
    for kind in self._rng.sample(kinds, len(kinds)):
      try:
        return kind(value)
      except (TypeError, ValueError, NotImplementedError):
        continue
    return self._aggregate(value)

  def _weighted_mean(self, value: Any) -> Any:
    weights = tff.federated_map(weight(value), value)
    return tff.federated_mean(value, weights)

  def _aggregate(self, value: Any) -> Any:
    return tff.federated_aggregate(
      value, *aggregation(self._rng, value.type_signature.member)
    )


def traced(body: Callable[..., Any], *types: Any) -> tff.Computation:
  """Returns `body` as a federated computation of arguments named a, b, c, d."""
  functions: Sequence[Callable[..., Any]] = (
    lambda: body(),
    lambda a: body(a),
    lambda a, b: body(a, b),
    lambda a, b, c: body(a, b, c),
    lambda a, b, c, d: body(a, b, c, d),
  )
  return tff.federated_computation(functions[len(types)], *types)


def _is_of_tensors(member: tff.Type) -> bool:
  has_tensors = tff.types.contains(
    member, lambda t: isinstance(t, tff.TensorType)
  )
  return has_tensors and not tff.types.contains(
    member, lambda t: isinstance(t, tff.SequenceType)
  )


# Random functions in TensorFlow.

_CONSTANTS = (0.0, 1.0, -1.0, 3.0, 0.1, 7.0, np.nan, np.inf, 1e-3)


def function(rng: random.Random, parameter: tff.Type) -> tff.Computation:
  """Draws a function of values of the type `parameter`."""

  @tff.tensorflow.computation(parameter)
  def apply(value: Any) -> Any:
    results = [_changed(rng, leaf) for leaf in _leaves(value)]
    results += _combined(rng, results)
    if not results:
      results = [tf.constant(1.0)]
    rng.shuffle(results)
    return _structure(rng, results)

  return apply


def constant(rng: random.Random) -> tff.Computation:
  """Draws a function without an argument."""
  number = rng.choice([np.float32(0.3), np.int32(4), np.float64(-1)])

  @tff.tensorflow.computation
  def make() -> Any:
    made = tf.constant(number)
    return _structure(rng, [made, _changed(rng, made)])

  return make


def weight(value: Any) -> tff.Computation:
  """Returns a function from a value to a weight: the sum of a tensor in it."""

  @tff.tensorflow.computation(value.type_signature.member)
  def weigh(x: Any) -> Any:
    leaf = _leaves(x)[0]
    if leaf.dtype == tf.string:
      leaf = tf.strings.length(leaf)
    if leaf.dtype.is_complex:
      leaf = tf.math.real(leaf)
    return tf.cast(tf.reduce_sum(tf.cast(leaf, tf.float64)), tf.float32)

  return weigh


def aggregation(
  rng: random.Random, member: tff.Type
) -> tuple[Any, tff.Computation, tff.Computation, tff.Computation]:
  """Draws the arguments of `federated_aggregate` for values of a type.

  Merging agrees with accumulating, and the zero changes no result.
  """
  kind = rng.choice(["sum", "max", "count"])
  accumulator: Any = collections.OrderedDict(total=np.float32, num=np.int32)
  zero = collections.OrderedDict(
    total=np.float32(-np.inf if kind == "max" else 0), num=np.int32(0)
  )
  combine = tf.maximum if kind == "max" else tf.add

  @tff.tensorflow.computation(accumulator, member)
  def accumulate(total: Any, value: Any) -> Any:
    number = tf.constant(0.0)
    for leaf in _leaves(value):
      if kind != "count":
        number += tf.reduce_sum(_as_float(leaf))
    return collections.OrderedDict(
      total=combine(total["total"], number), num=total["num"] + 1
    )

  @tff.tensorflow.computation(accumulator, accumulator)
  def merge(one: Any, other: Any) -> Any:
    return collections.OrderedDict(
      total=combine(one["total"], other["total"]), num=one["num"] + other["num"]
    )

  @tff.tensorflow.computation(accumulator)
  def report(total: Any) -> Any:
    return rng.choice([total, total["total"], (total["num"],)])

  return zero, accumulate, merge, report


def _leaves(value: Any) -> list[Any]:
  """Returns a value's tensors; a dataset gives its size and a sum."""
  if isinstance(value, tf.data.Dataset):
    return _of_dataset(value)
  if tf.is_tensor(value):
    return [value]
  return [
    leaf
    for member in tff.structure.from_container(value)
    for leaf in _leaves(member)
  ]


def _of_dataset(data: tf.data.Dataset) -> list[tf.Tensor]:
  """Returns a dataset's number of elements, and a sum that a loop computes."""

  @tf.function
  def summed(data: tf.data.Dataset) -> Any:
    total, num = tf.constant(0.0), tf.constant(0)
    for element in data:
      num += 1
      for leaf in tf.nest.flatten(element):
        # Weighted, so that the order of the elements counts, too.
        total += tf.cast(num, tf.float32) * tf.reduce_sum(_as_float(leaf))
    return total, num

  return [*summed(data)]


def _as_float(leaf: tf.Tensor) -> tf.Tensor:
  if leaf.dtype == tf.string:
    leaf = tf.strings.length(leaf)
  if leaf.dtype.is_complex:
    leaf = tf.math.real(leaf)
  return tf.cast(leaf, tf.float32)


def _structure(rng: random.Random, results: list[Any]) -> Any:
  one, *_ = results
  return rng.choice(
    [
      lambda: one,
      lambda: one,
      lambda: tuple(results),
      lambda: [*results],
      lambda: {"only": one},
      lambda: collections.OrderedDict(
        (f"k{9 - i}", x) for i, x in enumerate(results)
      ),
      lambda: values.Pair(one, (results[-1],)),
      lambda: values.Attributes({"x": one}, results[-1]),
    ]
  )()


def _changed(rng: random.Random, leaf: tf.Tensor) -> tf.Tensor:
  for _ in range(rng.choice([0, 1, 1, 2])):
    leaf = rng.choice(_changes(leaf.dtype))(rng, leaf)
  return leaf


_Change = Callable[[random.Random, tf.Tensor], tf.Tensor]


def _changes(dtype: tf.DType) -> Sequence[_Change]:
  if dtype == tf.string:
    return _OF_TEXTS
  if dtype == tf.bool:
    return _OF_BOOLS
  if dtype.is_integer:
    return _OF_INTEGERS
  if dtype.is_complex:
    return _OF_COMPLEX
  return _OF_FLOATS


def _number(rng: random.Random, like: tf.Tensor) -> tf.Tensor:
  return tf.constant(rng.choice(_CONSTANTS), like.dtype)


def _small(rng: random.Random, like: tf.Tensor) -> tf.Tensor:
  return tf.constant(rng.choice([0, 1, 2, 3, 5]), like.dtype)


def _in_function(x: tf.Tensor) -> tf.Tensor:
  return tf.function(lambda y: y + y)(x)


def _conditional(x: tf.Tensor) -> tf.Tensor:
  positive = tf.reduce_sum(_as_float(x)) > 0
  return tf.cond(positive, lambda: x + x, lambda: x - x)


def _looped(x: tf.Tensor) -> tf.Tensor:
  body = lambda i, y: (i + 1, y + x)  # noqa: E731
  return tf.while_loop(lambda i, _: i < 3, body, (tf.constant(0), x))[1]


def _checked(rng: random.Random, x: tf.Tensor) -> tf.Tensor:
  # Some clients exceed the limit, and others do not.
  limit = rng.choice([50.0, 7.0])
  with tf.control_dependencies(
    [tf.debugging.assert_less(tf.reduce_max(_as_float(x)), limit)]
  ):
    return tf.identity(x)


_OF_TEXTS: Sequence[_Change] = (
  lambda _, x: tf.strings.join([x, "!"]),
  lambda _, x: tf.strings.length(x),
  lambda _, x: tf.strings.substr(x, 0, 0),
  lambda _, x: x,
)
_OF_BOOLS: Sequence[_Change] = (
  lambda _, x: tf.logical_not(x),
  lambda _, x: tf.cast(x, tf.int32),
  lambda _, x: tf.cast(x, tf.float32),
)
_OF_BOTH: Sequence[_Change] = (
  lambda _, x: x,
  lambda _, x: -x if x.dtype not in (tf.uint8, tf.uint16) else x,
  lambda _, x: x - x,
  lambda _, x: x * x,
  lambda _, x: tf.reduce_sum(x),
  lambda _, x: tf.zeros_like(x) * x,
  lambda _, x: _in_function(x),
  lambda _, x: _conditional(x),
  lambda _, x: _looped(x),
  lambda _, x: tf.stack([x, x]),
)
_OF_INTEGERS: Sequence[_Change] = (
  *_OF_BOTH,
  lambda rng, x: x + _small(rng, x),
  lambda rng, x: x * _small(rng, x),
  lambda rng, x: x // _small(rng, x) if rng.random() < 0.3 else x,
  _checked,
  lambda _, x: tf.cast(x, tf.float32),
)
_OF_COMPLEX: Sequence[_Change] = (
  *_OF_BOTH,
  lambda rng, x: x * _small(rng, x),
  lambda _, x: tf.math.real(x),
  lambda _, x: tf.math.conj(x),
  lambda _, x: tf.abs(x),
)
_OF_FLOATS: Sequence[_Change] = (
  *_OF_BOTH,
  lambda rng, x: x * _number(rng, x),
  lambda rng, x: x + _number(rng, x),
  lambda rng, x: x / _number(rng, x),
  lambda rng, x: _number(rng, x) - x,
  lambda rng, x: x + (_number(rng, x) + _number(rng, x)),
  lambda rng, x: x * _number(rng, x) * _number(rng, x),
  lambda rng, x: tf.maximum(x, _number(rng, x)),
  lambda _, x: tf.abs(x),
  _checked,
  lambda _, x: tf.cast(x, tf.float64),
  lambda _, x: tf.cast(x, tf.float32),
)


def _combined(
  rng: random.Random, leaves: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
  """Returns combinations of two of the tensors `leaves`."""
  pairs = [
    (x, y)
    for x in leaves
    for y in leaves
    if x.dtype == y.dtype
    and x.dtype not in (tf.string, tf.bool)
    and x.shape.is_fully_defined()
    and x.shape == y.shape
  ]
  found = []
  for x, y in rng.sample(pairs, min(2, len(pairs))):
    c = _small(rng, x)
    ways: list[Callable[[Any, Any, Any], Any]] = [
      lambda x, y, _: x + y,
      lambda x, y, _: x * y,
      lambda x, y, _: x - y,
      lambda x, y, c: x + (y + c),
      lambda x, y, c: x * c + y * c,
      lambda x, _, c: (x * c) / c if x.dtype.is_floating else x - c,
    ]
    found.append(rng.choice(ways)(x, y, c))
  return found
