"""AFL: agnostic federated learning, the worst mixture of the clients.

Mohri, Sivek, Suresh, "Agnostic Federated Learning" (ICML 2019), stochastic
AFL, with cohorts.

  d = sum_S lambda_k Delta_k / sum_S lambda_k
  lambda_k <- lambda_k + gamma_lambda f_k on the cohort S, then
  lambda <- projection onto the simplex

lambda runs over the population of N clients, 1/N each at the start; both steps
use the losses of this round's model and the old lambda. Choice made here: a
cohort whose lambda_k are all 0 gives d = 0, and lambda moves on.
"""

import dataclasses

import tensorflow as tf

from tff_fair import checks, types
from tff_fair.kernels import simplex


@dataclasses.dataclass(frozen=True, kw_only=True)
class AflRule(types.Rule):
  """AFL's coefficients; the state is lambda, float64[N].

  Attributes:
    num_clients: N; client ids must be in [0, N).
    lambda_learning_rate: gamma_lambda, 0 or more.
  """

  num_clients: int
  lambda_learning_rate: float = 0.1

  signals = ("loss",)

  def __post_init__(self) -> None:
    """Checks the hyperparameters."""
    checks.check_integer("num_clients", self.num_clients, minimum=1)
    checks.check_number(
      "lambda_learning_rate", self.lambda_learning_rate, minimum=0
    )

  def initialize(self) -> tf.Tensor:
    """See the base class."""
    return tf.fill(
      [self.num_clients],
      tf.constant(1.0 / self.num_clients, tf.float64),
    )

  def coefficients(
    self, cohort: types.Cohort, state: tf.Tensor
  ) -> types.RuleOutput:
    """See the base class."""
    in_range = tf.debugging.Assert(
      tf.reduce_all(cohort.client_id >= 0)
      & tf.reduce_all(cohort.client_id < self.num_clients),
      [
        f"AFL was built for num_clients={self.num_clients}, so that client ids "
        f"are 0 to {self.num_clients - 1}; the cohort has the ids",
        cohort.client_id,
      ],
    )
    with tf.control_dependencies([in_range] if in_range is not None else []):
      places = tf.identity(cohort.client_id)
    own = tf.gather(state, places)
    ascended = tf.tensor_scatter_nd_add(
      state,
      places[:, tf.newaxis],
      self.lambda_learning_rate * cohort.loss,
    )
    return types.RuleOutput(
      tf.math.divide_no_nan(own, tf.reduce_sum(own)),
      simplex.project_to_simplex(ascended),
      {"lambda_min": tf.reduce_min(own), "lambda_max": tf.reduce_max(own)},
    )
