"""Tests that our LSTM and its gradient equal those of Keras."""

import numpy as np
import pytest
import tensorflow as tf

from tasks.models import exportable, layers
from tests.cases import Cases

# Lengths with one loop iteration or several; a prime has one step in each.
_LENGTHS = [1, 7, 10, 20, 25, 13]


def sigmoid(z):
  return 1 / (1 + np.exp(-z))


def outputs_of(values, mask):
  """Returns the LSTM's outputs by NumPy, float64[length, n, units]."""
  x, kernel, recurrent, bias = values
  units = len(recurrent)
  output = carry = np.zeros([x.shape[1], units])
  outputs = []
  for row, keeps in zip(x, mask, strict=True):
    i, f, a, o = np.split(row @ kernel + output @ recurrent + bias, 4, -1)
    new = sigmoid(f) * carry + sigmoid(i) * np.tanh(a)
    here = keeps[:, np.newaxis]
    output = np.where(here, sigmoid(o) * np.tanh(new), output)
    carry = np.where(here, new, carry)
    outputs.append(output)
  return np.stack(outputs)


def problem(length, *, dtype=np.float64, scale=1.0):
  """Returns an LSTM's inputs and weights, a mask, and factors of outputs."""
  rng = np.random.default_rng(length)
  n, size, units = 3, 4, 5
  shapes = [
    (length, n, size),
    (size, 4 * units),
    (units, 4 * units),
    (4 * units,),
    (length, n, units),
  ]
  *values, factors = (scale * rng.normal(size=shape) for shape in shapes)
  mask = rng.random((length, n)) < 0.7
  return [v.astype(dtype) for v in values], mask, factors.astype(dtype)


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("length", _LENGTHS)
def test_agrees_with_numpy(length, is_masked):
  values, mask, factors = problem(length)
  mask = mask | (not is_masked)
  tensors = [tf.constant(value) for value in values]
  with tf.GradientTape() as tape:
    tape.watch(tensors)
    x, kernel, recurrent, bias = tensors
    given = tf.constant(mask) if is_masked else None
    outputs = layers.lstm(x, kernel, recurrent, bias, given)
    total = tf.reduce_sum(factors * outputs)
  np.testing.assert_allclose(outputs, outputs_of(values, mask), atol=1e-12)
  gradients = tape.gradient(total, tensors)
  rng = np.random.default_rng(0)
  for place, gradient in enumerate(gradients):
    direction = rng.normal(size=values[place].shape)
    ends = []
    for step in (1e-5, -1e-5):
      moved = list(values)
      moved[place] = values[place] + step * direction
      ends.append(np.sum(factors * outputs_of(moved, mask)))
    slope = (ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(
      np.sum(gradient * direction), slope, rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("is_masked", [False, True])
def test_agrees_with_keras(is_masked):
  # Without a mask, the layers return only the last step, which is a slice.
  both = [
    kind(5, return_sequences=is_masked)
    for kind in (tf.keras.layers.LSTM, layers.LSTM)
  ]
  for layer in both:
    layer.build((3, 20, 4))
  runs = [with_gradients(layer, is_masked) for layer in both]
  with Cases() as cases:
    for scale in (1.0, 30.0, 1e-3):
      (x, *weights), mask, _ = problem(20, dtype=np.float32, scale=scale)
      x, mask = tf.constant(x.transpose(1, 0, 2)), tf.constant(mask.T)
      for layer in both:
        layer.set_weights(weights)
      (outputs, gradients), (ours, our_gradients) = (
        run(x, mask) for run in runs
      )
      with cases.case(scale):
        np.testing.assert_allclose(ours, outputs, atol=1e-6)
        for gradient, our_gradient in zip(
          gradients, our_gradients, strict=True
        ):
          np.testing.assert_allclose(
            our_gradient, gradient, rtol=1e-5, atol=1e-6
          )


def with_gradients(layer, is_masked):
  """Returns a graph function of a layer's outputs and gradients."""

  @tf.function
  def run(x, mask):
    with tf.GradientTape() as tape:
      tape.watch(x)
      outputs = layer(x, mask=mask if is_masked else None)
      loss = tf.reduce_mean(outputs**2)
    return outputs, tape.gradient(loss, [x, *layer.trainable_weights])

  return run


def test_a_length_that_the_data_leave_open():
  values, _, _ = problem(13)
  inputs, *weights = values
  run = tf.function(lambda x: layers.lstm(x, *map(tf.constant, weights)))
  run = run.get_concrete_function(tf.TensorSpec([None, None, 4], tf.float64))
  np.testing.assert_allclose(
    run(tf.constant(inputs)), layers.lstm(*values), atol=1e-14
  )


def test_exports_as_kerass_own():
  model = tf.keras.Sequential(
    [tf.keras.layers.Input([None, 4]), layers.LSTM(5, return_sequences=True)]
  )
  built = exportable.build(exportable.describe(model, "trained"))
  assert type(built.layers[-1]) is tf.keras.layers.LSTM
  assert built.layers[-1].name == model.layers[-1].name
  built.set_weights(model.get_weights())
  (inputs, *_), _, _ = problem(7, dtype=np.float32)
  np.testing.assert_allclose(built(inputs), model(inputs), atol=1e-6)


def test_a_state_is_refused():
  layer = layers.LSTM(5)
  with pytest.raises(TypeError):
    layer(tf.zeros([3, 7, 4]), initial_state=[tf.zeros([3, 5])] * 2)
