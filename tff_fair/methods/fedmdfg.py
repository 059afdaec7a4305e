"""FedMDFG: a common descent direction, guided towards equal losses.

Pan, Wang, Li, Wang, Tang, Zhao, "FedMDFG: Federated Learning with
Multi-Gradient Descent and Fair Guidance" (AAAI 2023).

  g_k = mu Delta_k / ||Delta_k||,  mu = mean ||Delta_k||
  l = f / ||f||,  e = (1, ..., 1) / sqrt(m)
  h = (<e, l> l - e) / ||<e, l> l - e||,  g_h = sum_k h_k g_k
  d* = the point of least norm in the convex hull of the g_k, and of g_h if the
       angle between l and e exceeds theta
  d = d* / ||d*|| ||1/m sum_k g_k||

f holds the losses of the cohort's m clients, and Delta_k is client k's update.
The Gram matrix and the losses determine d: if d* has the coefficients lambda in
the hull, g_k has the coefficient lambda_k + lambda_h h_k. Clients with Delta_k
= 0 are left out. d = 0 if d* = 0; here also if ||d*|| <= 1e-6 mu, because the
direction of such a short d* consists of rounding errors.

With line_search = s > 0, clients report f_k(theta - eta_s 2^j d) for all j from
s to -s; eta is the clients' learning rate, eta_s the server's. The server's
step is eta_s 2^j d with the largest j such that for all k

  f_k(theta) - f_k(theta - eta_s 2^j d) >= 1e-4 eta_s 2^j <Delta_k / eta, d>

or, if there is no such j, with the j for which the reported losses have the
least sum over k. There is no step if no j gives losses that are finite for all
k.

Parts of the authors' published code that are left out: when cohorts change, the
last cohort's gradients join the hull; when some clients' losses have risen, g_h
joins the hull; if no step is sufficient, the longest step that lowers sum_k f_k
is taken.
"""

import collections
import dataclasses
import math
from typing import ClassVar, Unpack

import tensorflow as tf

from tff_fair import declared, rounds, summing, types
from tff_fair.kernels import inner_product, min_norm_point
from tff_fair.methods import building

# ||d*||^2 / mu^2, and the sine of an angle, count as 0 up to this.
_NEGLIGIBLE = 1e-12
# Armijo's condition: the required share of the decrease that a slope predicts.
_SUFFICIENT_DECREASE = 1e-4


def guidance(
  loss: tf.Tensor, is_included: tf.Tensor, theta: float
) -> tf.Tensor:
  """Returns h, the direction in which losses become more equal.

  It is float64[m], of norm 1; zero if the angle between l and e is at most
  theta, in degrees. `is_included`, bool[m], selects clients.
  """
  count = tf.cast(is_included, loss.dtype)
  loss = loss * count
  largest = tf.reduce_max(tf.abs(loss))
  loss = tf.math.divide_no_nan(loss, largest)  # Keeps squares finite.
  l = tf.math.divide_no_nan(loss, tf.norm(loss))  # noqa: E741
  e = tf.math.divide_no_nan(count, tf.norm(count))
  cosine = inner_product(e, l)
  h = cosine * l - e
  sine = tf.norm(h)
  exceeds = tf.atan2(sine, cosine) > math.radians(theta)
  return tf.where(
    exceeds & (largest > 0) & (sine > _NEGLIGIBLE),
    tf.math.divide_no_nan(h, sine),
    tf.zeros_like(h),
  )


