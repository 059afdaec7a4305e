"""Makes cohorts of plain arrays, and applies rules to them, for tests."""

import types as builtin_types
from typing import Any

import numpy as np

from tests import small_problem
from tests.methods import in_graph
from tff_fair import testing, types


def make(
  updates,
  loss=None,
  num_examples=None,
  *,
  client_id=None,
  uniform=False,
  learning_rate=small_problem.LEARNING_RATE,
  remembered=None,
  **signals,
) -> types.Cohort:
  """Returns a cohort with updates [m, d], and any further signals [m].

  `remembered` has ids [r], ages [r] and updates [r, d].
  """
  signals["learning_rate"] = learning_rate
  cohort = testing.make_cohort(
    updates, loss, num_examples, client_id=client_id, **signals
  )
  if uniform:
    m = len(cohort.weight)
    cohort = cohort._replace(weight=np.full(m, 1 / m))
  if remembered is None:
    return cohort
  ids, ages, old = remembered
  everything = np.concatenate([np.asarray(updates, np.float64), old])
  return cohort._replace(
    gram=everything @ everything.T,
    remembered_id=np.asarray(ids, np.int64),
    remembered_age=np.asarray(ages, np.int32),
  )


def of_losses(loss, num_examples=None, **options) -> types.Cohort:
  """Returns a cohort for a rule that reads no updates."""
  return make(np.ones([len(loss), 1]), loss, num_examples, **options)


def _columns(cohort) -> dict[str, np.ndarray]:
  """Returns the parts of a cohort that have a value per client, [m]."""
  return {
    name: x
    for name, x in cohort._asdict().items()
    if x is not None and name != "gram" and not name.startswith("remembered")
  }


def coefficients(rule, cohort) -> np.ndarray:
  """Returns the coefficients of a rule in its first round."""
  return in_graph.apply(rule, cohort).coefficients


def measurements(rule, cohort) -> dict[str, float]:
  """Returns the measurements of a rule in its first round."""
  reported = in_graph.apply(rule, cohort).measurements
  return {name: float(x) for name, x in reported.items()}


def random(m, d, seed=0):
  """Returns updates [m, d], losses [m] and example counts [m], all unequal."""
  rng = np.random.default_rng(seed)
  updates = rng.normal(size=(m, d)) * rng.lognormal(size=(m, 1))
  return updates, rng.lognormal(size=m), rng.integers(1, 100, size=m)


def random_for(rule, m, *, seed=0, client_id=None) -> types.Cohort:
  """Returns a cohort of unequal clients for the first round of `rule`."""
  updates, loss, num_examples = random(m, d=23, seed=seed)
  return make(
    updates,
    loss,
    num_examples,
    client_id=client_id,
    remembered=none_remembered(rule, updates),
    **random_signals(m, seed),
  )


def none_remembered(rule, updates):
  """Returns the empty memory of a rule's first round; None without memory."""
  if not rule.remembered_rounds:
    return None
  return [], [], np.zeros([0, updates.shape[1]])


def random_signals(m, seed=0) -> dict[str, np.ndarray]:
  """Returns signals of unequal clients, except loss and number of examples."""
  rng = np.random.default_rng([m, seed])
  return {
    "accuracy": rng.uniform(size=m),
    "effective_steps": rng.integers(1, 50, size=m).astype(float),
    "gradient_norm": rng.lognormal(size=m),
    "initial_loss": rng.lognormal(size=m),
  }


def clients(cohort, updates) -> list[Any]:
  """Returns a cohort's clients as the NumPy reference takes them."""
  return [
    builtin_types.SimpleNamespace(
      update=update, **{name: x[k] for name, x in _columns(cohort).items()}
    )
    for k, update in enumerate(updates)
  ]
