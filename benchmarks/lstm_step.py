"""A training step of Shakespeare's model, with our LSTM against Keras' own.

Two LSTMs of 256 units, batches of 10 texts of 80 characters, the gradient by
all weights.

  python -m benchmarks.lstm_step [--threads=1] [--repetitions=30]
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks import measure
from tasks import models
from tasks.models import plain

_THREADS = flags.DEFINE_integer("threads", 1, "Threads of TensorFlow.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 30, "Steps timed.")

_TOKENS, _TEXTS, _LENGTH = 90, 10, 80


def _step(model: tf.keras.Model) -> Callable[[], object]:
  rng = np.random.default_rng(0)
  x, y = rng.integers(0, _TOKENS, (2, _TEXTS, _LENGTH), np.int32)

  @tf.function(autograph=False)
  def step() -> list[tf.Tensor]:
    with tf.GradientTape() as tape:
      losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x))
      loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, model.trainable_variables)
    return [tf.convert_to_tensor(gradient) for gradient in gradients]

  return lambda: [gradient.numpy() for gradient in step()]


def main() -> None:
  """Prints the table."""
  tf.config.threading.set_intra_op_parallelism_threads(_THREADS.value)
  tf.config.threading.set_inter_op_parallelism_threads(_THREADS.value)
  ours = models.character_lstm(_TOKENS, seed=0)
  keras = plain.build(plain.describe(ours, "keras"))
  keras.set_weights(ours.get_weights())
  seconds = measure.time_in_turns(
    {"Keras' LSTM": _step(keras), "ours": _step(ours)},
    repetitions=_REPETITIONS.value,
  )
  print(measure.ratio_table(seconds, "Keras' LSTM"))


if __name__ == "__main__":
  measure.run(main)
