"""Custom layers (a fast LSTM, repeatable dropout), and seeds for any layers."""

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# Seeds of layers, so that one number determines the initial weights. TFF builds
# a model in several graphs; only initializers with their own seed give the same
# weights in every graph.

# More layers than any model here has.
_MAX_LAYERS = 64


def glorot_uniform(seed: int) -> Iterator[tf.keras.initializers.Initializer]:
  """Yields an initializer for each layer in turn (Glorot and Bengio, 2010)."""
  for layer_seed in int32_seeds(seed, _MAX_LAYERS):
    yield tf.keras.initializers.GlorotUniform(layer_seed)


def he_normal(seed: int) -> Iterator[tf.keras.initializers.Initializer]:
  """Yields an initializer for each layer in turn (He et al., 2015)."""
  for layer_seed in int32_seeds(seed, _MAX_LAYERS):
    yield tf.keras.initializers.HeNormal(layer_seed)


def int32_seeds(seed: int, count: int) -> list[int]:
  """Returns `count` seeds below 2^31, unrelated for different `seed`s."""
  # Hashes `seed`, so that layer 1 with seed 0 and layer 0 with seed 1 differ.
  words = np.random.SeedSequence(seed).generate_state(count, np.uint32)
  return [int(word >> 1) for word in words]


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
  """Seeds the layers that the block builds, unless they have their own seed.

  The generators of Python and NumPy then continue as before the block.
  """
  of_python, of_numpy = random.getstate(), np.random.get_state()
  tf.keras.utils.set_random_seed(int32_seeds(seed, 1)[0])
  try:
    yield
  finally:
    random.setstate(of_python)
    np.random.set_state(of_numpy)


_MOST_STEPS = 10  # The most steps in one iteration of the loop in `_scan`.

# A step maps a state and one row of each input to a new state and the outputs.
_State = tuple[tf.Tensor, tf.Tensor]
_Step = Callable[
  [_State, Sequence[tf.Tensor]], tuple[_State, Sequence[tf.Tensor]]
]


class LSTM(tf.keras.layers.LSTM):
  """Keras' LSTM with the same weights and outputs, but faster training.

  It supports only the default activations, without dropout, and without a state
  that is passed in or out.
  """

  def call(
    self,
    inputs: tf.Tensor,
    mask: tf.Tensor | None = None,
    training: bool | None = None,
    initial_state: Any = None,
  ) -> tf.Tensor:
    """Returns the outputs for `inputs`, float[n, length, size].

    Steps whose mask, bool[n, length], is false keep state and output.
    """
    del training
    if initial_state is not None:
      raise TypeError("initial_state: expected None, found a state.")
    kernel, recurrent_kernel, bias = map(
      tf.convert_to_tensor, self.cell.weights
    )
    outputs = lstm(
      tf.transpose(inputs, [1, 0, 2]),  # Each step then reads whole rows.
      kernel,
      recurrent_kernel,
      bias,
      None if mask is None else tf.transpose(mask),
    )
    if self.return_sequences:
      return tf.transpose(outputs, [1, 0, 2])
    return outputs[-1]

  def exportable(self) -> tf.keras.layers.LSTM:
    """Returns an equivalent Keras LSTM."""
    return tf.keras.layers.LSTM.from_config(self.get_config())


def lstm(
  inputs: tf.Tensor,
  kernel: tf.Tensor,
  recurrent_kernel: tf.Tensor,
  bias: tf.Tensor,
  mask: tf.Tensor | None = None,
) -> tf.Tensor:
  """Returns an LSTM's outputs from a zero state, float[length, n, units].

  Inputs are float[length, n, size]; the kernels, [size, 4 * units] and [units,
  4 * units], have quarters for the input, forget, cell and output gates (i, f,
  a, o). A step whose mask, bool[length, n], is false keeps the state.
  """
  units = recurrent_kernel.shape[0]
  masks = () if mask is None else (mask[..., tf.newaxis],)
  zeros = tf.zeros([tf.shape(inputs)[1], units], inputs.dtype)

  @tf.custom_gradient
  def run(
    inputs: tf.Tensor,
    kernel: tf.Tensor,
    recurrent_kernel: tf.Tensor,
    bias: tf.Tensor,
  ) -> tuple[tf.Tensor, Callable[[tf.Tensor], Sequence[tf.Tensor]]]:
    # sigmoid(z) = tanh(z / 2) / 2 + 1 / 2, so one tanh computes all gates.
    scale = np.repeat([0.5, 0.5, 1.0, 0.5], units).astype(inputs.dtype.name)
    inner = tf.matmul(inputs, kernel * scale) + bias * scale
    step = _forward(recurrent_kernel * scale, scale)
    gates, carries, outputs = _scan(step, (zeros, zeros), [inner, *masks], 3)

    def gradient(d_outputs: tf.Tensor) -> Sequence[tf.Tensor]:
      d_inner = _d_inner(
        gates, carries, d_outputs, masks, recurrent_kernel, zeros
      )
      flat = tf.reshape(d_inner, [-1, 4 * units])
      before = tf.concat([zeros[tf.newaxis], outputs[:-1]], 0)
      return (
        tf.matmul(d_inner, kernel, transpose_b=True),
        _product_over_steps(inputs, flat),
        _product_over_steps(before, flat),
        tf.reduce_sum(flat, 0),
      )

    return outputs, gradient

  return run(inputs, kernel, recurrent_kernel, bias)


