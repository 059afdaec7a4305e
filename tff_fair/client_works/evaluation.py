"""Evaluates a model on a client's examples, in inference mode."""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import tensorflow as tf

from tff_fair.client_works import (
  batches,
  local_model,
  output_ranges,
  score_sums,
  tally as tallies,
)
from tff_fair.kernels import norms

# One forward pass takes all examples of most clients, and the activations of a
# convolutional network still fit into memory.
EVALUATION_BATCH_SIZE = 512


_Carry = TypeVar("_Carry")
# The tally and the sum of the gradients so far.
_TallyWithGradient: TypeAlias = tuple[tallies.Tally, local_model.Trainable]
_TallyWithSums: TypeAlias = tuple[
  tallies.Tally, score_sums.Sums, output_ranges.Ranges
]


class Evaluation(NamedTuple):
  """The scores of a model on a client's examples."""

  client_id: tf.Tensor  # int64[]; 0 without examples.
  num_examples: tf.Tensor  # int64[].
  loss: tf.Tensor  # float32[], mean over examples; 0 without examples.
  accuracy: tf.Tensor  # float32[], see `tally.accuracy`; may be NaN.


def evaluate(
  model: local_model.LocalModel,
  trainable: local_model.Trainable,
  data: batches.ClientData,
  batch_size: int | None,
) -> Evaluation:
  """Evaluates a model on a client's data, inside a `tf.function`.

  A forward pass takes at most `batch_size` examples; with `None`, it takes all
  examples of one element of the data.
  """
  client_id, tally = _reduce(
    data, batch_size, tallies.start(model), _adder(model, trainable)
  )
  return _evaluation(model, client_id, tally)


def mean_loss(
  model: local_model.LocalModel,
  trainable: local_model.Trainable,
  data: batches.ClientData,
) -> tf.Tensor:
  """Returns a model's mean loss on a client's data, inside a `tf.function`.

  The result is float32[]. The model's metrics are not read, because reading
  some metrics creates variables, which fails in a graph.
  """
  _, tally = _reduce(
    data,
    EVALUATION_BATCH_SIZE,
    tallies.start(model, with_hits=False),
    _adder(model, trainable),
  )
  return tallies.mean_loss(tally)


def _adder(
  model: local_model.LocalModel, trainable: local_model.Trainable
) -> Callable[[tallies.Tally, batches.Batch], tallies.Tally]:
  """Returns a function that adds a model's results for a batch to a tally."""

  def add(tally: tallies.Tally, batch: batches.Batch) -> tallies.Tally:
    output = model.forward(trainable, tally.metrics, batch, training=False)
    return tallies.add(tally, batch, output)

  return add


def evaluate_client(
  model_fn: local_model.ModelFn,
  batch_size: int,
  weights: Any,
  data: tf.data.Dataset,
  request: score_sums.SumsRequest | None = None,
  outputs: output_ranges.Outputs | None = None,
) -> collections.OrderedDict[str, tf.Tensor]:
  """Evaluates a model on a client's data, inside a computation.

  Returns tensors by name: the fields of `Evaluation`, the sums that `request`
  asks for, and the ranges of predictions and labels if `outputs` is given.
  """

  def run(
    model: local_model.LocalModel, weights: Any, data: tf.data.Dataset
  ) -> collections.OrderedDict[str, tf.Tensor]:
    model.receive(weights)
    trainable = local_model.flatten(weights.trainable)
    nothing: collections.OrderedDict[str, tf.Tensor] = collections.OrderedDict()

    def step(carry: _TallyWithSums, batch: batches.Batch) -> _TallyWithSums:
      tally, sums, ranges = carry
      output = model.forward(trainable, tally.metrics, batch, training=False)
      if request is not None:
        sums = score_sums.add(sums, batch, output.predictions)
      if outputs is not None:
        ranges = output_ranges.add(ranges, outputs, batch, output.predictions)
      return tallies.add(tally, batch, output), sums, ranges

    start = (
      tallies.start(model),
      nothing if request is None else score_sums.start(request),
      nothing if outputs is None else output_ranges.start(outputs),
    )
    client_id, (tally, sums, ranges) = _reduce(
      batches.ClientData(data), batch_size, start, step
    )
    found = _evaluation(model, client_id, tally)
    return collections.OrderedDict(**found._asdict(), **sums, **ranges)

  return local_model.bind_model(model_fn, run)(weights, data)


def evaluate_with_gradient(
  model: local_model.LocalModel,
  trainable: local_model.Trainable,
  data: batches.ClientData,
  batch_size: int | None,
) -> tuple[Evaluation, tf.Tensor]:
  """Evaluates a model; also returns its loss gradient's norm, float32[]."""

  def step(
    carry: _TallyWithGradient, batch: batches.Batch
  ) -> _TallyWithGradient:
    tally, total = carry
    gradients, output = model.gradients(
      trainable, tally.metrics, batch, training=False
    )
    size = output.num_examples
    total = tuple(
      t if g is None else t + tf.cast(size, g.dtype) * g
      for t, g in zip(total, gradients, strict=True)
    )
    return tallies.add(tally, batch, output), total

  start = (tallies.start(model), tuple(map(tf.zeros_like, trainable)))
  client_id, (tally, total) = _reduce(data, batch_size, start, step)
  norm = tf.math.divide_no_nan(
    tf.sqrt(norms.squared_norm(total)), tf.cast(tally.num_examples, tf.float64)
  )
  return _evaluation(model, client_id, tally), tf.cast(norm, tf.float32)


def _reduce(
  data: batches.ClientData,
  batch_size: int | None,
  start: _Carry,
  step: Callable[[_Carry, batches.Batch], _Carry],
) -> tuple[tf.Tensor, _Carry]:
  """Folds `step` over all batches; returns the client's id and last carry."""

  def over_element(
    carry: tuple[tf.Tensor, _Carry], element: batches.Element
  ) -> tuple[tf.Tensor, _Carry]:
    client_id, examples = element
    return client_id, batches.reduce_slices(
      examples, batch_size, carry[1], step
    )

  return data.reduce((tf.zeros([], tf.int64), start), over_element)


def _evaluation(
  model: local_model.LocalModel, client_id: tf.Tensor, tally: tallies.Tally
) -> Evaluation:
  return Evaluation(
    client_id,
    tally.num_examples,
    tallies.mean_loss(tally),
    tallies.accuracy(model, tally),
  )
