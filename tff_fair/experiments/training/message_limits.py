"""What must fit into a message: tables that clients keep, updates of a part."""

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import summing
from tff_fair.client_works import keeping
from tff_fair.declared import FieldError
from tff_fair.experiments import number_range, settings
from tff_fair.experiments.spec import RunSpec
from tff_fair.kernels import stacking

_MOST_BYTES = 2**31  # Of protobuf's messages.
_SETTINGS = {
  keeping.PERSONAL: "personal_lam",
  keeping.OPTIMIZER: "client_momentum_kept",
}


def check_tables(
  spec: RunSpec,
  process: tff.learning.templates.LearningProcess,
  num_clients: int,
) -> None:
  """Checks that the table of all clients fits into a message.

  The personal models of ditto may take more.

  Args:
    spec: The run.
    process: Its process.
    num_clients: The number of the task's clients.

  Raises:
    FieldError: If a table does not fit.
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
      raise FieldError(
        setting,
        f"keeps a row of {num_bytes / 2**20:,.1f} MiB for each of "
        f"{num_clients:,} clients, which pass the 2 GiB of a message; take a "
        "smaller model, or fewer clients.",
        value=value,
      )


def check_parts(
  spec: RunSpec,
  process: tff.learning.templates.LearningProcess,
  aggregation: str,
  clients_per_round: number_range.Value,
) -> None:
  """Checks that the updates which a part of a round collects fit into one.

  Args:
    spec: The run.
    process: Its process.
    aggregation: The way in which the process sums client updates.
    clients_per_round: The size of cohorts, or a range of sizes.

  Raises:
    FieldError: If they do not fit.
  """
  largest = number_range.bounds(clients_per_round)[1]
  part = settings.part_size(spec.clients_per_part, largest)
  if aggregation != summing.STACKED or not part:
    return
  weights = process.initialize.type_signature.result.member.global_model_weights
  update = stacking.row_spec(
    tff.types.type_to_tf_tensor_specs(weights.trainable)
  )
  num_bytes = update.shape.num_elements() * update.dtype.size
  if part * num_bytes >= _MOST_BYTES:
    raise FieldError(
      "clients_per_part",
      f"the {part} updates of a part, of {num_bytes / 2**20:,.0f} MiB each, "
      "pass the 2 GiB of a message; take smaller parts, a smaller model, a "
      "method that does not stack updates, or 0, which cuts nothing.",
      value=part,
    )
