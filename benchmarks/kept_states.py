"""Rounds whose state stays in the worker, and the same with it sent each time.

784-200-200-62, 10 clients x 100 examples; FedFV remembers ten rounds.

  python -m benchmarks.kept_states
"""

from typing import Any
from unittest import mock

import tensorflow_federated as tff
from absl import app, flags

import tff_fair
from benchmarks import functional_models, measure, workload
from tff_fair.runtime import returned_values

_REPETITIONS = flags.DEFINE_integer("repetitions", 9, "Rounds timed.")

_CLIENTS = 10
_EXAMPLES = 100
_METHODS: dict[str, dict[str, Any]] = {
  "fedavg": {},
  "adafedadam": {},
  "ditto": {},
  "fedfv": {"tau": 10},
}


def main(argv: list[str]) -> None:
  """Prints a table for each method."""
  if len(argv) > 1:
    raise app.UsageError(f"No positional arguments expected: {argv[1:]}")
  tff_fair.runtime.use_local()
  model = functional_models.mlp()
  data = workload.client_data(model, _CLIENTS, _EXAMPLES)
  for method, hparams in _METHODS.items():
    process = tff_fair.algorithms.build(
      method,
      model,
      client_optimizer=tff.learning.optimizers.build_sgdm(0.05),
      hparams=hparams,
      batch_size=20,
      num_clients=_CLIENTS,
    )
    kept, sent = (workload.rounds(process, data) for _ in range(2))

    def send(run: Any = sent) -> Any:
      with mock.patch.object(
        returned_values.ReturnedValues, "take", return_value=None
      ):
        return run()

    seconds = measure.time_in_turns(
      {f"{method}, kept": kept, f"{method}, sent": send},
      repetitions=_REPETITIONS.value,
    )
    print(measure.ratio_table(seconds, f"{method}, kept"), flush=True)


if __name__ == "__main__":
  app.run(main)
