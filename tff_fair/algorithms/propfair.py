"""PropFair: proportional fairness.

Zhang, Malekmohammadi, Chen, Yu, "Proportional Fairness in Federated Learning"
(TMLR 2023).

  per minibatch, loss -> -log(1 - loss/M) where M - loss >= 0.2, else loss/M
  then c_k = p_k
"""

from typing import Unpack

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import checks
from tff_fair.algorithms import composition
from tff_fair.rules import fedavg

# Utilities below it are not worth a logarithm that explodes.
_LEAST_UTILITY = 0.2


def proportional_loss(loss: tf.Tensor, m: float) -> tf.Tensor:
  """Returns -log(1 - loss/M), or loss/M where M - loss < 0.2.

  Args:
    loss: float[], mean loss of a minibatch.
    m: M.
  """
  utility = m - loss
  large = utility >= _LEAST_UTILITY
  # Both branches are differentiated: the logarithm must not see what it is not
  # meant for.
  safe = tf.where(large, utility, tf.ones_like(utility))
  return tf.where(large, -tf.math.log(safe / m), loss / m)


def build_propfair(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  m: float = 5.0,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds PropFair.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    m: M, the baseline that utilities M - loss are counted from, above 0.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  checks.check_number("m", m, minimum=0, exclude_minimum=True)
  return composition.compose(
    model_fn,
    fedavg.FedAvgRule(),
    client_optimizer=client_optimizer,
    objective=lambda loss: proportional_loss(loss, m),
    **options,
  )