def fedmdfg_coefficients(
  gram: tf.Tensor, loss: tf.Tensor, theta: float
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns FedMDFG's coefficients c, float64[m], and lambda_h, float64[].

  lambda_h is the weight of the guidance g_h in the point of least norm. `theta`
  is the tolerated angle, in degrees.
  """
  length = tf.sqrt(tf.nn.relu(tf.linalg.diag_part(gram)))
  is_included = length > 0
  count = tf.cast(is_included, gram.dtype)
  num_counted = tf.reduce_sum(count)
  inverse = tf.math.reciprocal_no_nan(length)
  # The Gram matrix of the g_k for mu = 1, as mu does not affect lambda.
  unit = gram * inverse[:, tf.newaxis] * inverse[tf.newaxis, :]
  h = guidance(loss, is_included, theta)

  # Row i has the coefficients of point i of the hull with respect to the g_k.
  points = tf.concat([tf.eye(tf.size(h), dtype=h.dtype), h[tf.newaxis]], 0)
  hull = tf.matmul(tf.matmul(points, unit), points, transpose_b=True)
  is_guided = tf.cast(tf.reduce_any(tf.not_equal(h, 0.0)), h.dtype)
  share = min_norm_point(
    hull, lower=0.0, upper=tf.concat([count, is_guided[tf.newaxis]], 0)
  ).coefficients
  weights = tf.linalg.matvec(points, share, transpose_a=True)

  squared_norm = tf.nn.relu(_squared_norm(unit, weights))
  mean = tf.math.divide_no_nan(count, num_counted)
  mean_norm = tf.sqrt(tf.nn.relu(_squared_norm(unit, mean)))
  mu = tf.math.divide_no_nan(tf.reduce_sum(length), num_counted)
  factor = tf.where(
    squared_norm > _NEGLIGIBLE,
    mean_norm * mu * tf.math.rsqrt(squared_norm),
    tf.zeros_like(squared_norm),
  )
  return factor * weights * inverse, share[-1]


def _squared_norm(gram: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
  return inner_product(weights, tf.linalg.matvec(gram, weights))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedMdfgRule(types.Rule):
  """Chooses FedMDFG's coefficients."""

  theta: float = declared.value(
    11.25,
    "Angle in degrees between the losses and equal ones, above which the "
    "direction is guided towards equal losses.",
    minimum=0,
    maximum=90,
    exclude_minimum=True,
    exclude_maximum=True,
  )

  signals: ClassVar[tuple[str, ...]] = ("loss",)
  geometry = types.Geometry.GRAM

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    coefficients, guidance_share = fedmdfg_coefficients(
      cohort.gram, cohort.loss, self.theta
    )
    return types.RuleOutput(
      coefficients,
      state,
      collections.OrderedDict(guidance_share=guidance_share),
    )


class SearchingFedMdfgRule(FedMdfgRule):
  """FedMDFG's rule for a line search; `slopes` reports <Delta_k / eta, d>."""

  signals = (*FedMdfgRule.signals, "learning_rate")

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class; the slope of a client that is left out is NaN."""
    output = super().coefficients(cohort, state)
    slopes = tf.math.divide_no_nan(
      tf.linalg.matvec(cohort.gram, output.coefficients), cohort.learning_rate
    )
    slopes = tf.where(cohort.squared_norm > 0, slopes, float("nan"))
    return output._replace(
      measurements={**output.measurements, "slopes": slopes}
    )


def choose_step(trials: rounds.Trials) -> rounds.Choice:
  """Chooses the factor of the server's step, 2^j or 0, as the module defines.

  Clients whose slope is NaN do not affect the choice.
  """
  has_slope = ~tf.math.is_nan(trials.slope)[:, tf.newaxis]
  promised = trials.slope[:, tf.newaxis] * trials.factor * trials.learning_rate
  decrease = trials.loss[:, tf.newaxis] - trials.trial_loss
  is_finite = tf.math.is_finite(trials.trial_loss)
  is_sufficient = is_finite & (decrease >= _SUFFICIENT_DECREASE * promised)
  suffices = tf.reduce_all(is_sufficient | ~has_slope, axis=0)
  can_be_taken = tf.reduce_all(is_finite | ~has_slope, axis=0)

  none = tf.zeros_like(trials.factor)
  longest = tf.reduce_max(tf.where(suffices, trials.factor, none))
  total = tf.reduce_sum(
    tf.where(has_slope & is_finite, trials.trial_loss, 0.0), axis=0
  )
  least = tf.argmin(tf.where(can_be_taken, total, float("inf")))
  fallback = tf.where(can_be_taken, trials.factor, none)[least]
  any_suffices = tf.reduce_any(suffices)
  return rounds.Choice(tf.where(any_suffices, longest, fallback), any_suffices)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepSearch(declared.Hyperparameters):
  """The settings of the search for the step's length."""

  line_search: int = declared.value(
    0,
    "Halvings and doublings of the server's step, s, that clients try in 2 s + "
    "1 passes over their examples; 0 takes the step of the server's rate.",
    minimum=0,
    maximum=30,
  )


@building.builder(FedMdfgRule, StepSearch)
def build_fedmdfg(
  model_fn: rounds.ModelFn,
  rule: FedMdfgRule,
  search: StepSearch,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds FedMDFG; a `line_search` above 0 searches for the step's length."""
  steps = search.line_search
  if steps == 0:
    return rounds.compose(model_fn, rule, **options)
  return rounds.compose(
    model_fn,
    SearchingFedMdfgRule(theta=rule.theta),
    line_search=rounds.LineSearch(
      factors=tuple(2.0**j for j in range(steps, -steps - 1, -1)),
      choose=choose_step,
    ),
    **options,
  )


@summing.factory_of(FedMdfgRule)
class FedMdfgFactory(summing.RuleFactory):
  """Sums client updates with FedMDFG's coefficients."""
