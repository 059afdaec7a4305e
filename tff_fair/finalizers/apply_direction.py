"""The server step: an optimizer applied to the direction of the round.

theta <- theta - eta_s d  with plain SGD; any TFF optimizer may take its place
"""

from typing import Any

import tensorflow_federated as tff

from tff_fair.finalizers import decaying, stepping
from tff_fair.optimizers.learning_rate_decay import LearningRateDecay
from tff_fair.types import TensorStructure


def build_apply_direction(
  optimizer: tff.learning.optimizers.Optimizer,
  weights_type: tff.Type,
  decay: LearningRateDecay | None = None,
) -> tff.learning.templates.FinalizerProcess:
  """Builds a finalizer that takes one optimizer step per round.

  Differs from `tff.learning.templates.build_apply_optimizer_finalizer` in that
  it knows whether any client counted, and then takes no step at all.

  Args:
    optimizer: The server optimizer.
    weights_type: The type of `tff.learning.models.ModelWeights`, W.
    decay: Of the optimizer's learning rate; `None` keeps it.

  Returns:
    A finalizer; its types are those of `stepping.build_stepping_finalizer`, its
    hyperparameters those of the optimizer, before any decay.
  """

  def initialize() -> Any:
    return optimizer.initialize(
      tff.types.type_to_tf_tensor_specs(weights_type.trainable)
    )

  def step(
    state: Any,
    trainable: TensorStructure,
    round_update: decaying.RoundUpdate,
  ) -> tuple[Any, TensorStructure]:
    return optimizer.next(state, trainable, round_update["update"])

  return stepping.build_stepping_finalizer(
    weights_type,
    decaying.ServerStep(
      initialize, step, optimizer.get_hparams, optimizer.set_hparams
    ),
    scalars={},
    decay=decay,
  )
