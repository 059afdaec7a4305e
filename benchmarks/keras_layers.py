"""Finds Keras layers whose kernels do not allow two clients at the same time.

Each layer trains in a small model with FedAvg, once with one client at a time
and once with several, in a child process that may crash. Kernels that keep
state between calls lead to different weights or a crash; `runtime.admission`
lists their operations, and graphs with such an operation compute one client at
a time.

  python -m benchmarks.keras_layers [--rounds=200] [--layers=LSTM2d] [--all]

Each line is a layer and one of

  equal            the same weights, bit for bit
  random           finite weights, from random numbers that are not repeatable
  one at a time    not tried, as an operation is on the list (--all tries it)
  step by step     the computation is not one graph, so clients never share one
  refused          by Keras, TFF or this project, with the reason
  differs, crash   different weights or a crash: an operation is not on the list

The exit status is 1 if a layer differs or crashes.
"""

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from absl import flags

import tff_fair
from benchmarks import measure
from tff_fair import algorithms, runtime
from tff_fair.runtime import admission, native
from tff_fair.runtime.one_graph import steps

_ROUNDS = flags.DEFINE_integer("rounds", 200, "Rounds of each layer.")
_LAYERS = flags.DEFINE_list("layers", [], "Which layers; by default all.")
_ALL = flags.DEFINE_bool("all", False, "Also those on the list.")

_CLASSES = 3
_SIZES = (3, 8, 5, 13, 1, 8)  # Each client's number of examples.
_WORDS = 11

# Shapes of one example, without the batch axis.
_VECTOR, _SEQUENCE, _IMAGE, _VOLUME = (6,), (8, 6), (8, 8, 4), (4, 4, 4, 3)
_LONG = (16, 8)

Build = Callable[[tf.keras.layers.Input], tf.Tensor]
L = tf.keras.layers


def _attend(layer: Callable[[], tf.keras.layers.Layer]) -> Build:
  return lambda x: layer()([x, x])


def _merge(layer: Callable[[], tf.keras.layers.Layer]) -> Build:
  return lambda x: layer()([L.Dense(4)(x), L.Dense(4)(x)])


def _normalized(layer: Callable[[], tf.keras.layers.Layer]) -> Build:
  return lambda x: layer()(L.Dense(6)(x))


def _layers(names: str, ending: str = "") -> Mapping[str, Build]:
  return {name: getattr(L, f"{name}{ending}")() for name in names.split()}


