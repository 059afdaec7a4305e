"""FedFA: fairness and accuracy, with double momentum.

Huang, Li, Wang, Du, Zhang, Yang (2020); the rule is `tff_fair.rules.fedfa`, on
top of SGD with momentum at the clients and at the server.
"""

from typing import Unpack

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import checks
from tff_fair.algorithms import composition
from tff_fair.rules import fedfa


def build_fedfa(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  b: float = fedfa.FedFaRule.b,
  client_momentum: float = 0.9,
  server_momentum: float = 0.5,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds FedFA.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Plain SGD, which gets the momentum; any optimizer where
      `client_momentum` is 0.
    b: Weight of participation against accuracy, in [0, 1].
    client_momentum: Momentum of the clients' SGD, in [0, 1).
    server_momentum: Momentum of the server's SGD, in [0, 1).
    **options: Options that hold for every method. A `server_optimizer` is
      plain SGD, which gets the momentum, or any where `server_momentum` is 0.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value, or an optimizer other than
      plain SGD were to get a momentum.
  """
  server_optimizer = options.get("server_optimizer")
  if server_optimizer is None:
    server_optimizer = tff.learning.optimizers.build_sgdm(1.0)
  options["server_optimizer"] = _with_momentum(
    "server", server_optimizer, server_momentum
  )
  return composition.compose(
    model_fn,
    fedfa.FedFaRule(b=b),
    client_optimizer=_with_momentum(
      "client", client_optimizer, client_momentum
    ),
    **options,
  )


def _with_momentum(
  place: str, optimizer: composition.Optimizer, momentum: float
) -> composition.Optimizer:
  """Returns plain SGD with a momentum; any optimizer as it is without one."""
  checks.check_number(
    f"{place}_momentum", momentum, minimum=0, maximum=1, exclude_maximum=True
  )
  if momentum == 0:
    return optimizer
  composition.check_optimizer(f"{place}_optimizer", optimizer)
  hparams = list(
    optimizer.get_hparams(optimizer.initialize(tf.TensorSpec([], tf.float32)))
  )
  rate = composition.learning_rate(optimizer)
  plain_sgd = type(tff.learning.optimizers.build_sgdm(1.0))
  if (
    rate is None
    or not isinstance(optimizer, plain_sgd)
    or hparams != [tff.learning.optimizers.LEARNING_RATE_KEY]
  ):
    raise ValueError(
      f"FedFA gives the {place} optimizer a momentum of {momentum}, which "
      f"takes plain SGD; found {type(optimizer).__name__} with the "
      f"hyperparameters {', '.join(hparams) or 'none'}. "
      f"Pass tff.learning.optimizers.build_sgdm(learning_rate), or set "
      f"{place}_momentum to 0 to keep it."
    )
  return tff.learning.optimizers.build_sgdm(rate, momentum)
