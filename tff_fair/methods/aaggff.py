"""AAggFF: the server learns the mixing coefficients of the clients online.

Hahn, Kim, Lee, "Pursuing Overall Welfare in Federated Learning through
Sequential Decision Making" (ICML 2024).

  x_k = f_k / mean_S f,  r_k = L CDF(x_k)
  pi <- next decision for the losses l(pi) = -log(1 + <pi, r>)
  c_k = pi_k / sum_S pi_j

f_k is client k's loss, S the cohort of m clients, and pi a distribution over
the population's N clients, uniform at the start. A round first updates pi by
the responses r of its cohort, and then uses the new pi.

AAggFF-S, for few clients (cross-silo): L = 1/N, r_k = mean_S r for k not in S,
and the online Newton step

  g = -r / (1 + <pi, r>),  A <- A + g g^T,  v <- v + (1 - b <g, pi>) g
  pi <- argmin 1/2 pi^T (a I + b A) pi + <v, pi>,  a = 4,  b = N/4

AAggFF-D, for many clients (cross-device): L = C = m/N, a doubly robust estimate
of the responses, and a linearized step

  s_k = r_bar + (r_k - r_bar) / C on S, r_bar elsewhere,  r_bar = mean_S r
  G <- G - s / (1 + r_bar) + r_bar <pi, s - r_bar> / (1 + r_bar)^2
  pi <- softmax(-G sqrt(log N) / ((2 + C) sqrt(t + 1))),  t = 1 at first

This follows the paper. The authors' published code differs: its AAggFF-S drops
the terms <g, pi> and starts A at a multiple of I; its AAggFF-D omits the first
r_bar of s_k on S; its "normal" has erfc instead of erf, so that responses fall
as losses rise. Choices made here: losses below zero are set to zero; x_k = 1 if
all losses are zero.
"""

import collections
import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.kernels import inner_product, quadratic_program
from tff_fair.methods import building

# Cumulative distribution functions, which map a relative loss x_k to r_k / L.
_TRANSFORMS: Mapping[str, Callable[[tf.Tensor], tf.Tensor]] = MappingProxyType(
  {
    "weibull": lambda x: -tf.math.expm1(-tf.square(x)),
    "exponential": lambda x: -tf.math.expm1(-x),
    "frechet": lambda x: tf.where(x > 0, tf.exp(-1.0 / x), tf.zeros_like(x)),
    "gumbel": lambda x: tf.exp(-tf.exp(1.0 - x)),
    "logistic": lambda x: tf.sigmoid(x - 1.0),
    "normal": lambda x: 0.5 * tf.math.erfc((1.0 - x) * 2.0**-0.5),
  }
)


def responses(loss: tf.Tensor, transform: str) -> tf.Tensor:
  """Returns r_k / L = CDF(f_k / mean f), float64[m] in [0, 1]."""
  loss = tf.maximum(loss, tf.zeros_like(loss))
  largest = tf.reduce_max(loss)
  # Losses are divided by the largest one, because a sum of huge losses could
  # overflow.
  relative = loss / tf.where(largest > 0, largest, tf.ones_like(largest))
  mean = tf.reduce_mean(relative)
  return _TRANSFORMS[transform](
    tf.where(mean > 0, relative / mean, tf.ones_like(loss))
  )


def newton_step(
  hessian: tf.Tensor, gradient: tf.Tensor
) -> quadratic_program.Minimum:
  """Returns argmin 1/2 pi^T (a I + b A) pi + <v, pi> over the simplex.

  A is `hessian`, float64[N, N], v is `gradient`, float64[N], a = 4, b = N/4.
  """
  size = tf.cast(tf.size(gradient), tf.float64)
  identity = tf.eye(tf.size(gradient), dtype=tf.float64)
  return quadratic_program.minimize(
    0.5 * (4.0 * identity + size / 4.0 * hessian), gradient, 0.0, 1.0
  )


def linearized_gradient(
  mixing: tf.Tensor, places: tf.Tensor, response: tf.Tensor
) -> tf.Tensor:
  """Returns AAggFF-D's estimate of the gradient of l, float64[N].

  l is the loss of pi, which is `mixing`. `response`, float64[m], holds the r_k
  of the cohort's clients, and `places`, int64[m], these clients' positions in
  pi.
  """
  share = _share(places, mixing)
  mean = tf.reduce_mean(response)
  # This is s - r_bar, which is zero outside the cohort.
  excess = tf.scatter_nd(
    places[:, tf.newaxis],
    (response - mean) / share,
    tf.shape(mixing, tf.int64),
  )
  correction = inner_product(mixing, excess) / tf.square(1.0 + mean)
  return -(mean + excess) / (1.0 + mean) + mean * correction