def _set_ups() -> Mapping[str, tuple[tuple[int, ...], Build]]:
  """Returns, by layer name, the shape of an example and the layer's builder."""
  found: dict[str, tuple[tuple[int, ...], Build]] = {}

  def add(shape: tuple[int, ...], **layers: Build) -> None:
    for name, build in layers.items():
      found[f"{name}{len(shape)}d"] = shape, build

  for shape in (_VECTOR, _SEQUENCE, _LONG, _IMAGE, _VOLUME):
    suffix = "Long" if shape is _LONG else ""
    add(
      shape,
      **{
        f"Dense{suffix}": L.Dense(5, "relu"),
        f"LayerNormalization{suffix}": _normalized(L.LayerNormalization),
        f"BatchNormalization{suffix}": _normalized(L.BatchNormalization),
        f"GroupNormalization{suffix}": _normalized(
          functools.partial(L.GroupNormalization, 3)
        ),
      },
    )
  add(
    _VECTOR,
    **_layers("ELU LeakyReLU PReLU ReLU Softmax ThresholdedReLU"),
    **{
      name: L.Activation(name.lower())
      for name in ("SELU", "GELU", "Swish", "Softplus", "Mish")
    },
    **{
      name: getattr(L, name)(0.3, seed=1)
      for name in (
        *("Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise"),
      )
    },
    **{
      name: _merge(getattr(L, name))
      for name in (
        *("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply"),
        "Subtract",
      )
    },
    Dot=_merge(lambda: L.Dot(1)),
    UnitNormalization=_normalized(L.UnitNormalization),
    RepeatVector=L.RepeatVector(3),
    Embedding=lambda x: L.Embedding(_WORDS, 4)(_as_words(x)),
    EmbeddingLSTM=lambda x: L.LSTM(4)(L.Embedding(_WORDS, 4)(_as_words(x))),
    HalfPrecision=L.Dense(5, "relu", dtype="mixed_bfloat16"),
    DoublePrecision=L.Dense(5, "relu", dtype="float64"),
  )
  for number, shape in enumerate((_SEQUENCE, _IMAGE, _VOLUME), 1):
    pools = (
      "MaxPooling AveragePooling GlobalMaxPooling GlobalAveragePooling "
      "ZeroPadding UpSampling"
    )
    add(shape, **_layers(pools, f"{number}D"))
    if shape is not _VOLUME:
      add(
        shape,
        Cropping=getattr(L, f"Cropping{number}D")(),
        SpatialDropout=getattr(L, f"SpatialDropout{number}D")(0.3),
      )
  add(
    _SEQUENCE,
    SimpleRNN=L.SimpleRNN(5),
    LSTM=L.LSTM(5),
    GRU=L.GRU(5),
    LSTMSequences=L.LSTM(5, return_sequences=True),
    GRUUnrolled=L.GRU(5, unroll=True),
    BidirectionalLSTM=L.Bidirectional(L.LSTM(5)),
    BidirectionalGRU=L.Bidirectional(L.GRU(5, return_sequences=True)),
    TimeDistributed=L.TimeDistributed(L.Dense(5)),
    Conv1D=L.Conv1D(5, 3, activation="relu"),
    Conv1DCausal=L.Conv1D(5, 3, padding="causal"),
    Conv1DDilated=L.Conv1D(5, 3, dilation_rate=2),
    Conv1DStrides=L.Conv1D(5, 3, strides=2, padding="same"),
    Conv1DTranspose=L.Conv1DTranspose(5, 3, strides=2),
    SeparableConv1D=L.SeparableConv1D(5, 3),
    DepthwiseConv1D=L.DepthwiseConv1D(3),
    LocallyConnected1D=L.LocallyConnected1D(3, 3),
    Permute=L.Permute((2, 1)),
    Masking=lambda x: L.LSTM(4)(L.Masking()(x)),
    Attention=_attend(L.Attention),
    AdditiveAttention=_attend(L.AdditiveAttention),
    MultiHeadAttention=lambda x: L.MultiHeadAttention(2, 3)(x, x),
  )
  add(
    _IMAGE,
    Conv2D=L.Conv2D(5, 3, activation="relu"),
    Conv2DSame=L.Conv2D(5, 3, padding="same", activation="tanh"),
    Conv2DStrides=L.Conv2D(5, 3, strides=2),
    Conv2DDilated=L.Conv2D(5, 3, dilation_rate=2),
    Conv2DGroups=L.Conv2D(4, 3, groups=2),
    Conv2DTranspose=L.Conv2DTranspose(5, 3, strides=2),
    SeparableConv2D=L.SeparableConv2D(5, 3),
    DepthwiseConv2D=L.DepthwiseConv2D(3),
    LocallyConnected2D=L.LocallyConnected2D(2, 3),
    Conv2DNormalized=lambda x: L.BatchNormalization()(L.Conv2D(5, 3)(x)),
    UpSampling=L.UpSampling2D(interpolation="bilinear"),
    Resizing=L.Resizing(5, 5),
    Rescaling=L.Rescaling(0.5),
    RandomFlip=L.RandomFlip(seed=1),
    ConvLSTM1D=L.ConvLSTM1D(3, 3),
    MultiHeadAttention=lambda x: L.MultiHeadAttention(
      2, 3, attention_axes=(1, 2)
    )(x, x),
  )
  add(
    _VOLUME,
    Conv3D=L.Conv3D(3, 2, activation="relu"),
    Conv3DTranspose=L.Conv3DTranspose(3, 2),
    ConvLSTM2D=L.ConvLSTM2D(3, 2),
  )
  return found


