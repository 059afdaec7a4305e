"""Cohorts for the tests of rules: plain arrays in, plain arrays out."""

import functools
import types as builtin_types
from typing import Any

import numpy as np
import tensorflow as tf

from tests import small_problem
from tff_fair import types


def make(
  updates,
  loss=None,
  num_examples=None,
  *,
  client_id=None,
  uniform=False,
  learning_rate=small_problem.LEARNING_RATE,
) -> types.Cohort:
  """A cohort of clients with the updates [m, d]."""
  updates = np.asarray(updates, np.float64)
  m = len(updates)
  n = np.ones(m) if num_examples is None else np.asarray(num_examples, float)
  gram = updates @ updates.T
  return types.Cohort(
    client_id=np.arange(m) if client_id is None else np.asarray(client_id),
    weight=np.full(m, 1 / m) if uniform else n / n.sum(),
    num_examples=n,
    loss=np.ones(m) if loss is None else np.asarray(loss, np.float64),
    learning_rate=np.broadcast_to(np.float64(learning_rate), [m]),
    squared_norm=np.diag(gram),
    gram=gram,
  )


def permuted(cohort, order) -> types.Cohort:
  """The same clients in another order, or some of them."""
  return cohort._replace(
    **{
      name: x[order][:, order] if x.ndim == 2 else x[order]
      for name, x in _known(cohort).items()
    }
  )


def _known(cohort) -> dict[str, np.ndarray]:
  return {name: x for name, x in cohort._asdict().items() if x is not None}


@functools.cache
def _traced(rule):
  """The rule in a graph, as it runs, for any number of clients."""

  def run(known):
    output = rule.coefficients(types.Cohort(**known), rule.initialize())
    return output.coefficients, dict(output.measurements)

  specs = {
    name: tf.TensorSpec([None] * x.ndim, x.dtype)
    for name, x in _known(make([[1.0]])).items()
  }
  return tf.function(run, input_signature=[specs])


def coefficients(rule, cohort) -> np.ndarray:
  return _traced(rule)(_known(cohort))[0].numpy()


def measurements(rule, cohort) -> dict[str, float]:
  reported = _traced(rule)(_known(cohort))[1]
  return {name: float(x) for name, x in reported.items()}


def random(m, d, seed=0):
  """Unequal clients: updates [m, d], losses [m], numbers of examples [m]."""
  rng = np.random.default_rng(seed)
  updates = rng.normal(size=(m, d)) * rng.lognormal(size=(m, 1))
  return updates, rng.lognormal(size=m), rng.integers(1, 100, size=m)


def clients(updates, loss, num_examples) -> list[Any]:
  """The same, as the NumPy reference takes it."""
  return [
    builtin_types.SimpleNamespace(num_examples=n, loss=f, update=update)
    for update, f, n in zip(updates, loss, num_examples, strict=True)
  ]
