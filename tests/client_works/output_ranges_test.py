"""Tests of the ranges of predictions and labels, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tff_fair.client_works import output_ranges
from tff_fair.client_works.output_ranges import Outputs


def ranges(outputs, *batches):
  """Returns ranges, and any label sums, over batches (labels, predictions)."""
  found = output_ranges.start(outputs)
  for y, predictions in batches:
    values = tf.constant(predictions, tf.float32)
    found = output_ranges.add(found, outputs, (None, tf.constant(y)), values)
  ends = found[output_ranges.ENDS].numpy() * [-1, 1, -1, 1]
  names = ("output_low", "output_high", "label_low", "label_high")
  sums = found.get(output_ranges.LABEL_SUMS)
  return {
    **dict(zip(names, ends, strict=True)),
    **({} if sums is None else {"sums": sums.numpy()}),
  }


def is_constant(found):
  return found["output_low"] == found["output_high"]


def logits(classes, number=4):
  return 3 * np.eye(number)[np.asarray(classes)]


def test_classes_from_the_least_to_the_largest():
  found = ranges(Outputs("class"), ([1, 1], logits([2, 1])), ([3], logits([2])))
  assert found == {
    "output_low": 1,
    "output_high": 2,
    "label_low": 1,
    "label_high": 3,
  }


def test_predictions_for_padding_do_not_count():
  y = [[1, 3, 0], [2, 0, 0]]
  same = logits([[2, 2, 0], [2, 1, 3]])
  found = ranges(Outputs("class", padding=0), (y, same))
  assert (found["output_low"], found["output_high"]) == (2, 2)
  assert (found["label_low"], found["label_high"]) == (1, 3)
  assert not is_constant(ranges(Outputs("class"), (y, same)))
  other = logits([[2, 1, 0], [2, 1, 3]])
  assert not is_constant(ranges(Outputs("class", padding=0), (y, other)))


def test_a_batch_of_padding_alone_changes_nothing():
  batch = ([[1, 2]], logits([[3, 3]]))
  outputs = Outputs("class", padding=0)
  assert ranges(outputs, batch, ([[0, 0]], logits([[1, 2]]))) == ranges(
    outputs, batch
  )


def test_the_five_likeliest_labels_count_in_any_order():
  outputs = Outputs("labels", 8)
  y = np.eye(8, dtype=np.float32)[[0, 7]]
  first = np.array([9, 8, 7, 6, 5, 4, 3, 2])
  shuffled = first[[4, 3, 2, 1, 0, 7, 6, 5]]
  found = ranges(outputs, (y, [first, shuffled]))
  assert is_constant(found)
  assert found["label_low"] < found["label_high"]
  assert not is_constant(ranges(outputs, (y, [first, first[::-1]])))


@pytest.mark.parametrize("width", [1, 3])
def test_numbers_and_the_sums_of_their_labels(width):
  random = np.random.default_rng(0)
  y = random.normal(size=[6, width]).astype(np.float32)
  same = np.full([6, width], 0.25)
  batches = [(y[:2], same[:2]), (y[2:], same[2:])]
  found = ranges(Outputs("number", width), *batches)
  assert is_constant(found)
  expected = [y.sum(0), (y**2).sum(0)]
  np.testing.assert_allclose(found["sums"], expected, rtol=1e-5)
  same[3, width - 1] = 0.5
  batches = [(y[:2], same[:2]), (y[2:], same[2:])]
  assert not is_constant(ranges(Outputs("number", width), *batches))


@pytest.mark.parametrize(
  ("outputs", "y", "predictions"),
  [
    # The outputs are not one logit for each class.
    (Outputs("class"), [0, 1], [[0.5], [0.5]]),
    (Outputs("class"), [0, 1], [0.5, 0.5]),
  ],
)
def test_outputs_of_an_unknown_range_are_not_constant(outputs, y, predictions):
  found = ranges(outputs, (y, predictions))
  assert (found["output_low"], found["output_high"]) == (-np.inf, np.inf)
