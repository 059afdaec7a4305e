"""AdaFedAdam: fair, normalized updates and Adam with a certainty.

Ju, Zhang, Toor, Hellander (2024); the rule is `tff_fair.rules.adafedadam`, the
server step `tff_fair.finalizers.build_certain_adam`.
"""

import functools
from typing import Unpack

import tensorflow_federated as tff

from tff_fair import finalizers
from tff_fair.algorithms import composition
from tff_fair.rules import adafedadam


def build_adafedadam(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  alpha: float = adafedadam.AdaFedAdamRule.alpha,
  learning_rate: float = finalizers.CertainAdamSettings.learning_rate,
  beta1: float = finalizers.CertainAdamSettings.beta1,
  beta2: float = finalizers.CertainAdamSettings.beta2,
  epsilon: float = finalizers.CertainAdamSettings.epsilon,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds AdaFedAdam.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    alpha: Weight of clients that have improved less, 0 or more.
    learning_rate: Of the server step, above 0.
    beta1: Decay of the first moment, in [0, 1).
    beta2: Decay of the second moment, in [0, 1).
    epsilon: Added to the root of the second moment, above 0.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  settings = finalizers.CertainAdamSettings(
    learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon
  )
  return composition.compose(
    model_fn,
    adafedadam.AdaFedAdamRule(alpha=alpha),
    client_optimizer=client_optimizer,
    finalizer=functools.partial(finalizers.build_certain_adam, settings),
    **options,
  )
