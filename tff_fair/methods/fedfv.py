"""FedFV: conflicts between updates are projected away before averaging.

Wang, Fan, Qi, Wen, Wang, Yu, "Federated Learning with Fair Averaging" (IJCAI
2021), Algorithms 1 to 3.

  g_i = Delta_i, then for j != i in the order of the losses:
    g_i <- g_i - <g_i, Delta_j> / ||Delta_j||^2 Delta_j  if <g_i, Delta_j> < 0
  g = mean of the g_i, where the share alpha of the clients, those with the
      largest losses, keep g_i = Delta_i
  for age k = tau, ..., 1, over clients whose latest update is k rounds old and
  that are not in the cohort:
    g_con = sum of those updates h with <h, g> < 0
    g <- g - <g, g_con> / ||g_con||^2 g_con  if <g, g_con> < 0
  d = g / ||g|| * ||mean of the Delta_i||

Delta_i is client i's update. All of this is computed on coefficients: if M is
the Gram matrix of the cohort's and the remembered updates, then
<sum_i a_i Delta_i, Delta_j> = (M a)_j. The updates are read only twice, for M
and for the final sum.

Choices made here: client ids break ties between losses; rounds are numbered
from 0, and a round that excludes all clients is not counted; a zero update is
not a projection target.
"""

import collections
import dataclasses
from typing import Literal

import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.kernels import inner_product, stacking
from tff_fair.methods import building

# The tolerance for rounding if (m - 1)(1 - alpha) should be a whole number.
_ROUNDING = 1e-9
# The relative rounding error in the square of a sum whose terms cancel.
_RELATIVE_ROUNDING = 1e-13