def _forward(recurrent_kernel: tf.Tensor, scale: np.ndarray) -> _Step:
  """Returns the step function of `lstm`.

  It maps the state (h, c) and the rows (x @ kernel + bias, mask) to the new
  state and (gates, c, h). The gates are i, f, a and o, concatenated.
  """
  shift = np.where(scale == 1, 0, scale)

  def step(
    state: _State, rows: Sequence[tf.Tensor]
  ) -> tuple[_State, Sequence[tf.Tensor]]:
    output, carry = state
    inner, *masks = rows
    gates = tf.tanh(tf.matmul(output, recurrent_kernel) + inner)
    gates = gates * scale + shift
    i, f, a, o = tf.split(gates, 4, -1)
    new_carry = f * carry + i * a
    new_output = o * tf.tanh(new_carry)
    for mask in masks:
      new_carry = tf.where(mask, new_carry, carry)
      new_output = tf.where(mask, new_output, output)
    return (new_output, new_carry), (gates, new_carry, new_output)

  return step


def _d_inner(
  gates: tf.Tensor,
  carries: tf.Tensor,
  d_outputs: tf.Tensor,
  masks: Sequence[tf.Tensor],
  recurrent_kernel: tf.Tensor,
  zeros: tf.Tensor,
) -> tf.Tensor:
  """Returns gradients w.r.t. the gate inputs z, float[length, n, 4 * units]."""
  i, f, a, o = tf.split(gates, 4, -1)
  carry_before = tf.concat([zeros[tf.newaxis], carries[:-1]], 0)
  tanh = tf.tanh(carries)
  # Derivatives with respect to the gate inputs z_t: `by_carry` of c_t, and
  # `by_output` of h_t through o_t.
  by_carry = tf.concat(
    [a * i * (1 - i), carry_before * f * (1 - f), i * (1 - a * a)], -1
  )
  by_output = tanh * o * (1 - o)
  factors = tf.concat([by_carry, by_output], -1)
  back = tf.transpose(recurrent_kernel)

  def step(
    state: _State, rows: Sequence[tf.Tensor]
  ) -> tuple[_State, Sequence[tf.Tensor]]:
    d_output, d_carry = state
    d_here, factor, slope, f, *masks = rows
    d_output += d_here
    d_new_carry = d_carry + d_output * slope
    by_gates = [d_new_carry, d_new_carry, d_new_carry, d_output]
    d_inner = tf.concat(by_gates, -1) * factor
    for mask in masks:
      d_inner = tf.where(mask, d_inner, 0)
    before, d_carry_before = tf.matmul(d_inner, back), d_new_carry * f
    for mask in masks:  # A masked step passes both gradients on.
      before = tf.where(mask, before, d_output)
      d_carry_before = tf.where(mask, d_carry_before, d_carry)
    return (before, d_carry_before), (d_inner,)

  rows = [d_outputs, factors, o * (1 - tanh * tanh), f, *masks]
  (d_inner,) = _scan(step, (zeros, zeros), rows, 1, backwards=True)
  return d_inner


def _product_over_steps(rows: tf.Tensor, flat: tf.Tensor) -> tf.Tensor:
  """Returns the matrix product rows^T flat, summed over steps and examples."""
  rows = tf.reshape(rows, [-1, rows.shape[-1]])
  return tf.matmul(rows, flat, transpose_a=True)


