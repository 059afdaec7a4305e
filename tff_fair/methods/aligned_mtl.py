"""Aligned-MTL: the mean of updates with equalized principal components.

Senushkin, Patakin, Kuznetsov, Konushin, "Independent Component Alignment for
Multi-Task Learning" (CVPR 2023), Algorithm 1.

  M = V diag(sigma) V^T,  over the eigenvalues above 0
  B = sqrt(min sigma) V diag(sigma^(-1/2)) V^T
  c_k = 1/m sum_j B_kj

M is the Gram matrix of the m updates, and c_k client k's coefficient. Choices
made here: eigenvalues up to 1e-12 of the largest count as 0; of the scales that
the paper proposes for B, it has the smallest, as in the paper's algorithm.
"""

import dataclasses

import tensorflow as tf

from tff_fair import summing, types
from tff_fair.methods import building

_RELATIVE_CUTOFF = 1e-12


def aligned_coefficients(gram: tf.Tensor) -> tf.Tensor:
  """Returns Aligned-MTL's coefficients, float64[m]; 1/m if M is 0."""
  eigenvalues, vectors = tf.linalg.eigh(gram)
  is_positive = eigenvalues > _RELATIVE_CUTOFF * tf.nn.relu(eigenvalues[-1])
  least = tf.reduce_min(tf.where(is_positive, eigenvalues, eigenvalues[-1]))
  stretch = tf.where(
    is_positive,
    tf.sqrt(tf.math.divide_no_nan(least, eigenvalues)),
    tf.zeros_like(eigenvalues),
  )
  even = tf.fill(
    tf.shape(eigenvalues), 1.0 / tf.cast(tf.size(eigenvalues), gram.dtype)
  )
  components = tf.linalg.matvec(vectors, even, transpose_a=True)
  aligned = tf.linalg.matvec(vectors, stretch * components)
  return tf.where(tf.reduce_any(is_positive), aligned, even)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlignedMtlRule(types.Rule):
  """Chooses Aligned-MTL's coefficients."""

  geometry = types.Geometry.GRAM

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    return types.RuleOutput(aligned_coefficients(cohort.gram), state)


build_aligned_mtl = building.rule_builder(AlignedMtlRule, "aligned_mtl")


@summing.factory_of(AlignedMtlRule)
class AlignedMtlFactory(summing.RuleFactory):
  """Sums client updates with Aligned-MTL's coefficients."""