@dataclasses.dataclass(frozen=True, kw_only=True)
class AaggffRule(types.PopulationRule):
  """The base of AAggFF-S's and AAggFF-D's rules, with their hyperparameter."""

  transform: Literal[
    "weibull", "exponential", "frechet", "gumbel", "logistic", "normal"
  ] = declared.value(
    "gumbel", "The distribution whose CDF maps a loss to a response."
  )

  signals = ("loss",)
  counts_negative_as_zero = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class AaggffSRule(AaggffRule):
  """Chooses AAggFF-S's coefficients; the state is pi, A and v."""

  def initialize(self) -> types.TensorStructure:
    """See the base class."""
    size = self.num_clients
    return collections.OrderedDict(
      mixing=self.even(),
      hessian=tf.zeros([size, size], tf.float64),
      gradient=tf.zeros([size], tf.float64),
    )

  def coefficients(
    self, cohort: types.Cohort, state: Mapping[str, tf.Tensor]
  ) -> types.RuleOutput:
    """See the base class."""
    mixing = state["mixing"]
    places = self.places(cohort)
    own = responses(cohort.loss, self.transform) / self.num_clients
    response = tf.tensor_scatter_nd_update(
      tf.fill(tf.shape(mixing), tf.reduce_mean(own)),
      places[:, tf.newaxis],
      own,
    )
    g = -response / (1.0 + inner_product(mixing, response))
    hessian = state["hessian"] + g[:, tf.newaxis] * g[tf.newaxis, :]
    slope = 1.0 - self.num_clients / 4.0 * inner_product(g, mixing)
    gradient = state["gradient"] + slope * g
    solution = newton_step(hessian, gradient)
    return _output(
      solution.coefficients,
      places,
      collections.OrderedDict(
        mixing=solution.coefficients, hessian=hessian, gradient=gradient
      ),
      duality_gap=solution.gap,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AaggffDRule(AaggffRule):
  """Chooses AAggFF-D's coefficients; the state is pi, G and t."""

  def initialize(self) -> types.TensorStructure:
    """See the base class."""
    return collections.OrderedDict(
      mixing=self.even(),
      gradient=tf.zeros([self.num_clients], tf.float64),
      num_rounds=tf.constant(0, tf.int64),
    )

  def coefficients(
    self, cohort: types.Cohort, state: Mapping[str, tf.Tensor]
  ) -> types.RuleOutput:
    """See the base class."""
    places = self.places(cohort)
    share = _share(places, state["mixing"])
    response = share * responses(cohort.loss, self.transform)
    gradient = state["gradient"] + linearized_gradient(
      state["mixing"], places, response
    )
    num_rounds = state["num_rounds"] + 1
    size = tf.constant(self.num_clients, tf.float64)
    rate = tf.sqrt(tf.math.log(size) / tf.cast(num_rounds + 1, tf.float64)) / (
      2.0 + share
    )
    mixing = tf.nn.softmax(-gradient * rate)
    return _output(
      mixing,
      places,
      collections.OrderedDict(
        mixing=mixing, gradient=gradient, num_rounds=num_rounds
      ),
    )


def _share(places: tf.Tensor, mixing: tf.Tensor) -> tf.Tensor:
  """Returns C = m/N, the cohort's share of the population."""
  return tf.cast(tf.size(places), tf.float64) / tf.cast(
    tf.size(mixing), tf.float64
  )


def _output(
  mixing: tf.Tensor,
  places: tf.Tensor,
  state: types.TensorStructure,
  **measurements: tf.Tensor,
) -> types.RuleOutput:
  """Returns c_k = pi_k / sum_S pi_j, with the new state and measurements."""
  own = tf.gather(mixing, places)
  return types.RuleOutput(
    tf.math.divide_no_nan(own, tf.reduce_sum(own)),
    state,
    collections.OrderedDict(
      mixing_min=tf.reduce_min(own),
      mixing_max=tf.reduce_max(own),
      **measurements,
    ),
  )


build_aaggff_s = building.rule_builder(AaggffSRule, "aaggff_s")
build_aaggff_d = building.rule_builder(AaggffDRule, "aaggff_d")


@summing.factory_of(AaggffSRule)
class AaggffSFactory(summing.RuleFactory):
  """Sums client updates with AAggFF-S's coefficients."""


@summing.factory_of(AaggffDRule)
class AaggffDFactory(summing.RuleFactory):
  """Sums client updates with AAggFF-D's coefficients."""
