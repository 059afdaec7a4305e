"""Times a round of every method against a round of plain TensorFlow.

All rounds have the same cohort, model and local training: 10 clients with 100
examples, an MLP 784-200-200-62, batches of 20, one epoch. Losses are computed
before training, in a separate pass, unless `--loss_at` says otherwise. Plain
TensorFlow runs FedAvg without losses.

  python -m benchmarks.methods_round [--model=mlp|cnn] [--methods=vred,ditto]
"""

from absl import flags

import tff_fair
from benchmarks import measure, workload

_MODEL = flags.DEFINE_enum(
  "model", "mlp", list(workload.MODELS), "784-200-200-62, or the CNN."
)
_METHODS = flags.DEFINE_list("methods", [], "Methods to time; none for all.")
_LOSS_AT = flags.DEFINE_string("loss_at", "before", "Where losses are taken.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 15, "Rounds timed.")

# Methods that take turns with plain TensorFlow; more would not fit in caches.
_METHODS_PER_GROUP = 4


def main() -> None:
  """Prints one table per group of methods."""
  tff_fair.runtime.use_local()
  model = workload.MODELS[_MODEL.value]()
  data = workload.client_data(model)
  plain = workload.plain_rounds(model, workload.client_arrays(model))
  methods = _METHODS.value or [
    name
    for name in tff_fair.algorithms.names()
    if name != "fedminmax"  # It needs data with groups of people.
  ]
  for first in range(0, len(methods), _METHODS_PER_GROUP):
    calls = {workload.PLAIN: plain}
    for name in methods[first : first + _METHODS_PER_GROUP]:
      process = workload.process(
        name, model, loss_at=_LOSS_AT.value, num_clients=workload.NUM_CLIENTS
      )
      calls[name] = workload.rounds(process, data)
    seconds = measure.time_in_turns(calls, repetitions=_REPETITIONS.value)
    print(measure.ratio_table(seconds, workload.PLAIN), flush=True)


if __name__ == "__main__":
  measure.run(main)
