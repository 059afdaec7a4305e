"""Applies the library's rules to given gradients, for the demonstrations."""

import functools
from typing import Any

import numpy as np
import scipy.optimize
import tensorflow as tf

from tff_fair import types
from tff_fair.methods.fedmgda_plus import FedMgdaPlusRule

MGDA = FedMgdaPlusRule(epsilon=1.0, normalize=False)


def apply(
  rule: types.Rule, updates: np.ndarray, loss: np.ndarray, **signals: np.ndarray
) -> types.RuleOutput:
  """Returns a rule's output in the first round, with equal client weights."""
  m = len(updates)
  known = {"weight": np.full(m, 1 / m), "loss": loss, **signals}
  return _traced(rule, m, tuple(known))(updates @ updates.T, *known.values())


@functools.cache
def _traced(rule: types.Rule, m: int, names: tuple[str, ...]) -> Any:
  """Compiles a rule to a graph, a hundred times as fast as eager execution."""
  column = tf.TensorSpec([m], tf.float64)

  @tf.function(
    input_signature=[tf.TensorSpec([m, m], tf.float64), *[column] * len(names)]
  )
  def run(gram: tf.Tensor, *columns: tf.Tensor) -> types.RuleOutput:
    cohort = types.Cohort(
      client_id=tf.range(m, dtype=tf.int64),
      num_examples=tf.ones([m], tf.float64),
      squared_norm=tf.linalg.diag_part(gram),
      gram=gram,
      **dict(zip(names, columns, strict=True)),
    )
    return rule.coefficients(cohort, rule.initialize())

  return run


def direction(
  rule: types.Rule, updates: np.ndarray, loss: np.ndarray
) -> np.ndarray:
  """Returns d = sum_k c_k Delta_k, float64[d], in the first round."""
  return apply(rule, updates, loss).coefficients.numpy() @ updates


def quadratics(
  theta: np.ndarray, optima: np.ndarray, curvature: np.ndarray
) -> np.ndarray:
  """Returns all f_k = sum_j curvature_kj (theta_j - optima_kj)^2 / 2."""
  return np.asarray(np.sum(curvature * (theta - optima) ** 2, axis=1) / 2)


def distance_to_hull(point: np.ndarray, corners: np.ndarray) -> float:
  """Returns the distance of a point from the convex hull of corners, [m, d]."""
  # A large penalty on sum(shares) - 1 turns this into a least-squares problem.
  penalty = 1e6
  shares, _ = scipy.optimize.nnls(
    np.vstack([corners.T, np.full(len(corners), penalty)]),
    np.append(point, penalty),
  )
  return float(np.linalg.norm(shares @ corners - point))


def unit_vector(vector: np.ndarray) -> np.ndarray:
  """Returns a vector scaled to length 1; zero stays zero."""
  length = np.linalg.norm(vector)
  return vector / length if length else vector
