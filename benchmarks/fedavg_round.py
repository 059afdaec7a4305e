"""Times a round of FedAvg in this project, stock TFF and plain TensorFlow.

All three do the same local training: one epoch of SGD on every client's
examples. Plain TensorFlow runs it as one compiled function over the clients'
arrays and averages the updates, without transport or signals. This project is
timed with the clients' losses from a separate pass before training ("before"),
and with those of the training steps ("training"). Stock TFF is timed in this
project's runtime, and in TFF's own. A round without training shows TFF's
overhead: clients return the weights that they receive, and TFF sums them.

All rounds have the same cohort, except that a "fresh cohort" is drawn from
`--population` clients in each round.

  python -m benchmarks.fedavg_round [--model=mlp|cnn] [--repetitions=20]
"""

import concurrent.futures
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from absl import flags

import tasks
import tff_fair
from benchmarks import measure, workload
from tff_fair.experiments.training import client_data

_MODEL = flags.DEFINE_enum(
  "model", "mlp", list(workload.MODELS), "784-200-200-62, or the CNN."
)
_CLIENTS = flags.DEFINE_integer("clients", 10, "Clients per round.")
_EXAMPLES = flags.DEFINE_integer("examples", 100, "Examples per client.")
_POPULATION = flags.DEFINE_integer(
  "population", 3400, "Clients that fresh cohorts are drawn from."
)
_REPETITIONS = flags.DEFINE_integer("repetitions", 20, "Rounds timed.")


def _no_training(
  model: tff.learning.models.FunctionalModel, data: list[tf.data.Dataset]
) -> Callable[[], Any]:
  """Returns a function that runs a TFF round without training."""
  weights = tuple(model.initial_weights[0])
  weights_type = tff.types.tensorflow_to_type(
    tuple(tf.TensorSpec.from_tensor(tf.constant(w)) for w in weights)
  )
  data_type = tff.SequenceType(
    tff.types.tensorflow_to_type(data[0].element_spec)
  )

  @tff.tensorflow.computation(weights_type, data_type)
  def receive(weights: Any, data: Any) -> Any:
    del data
    return tf.nest.map_structure(tf.identity, weights)

  @tff.federated_computation(
    tff.FederatedType(weights_type, tff.SERVER),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def sum_received(weights: Any, data: Any) -> Any:
    received = tff.federated_map(
      receive, (tff.federated_broadcast(weights), data)
    )
    return tff.federated_sum(received)

  return lambda: sum_received(weights, data)


def _fresh_rounds(
  process: tff.learning.templates.LearningProcess,
  data: client_data.ClientLoader,
) -> Callable[[], Any]:
  """Returns a function that runs a round with a new, preloaded cohort."""
  generator = np.random.default_rng(0)

  def draw() -> list[int]:
    size = (_CLIENTS.value,)
    drawn = generator.choice(_POPULATION.value, size, replace=False)
    return sorted(drawn.tolist())

  state, cohort = process.initialize(), draw()

  def run() -> Any:
    nonlocal state, cohort
    cohort_data, cohort = data(cohort), draw()
    data.prepare(cohort)
    state, metrics = process.next(state, cohort_data)
    return metrics

  return run


def main() -> None:
  """Prints the times of all rounds as a table."""
  tff_fair.runtime.use_local()
  model = workload.MODELS[_MODEL.value]()
  size = (_CLIENTS.value, _EXAMPLES.value)
  clients = workload.client_arrays(model, *size)
  whole = workload.client_data(model, *size)
  batched = [
    tf.data.Dataset.from_tensor_slices(arrays).batch(workload.BATCH_SIZE)
    for arrays in clients
  ]
  before, training = (
    workload.process("fedavg", model, loss_at=loss_at)
    for loss_at in ("before", "training")
  )
  stock = tff.learning.algorithms.build_weighted_fed_avg(
    model, tff.learning.optimizers.build_sgdm(workload.LEARNING_RATE)
  )
  in_its_runtime = tff.framework.get_context_stack().install(
    tff.backends.native.create_sync_local_cpp_execution_context()
  )
  x, y = clients[0]
  population = tasks.Split(
    num_examples=np.full(_POPULATION.value, _EXAMPLES.value),
    load=lambda client_id: (x, (y + client_id) % workload.NUM_CLASSES),
  )
  with concurrent.futures.ThreadPoolExecutor(1) as thread:
    fresh = client_data.ClientLoader(
      population, model.input_spec, thread=thread
    )
    calls = {
      workload.PLAIN: workload.plain_rounds(model, clients),
      "tff_fair, loss before": workload.rounds(before, whole),
      "tff_fair, loss training": workload.rounds(training, whole),
      "fresh cohort": _fresh_rounds(training, fresh),
      "TFF, no training": _no_training(model, whole),
      "stock TFF": workload.rounds(stock, batched),
      "stock TFF, its runtime": in_its_runtime(
        in_its_runtime(workload.rounds)(stock, batched)
      ),
    }
    seconds = measure.time_in_turns(calls, repetitions=_REPETITIONS.value)
  print(measure.ratio_table(seconds, workload.PLAIN))
  print(f"peak memory of the program: {measure.peak_memory_mb():.0f} MiB")


if __name__ == "__main__":
  measure.run(main)
