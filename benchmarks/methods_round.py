"""A round of every method against a round of plain TensorFlow, in one run.

The same cohort, model and local training for all: 10 clients of 100 examples,
784-200-200-62, batches of 20, one epoch. Losses are taken before training, in a
pass of its own, unless `--loss_at` says otherwise. Plain TensorFlow runs FedAvg
and takes no losses.

  python -m benchmarks.methods_round [--model=mlp|cnn] [--methods=vred,ditto]
"""

import tensorflow_federated as tff
from absl import flags

import tff_fair
from benchmarks import measure, workload

_MODEL = flags.DEFINE_enum(
  "model", "mlp", list(workload.MODELS), "784-200-200-62, or the CNN."
)
_METHODS = flags.DEFINE_list("methods", [], "Methods to time; none for all.")
_LOSS_AT = flags.DEFINE_string("loss_at", "before", "Where losses are taken.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 15, "Rounds timed.")

_CLIENTS = 10
_EXAMPLES = 100
_BATCH_SIZE = 20
_LEARNING_RATE = 0.05
# Processes that are timed in turns with it; more would not stay in caches.
_METHODS_PER_GROUP = 4


def main() -> None:
  """Prints one table per group of methods."""
  tff_fair.runtime.use_local()
  model = workload.MODELS[_MODEL.value]()
  data = workload.client_data(model, _CLIENTS, _EXAMPLES)

  def build(name: str) -> tff.learning.templates.LearningProcess:
    return tff_fair.algorithms.build(
      name,
      model,
      client_optimizer=tff.learning.optimizers.build_sgdm(_LEARNING_RATE),
      batch_size=_BATCH_SIZE,
      loss_at=_LOSS_AT.value,
      num_clients=_CLIENTS,
    )

  plain = workload.plain_rounds(
    model,
    workload.client_arrays(model, _CLIENTS, _EXAMPLES),
    _BATCH_SIZE,
    _LEARNING_RATE,
  )
  methods = _METHODS.value or tff_fair.algorithms.names()
  for first in range(0, len(methods), _METHODS_PER_GROUP):
    calls = {workload.PLAIN: plain}
    for name in methods[first : first + _METHODS_PER_GROUP]:
      calls[name] = workload.rounds(build(name), data)
    seconds = measure.time_in_turns(calls, repetitions=_REPETITIONS.value)
    print(measure.ratio_table(seconds, workload.PLAIN), flush=True)


if __name__ == "__main__":
  measure.run(main)
