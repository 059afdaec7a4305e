"""The room that the tables of what clients keep will take."""

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works import keeping
from tff_fair.experiments.errors import SpecError
from tff_fair.experiments.spec import RunSpec

_MOST_BYTES = 2**31  # Of a message.
_SETTINGS = {
  keeping.PERSONAL: "personal_lam",
  keeping.OPTIMIZER: "client_momentum_kept",
}


def check(
  spec: RunSpec,
  process: tff.learning.templates.LearningProcess,
  num_clients: int,
) -> None:
  """Checks that the table of all clients fits into a message.

  The personal models of ditto, which is older than this check, may take more.

  Args:
    spec: The run.
    process: Its process.
    num_clients: The number of the task's clients.

  Raises:
    SpecError: If a table does not fit.
  """
  fields = spec.fields()
  client_work = process.initialize.type_signature.result.member.client_work
  for name, setting in _SETTINGS.items():
    value = getattr(spec, setting)
    if value == fields[setting].default:
      continue
    _, rows = tf.nest.flatten(
      tff.types.type_to_tf_tensor_specs(client_work[name])
    )
    num_bytes = rows.shape[1] * rows.dtype.size
    if num_clients * num_bytes >= _MOST_BYTES:
      raise SpecError(
        setting,
        f"keeps a row of {num_bytes / 2**20:,.1f} MiB for each of "
        f"{num_clients:,} clients, which pass the 2 GiB of a message; take a "
        "smaller model, or fewer clients.",
        value=value,
      )