def project_internal_conflicts(
  gram: tf.Tensor, order: tf.Tensor, keeps: tf.Tensor
) -> tf.Tensor:
  """Projects m updates onto the normal planes of updates they conflict with.

  Row i of the result, float64[m, m], is the projected update g_i as
  coefficients of the Delta_j. `order`, int32[m], is the order of the projection
  targets; `keeps`, bool[m], marks the clients whose updates are not projected.
  """
  num_clients = tf.size(order)
  identity = tf.eye(num_clients, dtype=gram.dtype)

  def project(
    step: tf.Tensor, projected: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    target = order[step]
    slopes = tf.linalg.matvec(projected, gram[:, target])
    conflicts = (
      (slopes < 0) & ~keeps & tf.not_equal(tf.range(num_clients), target)
    )
    shares = tf.where(
      conflicts,
      tf.math.divide_no_nan(slopes, gram[target, target]),
      tf.zeros_like(slopes),
    )
    return step + 1, projected - (
      shares[:, tf.newaxis] * tf.one_hot(target, num_clients, dtype=gram.dtype)
    )

  return tf.while_loop(
    lambda step, _: step < num_clients,
    project,
    (tf.constant(0), identity),
  )[1]


def project_external_conflicts(
  gram: tf.Tensor, coefficients: tf.Tensor, age: tf.Tensor, oldest: int
) -> tf.Tensor:
  """Projects g, the mean, away from remembered updates it conflicts with.

  `coefficients`, float64[n], express g by the cohort's and the remembered
  updates; the result expresses the projected g. `age`, int32[n], is the age of
  each update in rounds, at most `oldest`, tau; it is 0 for the cohort's updates
  and for those to ignore.
  """

  def project(step: tf.Tensor, g: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    conflicts = tf.equal(age, step) & (tf.linalg.matvec(gram, g) < 0)
    g_con = tf.cast(conflicts, gram.dtype)
    towards = tf.linalg.matvec(gram, g_con)
    slope = inner_product(g, towards)
    share = tf.math.divide_no_nan(slope, inner_product(g_con, towards))
    return step - 1, g - tf.where(slope < 0, share, 0.0) * g_con

  return tf.while_loop(
    lambda step, _: step > 0, project, (tf.constant(oldest), coefficients)
  )[1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedFvRule(types.Rule):
  """Chooses FedFV's coefficients; the state is the number of rounds."""

  alpha: float = declared.value(
    0.1,
    "Share of the clients, those with the largest losses, whose updates are "
    "not projected; 1 with tau = 0 is the direction of the mean.",
    minimum=0,
    maximum=1,
  )
  tau: int = declared.value(
    0, "Number of rounds for which an update is remembered.", minimum=0
  )
  order: Literal["loss", "random", "reverse"] = declared.value(
    "loss",
    "Order of the projection targets: by ascending loss, at random, or by "
    "descending loss.",
  )
  seed: int = declared.value(
    0, "Seed of the random order; its lowest 64 bits count.", minimum=0
  )

  signals = ("loss",)
  geometry = types.Geometry.GRAM

  @property
  def remembered_rounds(self) -> int:
    """See the base class."""
    return self.tau

  def initialize(self) -> tf.Tensor:
    """See the base class."""
    return tf.constant(0, tf.int64)

  def coefficients(
    self, cohort: types.Cohort, state: tf.Tensor
  ) -> types.RuleOutput:
    """See the base class."""
    num_clients = tf.size(cohort.loss)
    gram = cohort.gram
    within = gram[:num_clients, :num_clients]
    projected = project_internal_conflicts(
      within, self._targets(cohort.loss, state), self._keeps(cohort.loss)
    )
    mean = tf.reduce_mean(projected, axis=0)
    num_remembered = tf.shape(gram)[0] - num_clients
    g = tf.concat([mean, tf.zeros([num_remembered], gram.dtype)], 0)
    if self.tau:
      away = stacking.are_missing(cohort.remembered_id, cohort.client_id)
      age = tf.concat(
        [
          tf.zeros([num_clients], tf.int32),
          tf.where(away, cohort.remembered_age, 0),
        ],
        0,
      )
      g = tf.cond(
        state >= self.tau,
        lambda: project_external_conflicts(gram, g, age, self.tau),
        lambda: g,
      )
    length = _norm(gram, g)
    share = 1.0 / tf.cast(num_clients, gram.dtype)
    mean_length = _norm(within, tf.fill([num_clients], share))
    return types.RuleOutput(
      g * tf.math.divide_no_nan(mean_length, length),
      state + 1,
      collections.OrderedDict(
        conflicts=tf.reduce_sum(tf.cast(within < 0, tf.int32)) // 2,
        norm_before_rescaling=length,
        num_remembered=num_remembered,
      ),
    )

  def _targets(self, loss: tf.Tensor, round_num: tf.Tensor) -> tf.Tensor:
    """Returns the order of the projection targets, int32[clients]."""
    if self.order == "reverse":
      return tf.argsort(loss, direction="DESCENDING", stable=True)
    if self.order == "random":
      low_bits = (int(self.seed) + 2**63) % 2**64 - 2**63
      seed = tf.stack([tf.constant(low_bits, tf.int64), round_num])
      # Cohorts are sorted by id, so the order of arrival does not matter.
      return tf.random.experimental.stateless_shuffle(
        tf.range(tf.size(loss)), seed=seed
      )
    return tf.argsort(loss, stable=True)

  def _keeps(self, loss: tf.Tensor) -> tf.Tensor:
    """Returns which clients' updates are not projected, bool[clients]."""
    num_clients = tf.size(loss)
    if self.alpha == 0:
      return tf.zeros_like(loss, tf.bool)
    last = tf.cast(num_clients - 1, tf.float64)
    first_kept = tf.cast(
      tf.math.ceil(last * (1.0 - self.alpha) - _ROUNDING), tf.int32
    )
    rank = tf.math.invert_permutation(tf.argsort(loss, stable=True))
    return rank >= first_kept


def _norm(gram: tf.Tensor, coefficients: tf.Tensor) -> tf.Tensor:
  """Returns the norm of a combination of updates; 0 if it is only rounding."""
  squared = inner_product(coefficients, tf.linalg.matvec(gram, coefficients))
  lengths = tf.abs(coefficients) * tf.sqrt(tf.linalg.diag_part(gram))
  rounding = _RELATIVE_ROUNDING * tf.square(tf.reduce_sum(lengths))
  return tf.where(
    squared > rounding, tf.sqrt(tf.nn.relu(squared)), tf.zeros_like(squared)
  )


build_fedfv = building.rule_builder(FedFvRule, "fedfv")


@summing.factory_of(FedFvRule)
class FedFvFactory(summing.RuleFactory):
  """Sums client updates with FedFV's coefficients."""
