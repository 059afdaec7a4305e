"""Cohorts for the tests of rules: plain arrays in, plain arrays out."""

import functools

import numpy as np
import tensorflow as tf

from tests import reference, small_problem
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
  """A cohort of all that a rule may know; `updates` is [m, d]."""
  updates = np.asarray(updates, np.float64)
  m = len(updates)
  n = np.ones(m) if num_examples is None else np.asarray(num_examples, float)
  gram = updates @ updates.T
  return types.Cohort(
    client_id=np.arange(m) if client_id is None else np.asarray(client_id),
    weight=np.full(m, 1 / m) if uniform else n / n.sum(),
    num_examples=n,
    loss=np.ones(m) if loss is None else np.asarray(loss, np.float64),
    accuracy=np.full(m, 0.5),
    num_steps=np.full(m, 3.0),
    learning_rate=np.broadcast_to(np.float64(learning_rate), [m]),
    squared_norm=np.diag(gram),
    gram=gram,
  )


def permuted(cohort, order) -> types.Cohort:
  """The same clients in another order."""
  return types.Cohort(
    *[x[order][:, order] if x.ndim == 2 else x[order] for x in cohort]
  )


@functools.cache
def _traced(rule):
  """The rule in a graph, as it runs, for any number of clients."""

  def run(cohort):
    output = rule.coefficients(cohort, rule.initialize())
    return output.coefficients, dict(output.measurements)

  specs = [tf.TensorSpec([None], x.dtype) for x in make([[1.0]])[:-1]]
  specs.append(tf.TensorSpec([None, None], tf.float64))
  return tf.function(run, input_signature=[types.Cohort(*specs)])


def coefficients(rule, cohort) -> np.ndarray:
  return _traced(rule)(cohort)[0].numpy()


def measurements(rule, cohort) -> dict[str, float]:
  return {name: float(x) for name, x in _traced(rule)(cohort)[1].items()}


def random(m, d, seed=0):
  """Unequal clients: updates [m, d], losses [m], numbers of examples [m]."""
  rng = np.random.default_rng(seed)
  updates = rng.normal(size=(m, d)) * rng.lognormal(size=(m, 1))
  return updates, rng.lognormal(size=m), rng.integers(1, 100, size=m)


def clients(updates, loss, num_examples) -> list[reference.Client]:
  """The same, as the NumPy reference takes it."""
  return [
    reference.Client(k, n, f, update)
    for k, (update, f, n) in enumerate(
      zip(updates, loss, num_examples, strict=True)
    )
  ]
