"""AdaFedAdam: Adam on fairly weighted, normalized updates; and N-AccAdam.

Ju, Zhang, Toor, Hellander, "Accelerating Fair Federated Learning: Adaptive
Federated Adam" (IEEE Transactions on Machine Learning in Communications and
Networking, 2024), Algorithms 1 to 3 and Section 4.2.

  eta'_k = ||Delta_k|| / G_k,  U_k = Delta_k / eta'_k
  C_k = log(eta'_k / eta) + 1,  I_k = F_k(theta) / F_k(theta^0)
  w_k = p_k I_k^alpha, normalized
  g = sum_k w_k U_k,  hence  c_k = w_k G_k / ||Delta_k||
  C = sum_k w_k C_k

Client k has the weight p_k, the loss F_k and the learning rate eta. G_k is the
norm of F_k's gradient at theta, over all local examples.
`tff_fair.finalizers.build_certain_adam` steps along g with certainty C.

Choices made here: a zero update or gradient contributes U_k = 0 with C_k = 1;
F_k(theta^0) = 0 gives I_k = 1; if all losses are 0, g = 0 with C = 1; C is at
least 1e-3, and `certainty_floored` reports when it was raised.

The ratio I_k is meaningful only for losses of 0 or more. Losses below 0 are set
to 0, which makes the rule unsound for losses without a lower bound, such as
negative log densities: a client whose loss is below 0 gets the weight 0. If all
clients get the weight 0, g = 0, but Adam still moves the model. With
F_k(theta^0) <= 0, I_k = 1.

N-AccAdam is Adam at the server, on the accumulated gradients of the clients:

  Delta_t = (x_t - SGD(x_t, eta, N)) / eta,  hence  c_k = p_k / eta

SGD(x_t, eta, N) is the model after N steps of SGD from x_t. The server's step
along Delta_t is AdaFedAdam's with certainty 1, which is Adam's.

Choice made here: in the paper, one machine takes the N steps of SGD. If all
clients had the same data, FedAdam would take the same server step along their
mean update. So here Delta_t is the mean of the clients' accumulated gradients.
Unlike `fedadam`, N-AccAdam divides by eta, and adds epsilon where the paper's
algorithm does.
"""

import collections
import dataclasses
import functools
from collections.abc import Mapping
from typing import Unpack

import tensorflow as tf

from tff_fair import declared, finalizers, rounds, types
from tff_fair.kernels import norms
from tff_fair.methods import building

_LEAST_CERTAINTY = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaFedAdamRule(types.SeparableRule):
  """Chooses AdaFedAdam's coefficients; the finalizer gets C as `certainty`."""

  alpha: float = declared.value(
    1.0, "Emphasis on clients whose losses have improved less.", minimum=0
  )

  signals = ("loss", "initial_loss", "gradient_norm", "learning_rate")
  counts_negative_as_zero = True
  geometry = types.Geometry.NORMS

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    log_weight = self._log_improvement(cohort)
    w = tf.where(
      tf.reduce_max(log_weight) > float("-inf"),
      tf.nn.softmax(log_weight),
      tf.zeros_like(log_weight),
    )
    scale = _inverse_rate(cohort)
    certainty = 1.0 - tf.reduce_sum(w * _log_ratio(cohort, scale))
    measurements, for_finalizer = _reported_certainty(certainty)
    return types.RuleOutput(
      w * scale,
      state,
      collections.OrderedDict(
        measurements, weight_min=tf.reduce_min(w), weight_max=tf.reduce_max(w)
      ),
      for_finalizer=for_finalizer,
    )

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    return self._log_improvement(cohort) + tf.math.log(_inverse_rate(cohort))

  def _log_improvement(self, cohort: types.Cohort) -> tf.Tensor:
    """Returns log p_k + alpha log I_k, float64[clients]; its softmax is w.

    An entry is -inf if w_k is 0. A common factor of all p_k does not change w.
    """
    log_weight = tf.math.log(cohort.weight)
    if self.alpha == 0:
      return log_weight
    loss, initial_loss = map(tf.nn.relu, (cohort.loss, cohort.initial_loss))
    log_ratio = tf.where(
      initial_loss > 0,
      tf.math.log(loss) - tf.math.log(initial_loss),
      tf.zeros_like(loss),
    )
    return log_weight + self.alpha * log_ratio

  def terms(self, cohort: types.Cohort) -> Mapping[str, tf.Tensor]:
    """See the base class."""
    w = tf.exp(self._log_improvement(cohort))
    log_ratio = _log_ratio(cohort, _inverse_rate(cohort))
    return {"improvement": w, "log_ratio": w * log_ratio}

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """See the base class."""
    total = sums.terms["improvement"]
    certainty = 1.0 - tf.math.divide_no_nan(sums.terms["log_ratio"], total)
    measurements, for_finalizer = _reported_certainty(certainty)
    return types.SumsOutput(
      tf.math.reciprocal_no_nan(total),
      measurements=measurements,
      for_finalizer=for_finalizer,
    )


def _log_ratio(cohort: types.Cohort, scale: tf.Tensor) -> tf.Tensor:
  """Returns 1 - C_k, where `scale` is 1/eta'_k; 0 if `scale` is 0."""
  moves = scale > 0
  return tf.where(
    moves,
    tf.math.log(tf.where(moves, scale, 1.0))
    + tf.math.log(cohort.learning_rate),
    tf.zeros_like(scale),
  )


def _reported_certainty(
  certainty: tf.Tensor,
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
  """Returns the measurements of C, and the finalizer's C, at least 1e-3."""
  held = tf.maximum(certainty, tf.constant(_LEAST_CERTAINTY, tf.float64))
  return (
    collections.OrderedDict(
      certainty=certainty,
      certainty_floored=tf.cast(certainty < held, tf.int32),
    ),
    collections.OrderedDict(certainty=held),
  )


def _inverse_rate(cohort: types.Cohort) -> tf.Tensor:
  """Returns 1/eta'_k = G_k / ||Delta_k||, and 0 for a zero update."""
  return cohort.gradient_norm * norms.inverse_norms(cohort.squared_norm)


@building.builder(AdaFedAdamRule, finalizers.CertainAdamSettings)
def build_adafedadam(
  model_fn: rounds.ModelFn,
  rule: AdaFedAdamRule,
  adam: finalizers.CertainAdamSettings,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds AdaFedAdam."""
  return rounds.compose(
    model_fn,
    rule,
    finalizer=functools.partial(finalizers.build_certain_adam, adam),
    **options,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NAccAdamRule(types.SeparableRule):
  """Chooses c_k = p_k / eta, for a server step with the certainty 1."""

  signals = ("learning_rate",)

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    return types.RuleOutput(
      tf.math.divide_no_nan(cohort.weight, cohort.learning_rate),
      state,
      for_finalizer=_unit_certainty(),
    )

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    return tf.math.log(
      tf.math.divide_no_nan(cohort.weight, cohort.learning_rate)
    )

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """See the base class."""
    return types.SumsOutput(
      tf.math.reciprocal_no_nan(sums.weight), for_finalizer=_unit_certainty()
    )


def _unit_certainty() -> dict[str, tf.Tensor]:
  return collections.OrderedDict(certainty=tf.ones([], tf.float64))


@building.builder(NAccAdamRule, finalizers.CertainAdamSettings)
def build_n_accadam(
  model_fn: rounds.ModelFn,
  rule: NAccAdamRule,
  adam: finalizers.CertainAdamSettings,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds N-AccAdam."""
  return rounds.compose(
    model_fn,
    rule,
    finalizer=functools.partial(finalizers.build_certain_adam, adam),
    **options,
  )
