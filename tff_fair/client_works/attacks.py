"""Attacks: clients that report something else than they found, as a study.

Hu, Shaloudegi, Zhang, Yu, "Federated Learning Meets Multi-Objective
Optimization" (2022), ask which methods withstand

  bias:     f_k + b in place of f_k: the objective is shifted, its gradient, and
            so the update, is not
  scaling:  c Delta_k in place of Delta_k

Nothing but the report is touched: an attacker trains, and keeps a personal
model, like everybody else.
"""

import dataclasses
import math

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import checks, types
from tff_fair.kernels import finiteness

KINDS = ("bias", "scaling")
_FIELDS = types.ClientSignals._fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attack:
  """Who attacks, and how.

  Attributes:
    kind: "bias" or "scaling".
    strength: For "bias" b, which is added to the losses a client reports, 0 or
      more; for "scaling" c, which the update is multiplied with.
    client_ids: The clients that attack, in every round they take part in.
  """

  kind: str
  strength: float
  client_ids: tuple[int, ...]

  def __post_init__(self) -> None:
    """Checks the attack.

    Raises:
      TypeError: If an attribute has the wrong type.
      ValueError: If it is out of range.
    """
    checks.check_choice("the kind of an attack", self.kind, KINDS)
    checks.check_number(
      "the strength of an attack",
      self.strength,
      minimum=0 if self.kind == "bias" else -math.inf,
      in_float32=True,
    )
    for client_id in self.client_ids:
      checks.check_integer("an attacker's id", client_id, minimum=-(2**63))


def build_attacked(
  client_work: tff.learning.templates.ClientWorkProcess, attack: Attack
) -> tff.learning.templates.ClientWorkProcess:
  """Builds client work in which some clients attack.

  Args:
    client_work: The clients' work, as `build_training` or
      `build_personal_training` returns it.
    attack: Who attacks, and how.

  Returns:
    A process of the same type. A client whose attack is not finite in float32
    reports `num_examples` 0, like a client that diverges.
  """
  result_type: tff.Type = client_work.next.type_signature.result.result.member
  attackers = tf.constant(sorted(attack.client_ids), tf.int64).numpy()

  @tff.tensorflow.computation(result_type)
  def report(
    result: tff.learning.templates.ClientResult,
  ) -> tff.learning.templates.ClientResult:
    signals = types.ClientSignals(
      *(getattr(result.update_weight, name) for name in _FIELDS)
    )
    attacks = tf.reduce_any(tf.equal(attackers, signals.client_id))
    update = result.update
    if attack.kind == "bias":
      bias = tf.where(attacks, tf.constant(attack.strength, tf.float32), 0.0)
      signals = signals._replace(
        loss=signals.loss + bias, initial_loss=signals.initial_loss + bias
      )
    else:
      update = tf.nest.map_structure(
        lambda layer: tf.where(
          attacks, tf.cast(attack.strength, layer.dtype) * layer, layer
        ),
        update,
      )
    counts = finiteness.all_finite(
      (signals.loss, signals.initial_loss, tf.nest.flatten(update))
    )
    signals = signals._replace(
      num_examples=tf.where(counts, signals.num_examples, 0.0)
    )
    return tff.learning.templates.ClientResult(update, signals)

  @tff.federated_computation(*client_work.next.type_signature.parameter)
  def next_fn(
    state: tff.Value, weights: tff.Value, data: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    output = client_work.next(state, weights, data)
    return tff.templates.MeasuredProcessOutput(
      output.state,
      tff.federated_map(report, output.result),
      output.measurements,
    )

  return tff.learning.templates.ClientWorkProcess(
    client_work.initialize,
    next_fn,
    get_hparams_fn=client_work.get_hparams,
    set_hparams_fn=client_work.set_hparams,
  )
