"""Iterates over a client's examples, batch by batch, inside a computation.

An element of a client's data is `(client_id, examples)`. Slicing whole arrays
in a `tf.while_loop` takes far less time than a `tf.data` pipeline of batches.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works.tracing import graph_function
from tff_fair.types import TensorStructure

# A batch of examples: `(x, y)`, or a mapping with the keys "x" and "y".
Batch: TypeAlias = tuple[tf.Tensor, tf.Tensor] | Mapping[str, tf.Tensor]
# An element of a client's data: the client's id, int64[], and examples.
Element: TypeAlias = tuple[tf.Tensor, Batch]

_Carry = TypeVar("_Carry")
_Examples = TypeVar("_Examples")


def data_type(batch_spec: TensorStructure) -> tff.SequenceType:
  """Returns the type of a client's data for a model's `input_spec`."""
  client_id = tf.TensorSpec([], tf.int64)
  return tff.SequenceType(tff.types.tensorflow_to_type((client_id, batch_spec)))


class ClientData:
  """A client's dataset inside a `tf.function`.

  If the dataset has exactly one element, the element is read once, and every
  pass gets it as tensors. Reading it again for each pass, or through an
  iterator, would take longer than a forward pass of a small model.
  """

  def __init__(self, data: tf.data.Dataset) -> None:
    """Reads the dataset's element if there is only one."""
    self._data = data
    self._is_single = tf.equal(data.cardinality(), 1)
    self._single = tf.cond(
      self._is_single,
      data.get_single_element,
      lambda: tf.nest.map_structure(_zeros, data.element_spec),
    )

  def reduce(
    self,
    carry: _Carry,
    step: Callable[[_Carry, Element], _Carry],
    epochs: int | tf.Tensor = 1,
  ) -> _Carry:
    """Folds `step` over all elements, `epochs` times, starting from `carry`."""
    traced_step = graph_function(step)

    def over_single() -> _Carry:
      if not tf.is_tensor(epochs) and epochs == 1:
        return traced_step(carry, self._single)
      last = tf.cast(epochs, tf.int64)
      return tf.while_loop(
        lambda epoch, _: epoch < last,
        lambda epoch, carry: (epoch + 1, traced_step(carry, self._single)),
        (tf.zeros([], tf.int64), carry),
        parallel_iterations=1,
      )[1]

    return tf.cond(
      self._is_single,
      over_single,
      lambda: _reduce_iterated(
        self._data.repeat(epochs),
        carry,
        traced_step,
      ),
    )

  def reduce_while(
    self,
    carry: _Carry,
    step: Callable[[_Carry, Element], _Carry],
    work_left: Callable[[_Carry], tf.Tensor],
  ) -> _Carry:
    """Folds `step` over all elements repeatedly while work is left.

    `work_left` maps the carry to the remaining work, int64[]. The loop also
    ends after a pass that does not reduce the remaining work, which happens if
    there are no data.
    """

    def run_over(before: tf.Tensor, carry: _Carry) -> tuple[tf.Tensor, _Carry]:
      del before
      return work_left(carry), self.reduce(carry, step)

    return tf.while_loop(
      lambda before, carry: (
        (work_left(carry) > 0) & (work_left(carry) < before)
      ),
      run_over,
      (work_left(carry) + 1, carry),
      parallel_iterations=1,
    )[1]

  def num_rows(self) -> tf.Tensor:
    """Returns the number of examples in all elements together, int64[]."""
    return self.reduce(
      tf.zeros([], tf.int64),
      lambda number, element: (
        number + tf.cast(num_examples(element[1]), tf.int64)
      ),
    )

  def client_id(self) -> tf.Tensor:
    """Returns the client's id, int64[]; 0 without elements."""
    return tf.cond(
      self._is_single,
      lambda: self._single[0],
      lambda: _reduce_iterated(
        self._data.take(1), tf.zeros([], tf.int64), lambda _, e: e[0]
      ),
    )


@graph_function
def client_id(data: tf.data.Dataset) -> tf.Tensor:
  """Returns a client's id from its data, int64[]; 0 without elements."""
  return ClientData(data.take(1)).client_id()


def client_id_of(value: Any) -> int:
  """Returns a client's id as a Python integer; works only outside of graphs.

  `value` is the client's data: a dataset, a list of elements, or an object with
  the attribute `client_id`; without elements, the id is 0.
  """
  if isinstance(known := getattr(value, "client_id", None), int):
    return known
  if isinstance(value, tf.data.Dataset):
    return int(client_id(value))
  return int(value[0][0]) if len(value) else 0


def _reduce_iterated(
  data: tf.data.Dataset,
  carry: _Carry,
  step: Callable[[_Carry, Element], _Carry],
) -> _Carry:
  # `data.reduce` would run the steps in tf.data's own executor, which takes
  # three times as long.
  iterator = iter(data)

  def step_and_next(
    element: tf.experimental.Optional, carry: _Carry
  ) -> tuple[tf.experimental.Optional, _Carry]:
    carry = step(carry, element.get_value())
    return iterator.get_next_as_optional(), carry

  return tf.while_loop(
    lambda element, _: element.has_value(),
    step_and_next,
    (iterator.get_next_as_optional(), carry),
    # Steps read and write variables, so they must run in order.
    parallel_iterations=1,
  )[1]


def _zeros(spec: tf.TensorSpec) -> tf.Tensor:
  """Returns a tensor of zeros for a spec; unknown dimensions have size 0."""
  return tf.zeros([size or 0 for size in spec.shape], spec.dtype)


def num_examples(examples: object) -> tf.Tensor:
  """Returns the number of examples, int32[]: the size of the first axis."""
  return tf.shape(tf.nest.flatten(examples)[0])[0]


def labels(batch: Batch) -> tf.Tensor:
  """Returns y, the labels of a batch."""
  return batch["y"] if isinstance(batch, Mapping) else batch[1]


def reduce_slices(
  examples: _Examples,
  batch_size: int | None,
  carry: _Carry,
  step: Callable[[_Carry, _Examples], _Carry],
  order: tf.Tensor | None = None,
  is_wanted: Callable[[_Carry], tf.Tensor] | None = None,
) -> _Carry:
  """Folds `step` over the minibatches of `examples`, tensors [n, ...].

  The last minibatch may be smaller; `batch_size=None` makes one minibatch of
  all examples. `order`, int32[n], permutes the examples. `is_wanted` maps the
  carry to bool[]: whether to take another step; `None` takes all steps.
  """
  if batch_size is None:
    if is_wanted is None:
      return step(carry, examples)
    return tf.cond(
      is_wanted(carry), lambda: step(carry, examples), lambda: carry
    )
  size = num_examples(examples)
  batch_size = min(batch_size, tf.int32.max)  # Indices of examples are int32.

  def slice_and_step(
    start: tf.Tensor, carry: _Carry
  ) -> tuple[tf.Tensor, _Carry]:
    stop = tf.minimum(start + batch_size, size)
    if order is None:
      batch = tf.nest.map_structure(lambda x: x[start:stop], examples)
    else:
      places = order[start:stop]
      batch = tf.nest.map_structure(lambda x: tf.gather(x, places), examples)
    return stop, step(carry, batch)

  def goes_on(start: tf.Tensor, carry: _Carry) -> tf.Tensor:
    if is_wanted is None:
      return start < size
    return (start < size) & is_wanted(carry)

  return tf.while_loop(
    goes_on,
    slice_and_step,
    (tf.constant(0), carry),
    parallel_iterations=1,
  )[1]
