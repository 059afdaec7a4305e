"""First rounds of cohorts of new sizes, by how many clients run at a time.

The CNN, 40 examples a client: as many clients as cores, the default, and all.

  python -m benchmarks.new_cohorts
"""

import time

import tensorflow_federated as tff

import tff_fair
from benchmarks import measure, workload

_COHORT_SIZES = (50, 40, 30)
_EXAMPLES = 40
_LIMITS = {"a client for each core": None, "all clients at once": -1}


def main() -> None:
  """Prints seconds by size of the cohort, and the worker's peak memory."""
  model = workload.cnn()
  data = workload.client_data(model, max(_COHORT_SIZES), _EXAMPLES)
  process = tff_fair.algorithms.build_fedavg(
    model,
    client_optimizer=tff.learning.optimizers.build_sgdm(0.05),
    batch_size=20,
  )
  for name, limit in (*_LIMITS.items(), *_LIMITS.items()):
    tff_fair.runtime.use_local(max_concurrent_computation_calls=limit)
    state = process.initialize()
    seconds = []
    for size in _COHORT_SIZES:
      start = time.perf_counter()
      state = process.next(state, data[:size]).state
      seconds.append(f"{size}: {time.perf_counter() - start:.2f} s")
    (pid,) = tff_fair.runtime.worker_pids()
    print(
      f"{name}: {', '.join(seconds)}, {measure.peak_memory_mb(pid):.0f} MiB"
    )


if __name__ == "__main__":
  measure.run(main)
