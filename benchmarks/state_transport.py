"""A state of 40 MB to the worker and back, as TFF sends it and as we do.

In shared memory, a state is new each time, or, as in a run, the one that came
back before.

python -m benchmarks.state_transport
"""

from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from absl import flags

import tff_fair
from benchmarks import measure
from tff_fair.runtime import sending, shared_memory

_REPETITIONS = flags.DEFINE_integer("repetitions", 10, "Times each is timed.")

_WEIGHTS = 10_000_000


def main() -> None:
  """Prints the table."""
  state_type = tff.FederatedType(
    tff.StructType([("weights", tff.TensorType(np.float32, [_WEIGHTS]))]),
    tff.SERVER,
  )
  state = {"weights": np.random.default_rng(0).random(_WEIGHTS, np.float32)}

  @tff.tensorflow.computation(state_type.member)
  def same(state: Any) -> Any:
    return {"weights": tf.identity(state["weights"])}

  @tff.federated_computation(state_type)
  def there_and_back(state: tff.Value) -> tff.Value:
    return tff.federated_map(same, state)

  def as_tff_sends() -> None:
    with mock.patch.object(
      sending.SendingExecutor,
      "create_value",
      tff.framework.RemoteExecutor.create_value,
    ):
      there_and_back(state)

  returned: Any = state

  def in_shared_memory_again() -> None:
    nonlocal returned
    returned = there_and_back(returned)

  seconds: dict[str, list[float]] = {}
  # Not in turns: what the allocator is told lasts until the program ends.
  for keep_memory in (False, True):
    with mock.patch.object(shared_memory, "is_available", return_value=False):
      tff_fair.runtime.use_local(keep_memory=keep_memory)
    suffix = ", freed memory kept" if keep_memory else ""
    seconds |= measure.time_in_turns(
      {
        f"as TFF sends{suffix}": as_tff_sends,
        f"in our messages{suffix}": lambda: there_and_back(state),
      },
      repetitions=_REPETITIONS.value,
    )
  tff_fair.runtime.use_local()
  in_shared_memory_again()
  seconds |= measure.time_in_turns(
    {
      "in shared memory": lambda: there_and_back(state),
      "in shared memory, again": in_shared_memory_again,
    },
    repetitions=_REPETITIONS.value,
  )
  print(measure.ratio_table(seconds, "as TFF sends"))


if __name__ == "__main__":
  measure.run(main)
