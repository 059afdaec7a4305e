"""Tests of the accuracy that is read off a model's outputs or metrics."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tff_fair.client_works import local_model, tally


class Outputs(local_model.LocalModel):
  """A model of which only the metrics' values matter."""

  receive = forward = watch = unfinalized_metrics = None  # type: ignore

  def __init__(self, **metrics):
    self._metrics = metrics

  def empty_metrics(self):
    return ()

  def finalized_metrics(self, metrics):
    assert metrics == ()
    return self._metrics


def tally_of(*batches, model=None):
  """Adds up batches of labels, predictions and a loss."""
  total = tally.start(model or Outputs())
  for labels, predictions, loss in batches:
    output = local_model.ForwardPass(
      tf.constant(loss, tf.float32),
      tf.constant(predictions),
      tf.constant(len(labels), tf.int64),
      (),
    )
    total = tally.add(total, (None, tf.constant(labels)), output)
  return total


def accuracy(*batches, **metrics):
  model = Outputs(**metrics)
  return float(tally.accuracy(model, tally_of(*batches, model=model)))


LOGITS = [[0.1, 0.9, 0.0], [2.0, 1.0, 0.0], [0.0, 0.1, 0.2]]


@pytest.mark.parametrize(
  ("labels", "predictions", "expected"),
  [
    ([1, 1, 2], LOGITS, 2 / 3),
    ([[1], [1], [2]], LOGITS, 2 / 3),
    # The prediction at each position of a sequence counts.
    ([[1, 0], [2, 2]], [LOGITS[:2], [LOGITS[2], LOGITS[0]]], 3 / 4),
    ([0.0, 1.0, 1.0], LOGITS, np.nan),  # A regression.
    ([[0.0], [1.0], [1.0]], [[0.2], [0.1], [0.7]], np.nan),
    ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], LOGITS, np.nan),  # One-hot.
    ([0, 1, 1], [1, 1, 0], np.nan),  # Classes, not scores.
    # A logistic regression on one logit, or a regression on integers: its only
    # output is not the score of class 0.
    ([0, 1, 1], [[0.2], [-0.1], [0.7]], np.nan),
    ([[0], [1], [1]], [[0.2], [-0.1], [0.7]], np.nan),
  ],
)
def test_accuracy_is_the_share_of_hits(labels, predictions, expected):
  found = accuracy((labels, predictions, 0.0))
  assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_batches_weigh_by_their_size(dtype):
  hit, miss = np.array([1], dtype), np.array([0, 0, 0], dtype)
  batches = [(hit, LOGITS[:1], 8.0), (miss, LOGITS[:1] * 3, 4.0)]
  assert accuracy(*batches) == pytest.approx(1 / 4)
  total = tally_of(*batches)
  assert total.num_examples == 4
  assert float(tally.mean_loss(total)) == pytest.approx(5.0)


def test_without_batches_accuracy_and_loss_are_zero():
  assert accuracy() == 0
  assert tally.mean_loss(tally_of()) == 0


@pytest.mark.parametrize(
  ("metrics", "expected"),
  [
    ({"loss": 3.0, "accuracy": 0.125}, 0.125),
    ({"sparse_categorical_accuracy": 0.25}, 0.25),
    ({"a_accuracy": 0.25, "accuracy": 0.125}, 0.125),
    ({"a_accuracy": 0.25, "Accuracy": 0.5}, 0.5),
    ({"loss": 3.0}, 2 / 3),
    # Of several metrics whose names fit equally well, the first one counts.
    ({"word_accuracy": 0.25, "binary_accuracy": 0.125}, 0.25),
    ({"binary_accuracy": 0.125, "word_accuracy": 0.25}, 0.125),
    ({"top_5_accuracy": 0.5, "top_3_accuracy": 0.25}, 0.5),
  ],
)
def test_the_models_own_accuracy_goes_before(metrics, expected):
  found = accuracy(([1, 1, 2], LOGITS, 0.0), **metrics)
  assert found == pytest.approx(expected)


@pytest.mark.parametrize(
  "names",
  [
    # The first name wins, whatever the order of the metrics.
    ("accuracy", "accuracy_without_end_of_sentence", "top_1_accuracy"),
    ("sparse_categorical_accuracy", "sparse_top_k_categorical_accuracy"),
    ("categorical_accuracy", "top_k_categorical_accuracy"),
    ("top_1_accuracy", "accuracy_top_10", "top-5 accuracy"),
    ("top1_accuracy", "top15_accuracy"),
    ("stop_accuracy", "Top5_Accuracy"),
  ],
)
def test_the_accuracy_of_the_top_output_goes_before(names):
  batch = ([1, 1, 2], LOGITS, 0.0)
  values = {name: i / 8 for i, name in enumerate(names)}
  assert accuracy(batch, **values) == 0
  assert accuracy(batch, **dict(reversed(values.items()))) == 0


NAMED = ("word_accuracy", "binary_accuracy", "any_accuracy")


def functional_with_metrics():
  return small_problem.functional_model(
    dict.fromkeys(NAMED, tf.keras.metrics.Mean)
  )


def keras_with_metrics():
  return tff.learning.models.from_keras_model(
    tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=[5])]),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=small_problem.INPUT_SPEC,
    metrics=[tf.keras.metrics.SparseCategoricalAccuracy(k) for k in NAMED],
  )


@pytest.mark.parametrize(
  "make_model",
  [functional_with_metrics, lambda: keras_with_metrics],
  ids=["functional", "keras"],
)
def test_models_list_their_metrics_in_their_own_order(make_model):
  with tf.Graph().as_default():
    model = local_model.instantiate(make_model())
    listed = model.finalized_metrics(model.empty_metrics())
  assert [name for name in listed if name in NAMED] == list(NAMED)


def test_sums_are_in_float64():
  # In float32, 2^24 + 1 = 2^24.
  def seen(total, size, loss):
    output = local_model.ForwardPass(
      tf.constant(loss), tf.zeros([1, 2]), tf.constant(size, tf.int64), ()
    )
    return tally.add(total, (None, tf.constant([0])), output)

  total = seen(seen(tally_of(), 2**24, 1.0), 1, 3.0)
  assert total.num_examples == 2**24 + 1
  assert total.loss_sum == 2**24 + 3
  assert total.hits == 2**24 + 1
