"""A state of 40 MB to the worker and back, with and without kept memory.

python -m benchmarks.state_transport
"""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from absl import app, flags

import tff_fair
from benchmarks import measure

_REPETITIONS = flags.DEFINE_integer("repetitions", 10, "Times each is timed.")

_WEIGHTS = 10_000_000


def main(argv: list[str]) -> None:
  """Prints the table."""
  if len(argv) > 1:
    raise app.UsageError(f"No positional arguments expected: {argv[1:]}")
  state = np.random.default_rng(0).random(_WEIGHTS, np.float32)

  @tff.tensorflow.computation(tff.TensorType(np.float32, [_WEIGHTS]))
  def there_and_back(state: tf.Tensor) -> tf.Tensor:
    return tf.identity(state)

  seconds: dict[str, list[float]] = {}
  # Not in turns: what the allocator is told lasts until the program ends.
  for keep_memory in (False, True):
    tff_fair.runtime.use_local(keep_memory=keep_memory)
    seconds |= measure.time_in_turns(
      {f"keep_memory={keep_memory}": lambda: there_and_back(state)},
      repetitions=_REPETITIONS.value,
    )
  print(measure.ratio_table(seconds, "keep_memory=False"))


if __name__ == "__main__":
  app.run(main)
