"""Lets some clients report false losses or updates, to study attacks.

Hu, Shaloudegi, Zhang, Yu, "Federated Learning Meets Multi-objective
Optimization" (2022), ask which methods withstand two kinds of false reports:

  bias:     f_k + b instead of f_k: this shifts the objective, but does not
            change its gradient or the update
  scaling:  c Delta_k instead of Delta_k

Only the report is false: an attacker trains, and keeps a personal model, like
every other client.
"""

import dataclasses
import math

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared, types
from tff_fair.client_works import training
from tff_fair.kernels import norms

KINDS = ("bias", "scaling")
_FIELDS = types.ClientSignals._fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attack:
  """The clients that attack, and the kind of attack.

  Attributes:
    kind: "bias" or "scaling".
    strength: For "bias", b >= 0: the number that an attacker adds to the losses
      it reports. For "scaling", c: the factor of an attacker's update.
    client_ids: The attackers. They attack in each round in which they take
      part.
  """

  kind: str
  strength: float
  client_ids: tuple[int, ...]

  def __post_init__(self) -> None:
    """Raises `TypeError` or `ValueError` for an invalid attribute."""
    declared.check_choice("kind", self.kind, KINDS)
    declared.check_number(
      "strength",
      self.strength,
      minimum=0 if self.kind == "bias" else -math.inf,
      in_float32=True,
    )
    for client_id in self.client_ids:
      declared.check_integer("client_ids", client_id, minimum=-(2**63))


def build_attacked(
  client_work: tff.learning.templates.ClientWorkProcess, attack: Attack
) -> tff.learning.templates.ClientWorkProcess:
  """Builds client work in which some clients attack.

  Args:
    client_work: The clients' work, as `build_training` returns it.
    attack: The attackers and the kind of attack.

  Returns:
    A process of the same type. A client whose false report is not finite in
    float32 reports `num_examples` 0, like a client that diverges.
  """
  return tff.learning.templates.ClientWorkProcess(
    client_work.initialize,
    build_attacked_round(client_work.next, attack),
    get_hparams_fn=client_work.get_hparams,
    set_hparams_fn=client_work.set_hparams,
  )


def build_attacked_round(
  round_of_clients: tff.Computation, attack: Attack
) -> tff.Computation:
  """Builds a computation like `round_of_clients` in which attackers attack."""
  result_type: tff.Type = round_of_clients.type_signature.result.result.member

  @tff.tensorflow.computation(result_type)
  def report(
    result: tff.learning.templates.ClientResult,
  ) -> tff.learning.templates.ClientResult:
    signals = types.ClientSignals(
      *(getattr(result.update_weight, name) for name in _FIELDS)
    )
    return tff.learning.templates.ClientResult(
      *false_report(result.update, signals, attack)
    )

  @tff.federated_computation(round_of_clients.type_signature.parameter)
  def attacked(arguments: tff.Value) -> tff.templates.MeasuredProcessOutput:
    output = round_of_clients(arguments)
    return tff.templates.MeasuredProcessOutput(
      output.state,
      tff.federated_map(report, output.result),
      output.measurements,
    )

  return attacked


def build_attacked_phases(
  phases: training.TrainingPhases, attack: Attack
) -> training.TrainingPhases:
  """Makes attackers report false losses in phase 1, or updates in phase 2."""
  if attack.kind == "bias":
    return phases._replace(measure=_with_false_losses(phases.measure, attack))
  return phases._replace(train=build_attacked_round(phases.train, attack))


def _with_false_losses(
  measure: tff.Computation, attack: Attack
) -> tff.Computation:
  """Builds a computation like `measure` in which attackers add b to losses."""

  @tff.tensorflow.computation(measure.type_signature.result.member)
  def report(signals: types.ClientSignals) -> types.ClientSignals:
    return false_report((), signals, attack)[1]

  @tff.federated_computation(measure.type_signature.parameter)
  def attacked(arguments: tff.Value) -> tff.Value:
    return tff.federated_map(report, measure(arguments))

  return attacked


def false_report(
  update: types.TensorStructure, signals: types.ClientSignals, attack: Attack
) -> tuple[types.TensorStructure, types.ClientSignals]:
  """Returns the update and the signals that a client reports.

  They are true unless the client attacks. If a reported value is not finite,
  `num_examples` is 0.
  """
  if attack.kind == "bias":
    bias = added_loss(signals.client_id, attack)
    signals = signals._replace(
      loss=signals.loss + bias, initial_loss=signals.initial_loss + bias
    )
  else:
    attacks = _is_attacker(signals.client_id, attack)
    update = tf.nest.map_structure(
      lambda layer: tf.where(
        attacks, tf.cast(attack.strength, layer.dtype) * layer, layer
      ),
      update,
    )
  counts = norms.all_finite(
    (signals.loss, signals.initial_loss, tf.nest.flatten(update))
  )
  return update, signals._replace(
    num_examples=tf.where(counts, signals.num_examples, 0.0)
  )


def added_loss(client_id: tf.Tensor, attack: Attack) -> tf.Tensor:
  """Returns the bias that a client adds to the losses it reports, float32[]."""
  if attack.kind != "bias":
    return tf.zeros([])
  strength = tf.constant(attack.strength, tf.float32)
  return tf.where(_is_attacker(client_id, attack), strength, 0.0)


def _is_attacker(client_id: tf.Tensor, attack: Attack) -> tf.Tensor:
  """Returns whether a client attacks, bool[]."""
  attackers = tf.constant(sorted(attack.client_ids), tf.int64)
  return tf.reduce_any(tf.equal(attackers, client_id))
