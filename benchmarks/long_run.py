"""Whether a long run stays as fast, and as small, as it began.

Trains on the digits, 10 of 30 clients a round, and prints seconds per round and
resident memory of program and worker along the way.

  python -m benchmarks.long_run [--method=fedavg] [--rounds=1000] [--large]
"""

import statistics
import time

import numpy as np
import tensorflow_federated as tff
from absl import flags

import tasks
import tff_fair
from benchmarks import measure
from tasks import models as task_models
from tff_fair.experiments.training import client_data

_METHOD = flags.DEFINE_string("method", "fedavg", "The method.")
_ROUNDS = flags.DEFINE_integer("rounds", 1000, "Number of rounds.")
_LARGE = flags.DEFINE_bool("large", False, "A model of 190,410 weights.")
_CLIENTS_PER_ROUND = 10
_ROWS = 10


def main() -> None:
  """Prints a line for every tenth of the run."""
  tff_fair.runtime.use_local()
  task = tasks.load("digits", seed=0)
  model = task.model
  if _LARGE.value:
    model = task_models.functional_model(
      lambda: task_models.mlp((64,), (400, 400), 10, seed=0),
      task.element_spec,
    )
  process = tff_fair.algorithms.build(
    _METHOD.value,
    model,
    client_optimizer=tff.learning.optimizers.build_sgdm(0.1),
    batch_size=16,
    num_clients=task.num_clients,
    shuffle_seed=0,
  )
  train_data = client_data.ClientLoader(task.train, task.element_spec)
  state = process.initialize()
  generator = np.random.default_rng(0)
  rounds_per_row = max(1, _ROUNDS.value // _ROWS)
  print("rounds  median ms a round  program MiB  worker MiB")
  seconds: list[float] = []
  for round_num in range(1, _ROUNDS.value + 1):
    data = train_data(
      generator.choice(task.num_clients, _CLIENTS_PER_ROUND, replace=False)
    )
    start = time.perf_counter()
    state, _ = process.next(state, data)
    seconds.append(time.perf_counter() - start)
    if round_num % rounds_per_row == 0:
      (pid,) = tff_fair.runtime.worker_pids()
      print(
        f"{round_num:6}  {1000 * statistics.median(seconds):17.1f}  "
        f"{measure.current_memory_mb():11.1f}  "
        f"{measure.current_memory_mb(pid):10.1f}",
        flush=True,
      )
      seconds.clear()


if __name__ == "__main__":
  measure.run(main)