def _scan(
  step: _Step,
  state: _State,
  inputs: Sequence[tf.Tensor],
  num_outputs: int,
  *,
  backwards: bool = False,
) -> list[tf.Tensor]:
  """Runs `step` on the inputs' rows in turn; returns outputs, [length, ...]."""
  length = inputs[0].shape[0] or 1  # 1 if the length is unknown.
  num_steps = max(n for n in range(1, _MOST_STEPS + 1) if length % n == 0)
  num_turns = tf.shape(inputs[0])[0] // num_steps
  arrays = [
    tf.TensorArray(x.dtype, num_turns).unstack(
      tf.reshape(x, [-1, num_steps, *tf.unstack(tf.shape(x)[1:])])
    )
    for x in inputs
  ]
  order = range(num_steps)[:: -1 if backwards else 1]

  def turn(
    index: tf.Tensor, state: _State, outputs: Sequence[tf.TensorArray]
  ) -> tuple[tf.Tensor, _State, Sequence[tf.TensorArray]]:
    place = num_turns - 1 - index if backwards else index
    rows = [tf.unstack(array.read(place), num_steps) for array in arrays]
    step_outputs: list[Sequence[tf.Tensor]] = [()] * num_steps
    for number in order:
      state, step_outputs[number] = step(state, [row[number] for row in rows])
    stacked = [tf.stack(parts) for parts in zip(*step_outputs, strict=True)]
    written = [
      array.write(place, part)
      for array, part in zip(outputs, stacked, strict=True)
    ]
    return index + 1, state, written

  outputs = [
    tf.TensorArray(state[0].dtype, num_turns) for _ in range(num_outputs)
  ]
  _, _, outputs = tf.while_loop(
    lambda index, *_: index < num_turns, turn, (0, state, outputs)
  )
  return [array.concat() for array in outputs]


class _Repeatable(tf.keras.layers.Layer):
  """A layer whose random draws depend only on its input and a seed.

  TFF restarts a Keras layer's generator for every client in every round: with a
  seed, all clients get the same draws; without one, runs are not repeatable.
  Here the bits of the input determine the draws, so they change with every
  batch and model, and runs are repeatable.
  """

  def __init__(self, *, seed: int) -> None:
    super().__init__()
    self._seed = int32_seeds(seed, 1)[0]

  def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """Returns the inputs, float32[...], changed at random only in training."""
    if not training:
      return inputs
    # Integers wrap around, so the order of summation does not matter.
    fingerprint = tf.reduce_sum(tf.bitcast(inputs, tf.int32))
    return self._perturb(inputs, tf.stack([self._seed, fingerprint]))

  def _perturb(self, inputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    raise NotImplementedError


class RepeatableDropout(_Repeatable):
  """Dropout whose mask is a function of its input and a seed.

  With `spatial`, it drops whole channels (the last axis) of an example.
  """

  def __init__(self, rate: float, *, seed: int, spatial: bool = False) -> None:
    super().__init__(seed=seed)
    self._rate = rate
    self._spatial = spatial

  def _perturb(self, inputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Zeroes inputs with probability `rate`, and scales the others up."""
    shape = tf.shape(inputs)
    if self._spatial:
      between = tf.ones([inputs.shape.rank - 2], tf.int32)
      shape = tf.concat([shape[:1], between, shape[-1:]], 0)
    keep = self._rate <= tf.random.stateless_uniform(shape, seed=seed)
    return tf.where(keep, inputs / (1.0 - self._rate), 0.0)

  def exportable(self) -> tf.keras.layers.Layer:
    """Returns Keras' own dropout, which is not repeatable."""
    kind = "Dropout"
    if self._spatial:
      kind = f"SpatialDropout{len(self.input_shape) - 2}D"
    return getattr(tf.keras.layers, kind)(self._rate, name=self.name)


class RepeatableAlphaDropout(_Repeatable):
  """Keras' AlphaDropout, for SELU units, with repeatable draws."""

  def __init__(self, rate: float, *, seed: int) -> None:
    super().__init__(seed=seed)
    self._rate = rate

  def _perturb(self, inputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Sets a share of inputs to SELU's limit; keeps mean 0 and variance 1."""
    rate, limit = self._rate, -1.7580993408473766
    keep = rate <= tf.random.stateless_uniform(tf.shape(inputs), seed=seed)
    scale = ((1 - rate) * (1 + rate * limit**2)) ** -0.5
    return scale * (tf.where(keep, inputs, limit) - rate * limit)

  def exportable(self) -> tf.keras.layers.AlphaDropout:
    """Returns Keras' own layer, whose draws do not repeat."""
    return tf.keras.layers.AlphaDropout(self._rate, name=self.name)


class RepeatableNoise(_Repeatable):
  """Keras' GaussianNoise, with repeatable draws."""

  def __init__(self, stddev: float, *, seed: int) -> None:
    super().__init__(seed=seed)
    self._stddev = stddev

  def _perturb(self, inputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Adds normal noise."""
    noise = tf.random.stateless_normal(tf.shape(inputs), seed=seed)
    return inputs + self._stddev * noise

  def exportable(self) -> tf.keras.layers.GaussianNoise:
    """Returns Keras' own layer, whose draws do not repeat."""
    return tf.keras.layers.GaussianNoise(self._stddev, name=self.name)