def _as_words(x: tf.Tensor) -> tf.Tensor:
  return tf.cast(tf.abs(x) * 5, tf.int32) % _WORDS


def _model(name: str) -> tf.keras.Model:
  tf.keras.utils.set_random_seed(1)
  shape, build = _set_ups()[name]
  x = L.Input(shape)
  # The layer may have no weights, but it affects those of the dense layers.
  hidden = build(L.Dense(shape[-1], "tanh")(x))
  return tf.keras.Model(x, L.Dense(_CLASSES)(L.Flatten()(hidden)))


def _clients(shape: tuple[int, ...]) -> list[tf.data.Dataset]:
  rng = np.random.default_rng(0)
  return [
    tff_fair.client_dataset(
      k,
      tf.data.Dataset.from_tensor_slices(
        (
          rng.normal(size=(size, *shape)).astype(np.float32),
          rng.integers(0, _CLASSES, size, np.int32),
        )
      ).batch(4),
    )
    for k, size in enumerate(_SIZES)
  ]


def _outcome(name: str) -> str:
  """Trains with one client, then with four at a time; compares the weights."""
  shape, _ = _set_ups()[name]
  spec = (
    tf.TensorSpec([None, *shape], tf.float32),
    tf.TensorSpec([None], tf.int32),
  )

  def model_fn() -> tff.learning.models.VariableModel:
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return tff.learning.models.from_keras_model(
      _model(name), loss=loss, input_spec=spec
    )

  process = algorithms.build(
    "fedavg",
    model_fn,
    client_optimizer=tff.learning.optimizers.build_sgdm(0.05),
  )
  message = tff.framework.serialize_computation(
    native.compile_now(process.next)
  )
  try:
    steps.check_works_as_one_graph(steps.read(message))
  except admission.NotAdmittedError as error:
    return f"step by step: {error}"
  listed = admission.has_operation(message, admission.ONE_CALL_AT_A_TIME)
  if listed and not _ALL.value:
    return "one at a time"
  data = _clients(shape)
  results = []
  for at_a_time in (1, 4):
    runtime.use_local(max_concurrent_computation_calls=at_a_time)
    state = process.initialize()
    for _ in range(_ROUNDS.value):
      state = process.next(state, data).state
    weights = process.get_model_weights(state)
    results.append([np.asarray(weight) for weight in weights.trainable])
  alone, together = results
  if not all(np.isfinite(weight).all() for weight in alone):
    return "refused: weights that are not finite"
  if admission.has_operation(message, admission.RANDOM_OPS):
    return "random"
  same = all(map(np.array_equal, alone, together))
  return "equal" if same else "differs"


def _in_child(compute: Callable[[], Any]) -> Any:
  """Calls `compute` in a child process; returns its result, or a crash report.

  The result must be JSON. The parent process must not have run TensorFlow
  computations: a child of a process with TensorFlow's threads would fail.
  """
  reading, writing = os.pipe()
  child = os.fork()
  if child == 0:
    os.close(reading)
    try:
      outcome = compute()
    except Exception as error:  # Keras and TFF raise many classes.
      text = f"refused: {type(error).__name__}: {error}"
      outcome = text.splitlines()[0][:120]
    os.write(writing, json.dumps(outcome).encode())
    os._exit(0)
  os.close(writing)
  with open(reading) as answer:
    content = answer.read()
  _, status = os.waitpid(child, 0)
  if not content:
    return f"crash: signal {os.WTERMSIG(status)}"
  return json.loads(content)


def main() -> None:
  """Tries the layers, and prints a line for each."""
  if _ALL.value:
    admission.ONE_CALL_AT_A_TIME = frozenset()
  chosen = _LAYERS.value or _in_child(lambda: sorted(_set_ups()))
  broken = 0
  for name in chosen:
    outcome = _in_child(functools.partial(_outcome, name))
    broken += outcome.startswith(("differs", "crash"))
    print(f"{name:28} {outcome}", flush=True)
  print(f"{len(chosen)} layers, {broken} differ or crash")
  sys.exit(bool(broken))


if __name__ == "__main__":
  measure.run(main)
