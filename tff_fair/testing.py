"""Checks a user's own rule, in one line of pytest.

    def test_my_rule():
      tff_fair.testing.check_rule(MyRule, reference)

`reference(cohort, **hyperparameters)` returns the coefficients of the first
round in NumPy: float64[m]. Its cohort is a `tff_fair.types.Cohort` of arrays:
`loss`, `num_examples`, `weight`, `gram`, `client_id` and so on.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared, runtime, summing, types
from tff_fair.methods import user_method
from tff_fair.runtime import chosen_context

Reference = Callable[..., np.ndarray]

# The signals that all clients report unless a cohort has other values.
_DEFAULT_SIGNALS = {
  "accuracy": 0.5,
  "effective_steps": 3.0,
  "gradient_norm": 2.0,
  "initial_loss": 1.5,
  "learning_rate": 0.1,
}
_ROWS = np.random.default_rng(1).normal(size=(4, 9))
_LOSS = [1, 2, 0.5, 1]
# Arguments of `make_cohort`, by case; signals that a case does not have are
# equal for all clients.
HARD_COHORTS: dict[str, dict[str, Any]] = {
  "one client": {"updates": _ROWS[:1], "loss": [0.7]},
  "identical clients": {"updates": _ROWS[[0, 0]], "loss": [0.7, 0.7]},
  "identical updates": {"updates": _ROWS[[0, 0, 1]], "loss": [0.7, 0.2, 1]},
  "opposite updates": {"updates": [_ROWS[0], -_ROWS[0]], "loss": [0.7, 0.2]},
  "all updates zero": {"updates": np.zeros([3, 9]), "loss": [0.7, 0.2, 1]},
  "one update zero": {
    "updates": _ROWS * [[1], [0], [1], [1]],
    "loss": [0.7, 0.2, 1, 2],
  },
  "more clients than weights": {
    "updates": _ROWS[:, :2],
    "loss": [0.7, 0.2, 1, 2],
  },
  "no loss": {"updates": _ROWS, "loss": [0, 0, 0, 0]},
  "one loss zero": {"updates": _ROWS, "loss": [0.7, 0, 1, 2]},
  "tiny losses": {"updates": _ROWS, "loss": [1e-30, 2e-30, 3e-30, 5e-30]},
  "huge losses": {"updates": _ROWS, "loss": [1e6, 2e6, 3e6, 5e6]},
  "tiny and huge losses": {"updates": _ROWS, "loss": [1e-30, 1, 1e6, 0.3]},
  "negative losses": {"updates": _ROWS, "loss": [-1, -2, 0.5, -1e6]},
  "one update huge": {
    "updates": _ROWS * [[1e30], [1], [1], [1]],
    "loss": _LOSS,
  },
  "one update tiny": {
    "updates": _ROWS * [[1e-30], [1], [1], [1]],
    "loss": _LOSS,
  },
  "all updates huge": {"updates": _ROWS * 1e38, "loss": _LOSS},
  "all updates tiny": {"updates": _ROWS * 1e-38, "loss": _LOSS},
  "ties": {
    "updates": _ROWS,
    "loss": [2, 1, 2, 1],
    "num_examples": [1, 5, 3, 1],
  },
  "nearly ties": {"updates": _ROWS, "loss": [1, np.nextafter(1, 2), 1, 2]},
  "unequal sizes": {
    "updates": _ROWS,
    "loss": _LOSS,
    "num_examples": [1, 1e9, 3, 2**24],
  },
  "no accuracy": {"updates": _ROWS, "accuracy": 0},
  "one accuracy zero": {"updates": _ROWS, "accuracy": [1, 0, 0.5, 1e-38]},
  "full accuracy": {"updates": _ROWS, "accuracy": 1},
  "unequal steps": {
    "updates": _ROWS,
    "effective_steps": [1, 1e9, 0.5, 3],
    "num_examples": [1, 5, 3, 1],
  },
  "tiny and huge steps": {
    "updates": _ROWS,
    "effective_steps": [0, 1e30, 1e-30, 1],
  },
  "no steps": {"updates": np.zeros([3, 9]), "effective_steps": 0},
  "no gradient": {"updates": _ROWS, "gradient_norm": 0},
  "one gradient zero": {"updates": _ROWS, "gradient_norm": [0, 1, 2, 3]},
  "tiny and huge gradients": {
    "updates": _ROWS,
    "gradient_norm": [1e-30, 1, 1e30, 2],
  },
  "no initial loss": {"updates": _ROWS, "initial_loss": 0},
  "no loss now nor then": {
    "updates": _ROWS,
    "loss": [0, 0, 0, 0],
    "initial_loss": 0,
  },
  "tiny initial losses": {
    "updates": _ROWS,
    "loss": _LOSS,
    "initial_loss": [0, 1e-30, 2e-30, 1],
  },
  "no learning rate": {"updates": np.zeros([3, 9]), "learning_rate": 0},
}

_SIZE = 9  # The least length of a random update.
_TOLERANCE = 1e-6


def make_cohort(
  updates: Any,
  loss: Any = None,
  num_examples: Any = None,
  *,
  client_id: Any = None,
  **signals: Any,
) -> types.Cohort:
  """Returns a cohort whose fields are NumPy arrays.

  Args:
    updates: [m, d], the updates of m clients, from which the cohort gets norms
      and the Gram matrix.
    loss: [m]; 1 by default.
    num_examples: [m]; 1 by default.
    client_id: [m]; 0, 1, ... by default.
    **signals: Further signals, [m] or a number for all clients.
  """
  updates = np.asarray(updates, np.float64)
  m = len(updates)
  n = np.ones(m) if num_examples is None else np.asarray(num_examples, float)
  gram = updates @ updates.T
  return types.Cohort(
    client_id=np.arange(m) if client_id is None else np.asarray(client_id),
    weight=n / n.sum(),
    num_examples=n,
    loss=np.ones(m) if loss is None else np.asarray(loss, np.float64),
    squared_norm=np.diag(gram),
    gram=gram,
    **{
      name: np.broadcast_to(np.asarray(signals.get(name, usual), float), [m])
      for name, usual in _DEFAULT_SIGNALS.items()
    },
  )


def take(cohort: types.Cohort, order: Any) -> types.Cohort:
  """Returns the cohort of the clients at the positions in `order`."""
  return types.Cohort(
    **{
      name: value[np.ix_(order, order)] if name == "gram" else value[order]
      for name, value in cohort._asdict().items()
      if value is not None
    }
  )


def check_rule(
  rule_class: type[types.Rule],
  reference: Reference | None = None,
  *,
  settings: Sequence[Mapping[str, Any]] = (),
  is_ordered: bool = False,
) -> None:
  """Checks that a rule meets the contract of rules, and agrees with NumPy.

  The checks run with the defaults and with each of the settings. Coefficients
  must equal those of the reference, be finite for hard cohorts (one client,
  zero and opposite updates, losses of any size), not depend on the order of
  clients, and be equal for equal clients. The rule must read only the signals
  and geometry that it declares, and keep the type of its state. A
  `SeparableRule` must have the form that this class documents, also in
  `from_sums`. Every kind of aggregation that the rule allows must return the
  rule's direction, except for secure sums of a `ComparingRule`, which may round
  losses, and secure sums without `log_reference`.

  Args:
    rule_class: The class of the rule.
    reference: The formula in NumPy, as the module's docstring describes; None
      skips the comparison with NumPy.
    settings: Hyperparameters to check in addition to the defaults.
    is_ordered: Whether coefficients may depend on the order of clients' ids, as
      with random draws; equal clients may then differ, too.

  Raises:
    AssertionError: If a check fails; the message names all failed checks.
  """
  failures = [
    f"{case}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    for case, error in _failures(
      rule_class, reference, [{}, *settings], is_ordered
    )
  ]
  assert not failures, "\n".join([f"{rule_class.__name__}:", *failures])


def _failures(
  rule_class: type[types.Rule],
  reference: Reference | None,
  settings: Sequence[Mapping[str, Any]],
  is_ordered: bool,
) -> Iterator[tuple[str, Exception]]:
  """Yields the names of failed checks, each with its error."""
  for problem in user_method.problems(rule_class):
    yield "declaration", AssertionError(problem)
    return
  fields = declared.fields_of(rule_class)
  needed = {"num_clients": 10} if "num_clients" in fields else {}
  checks: list[Callable[[Any], None]] = [
    _check_hard_cohorts,
    _check_what_is_read,
    _check_state,
    _check_sums,
  ]
  if not is_ordered:
    checks += [_check_order, _check_equal_clients]
  if issubclass(rule_class, types.SeparableRule):
    checks.append(_check_form)
  if reference is not None:
    checks.append(functools.partial(_check_reference, reference, needed))
  for setting in settings:
    rule = rule_class(**{**needed, **setting})
    for check in checks:
      try:
        check(rule)
      except Exception as error:  # A user's code may raise any error.
        title = getattr(check, "func", check).__name__.removeprefix("_check_")
        yield f"{title.replace('_', ' ')} {dict(setting) or ''}".strip(), error


def _random_cohort(m: int, seed: int = 0) -> types.Cohort:
  """Returns a random cohort of m clients that all differ."""
  rng = np.random.default_rng([m, seed])
  return make_cohort(
    rng.normal(size=(m, _SIZE + m)) * rng.lognormal(size=(m, 1)),
    rng.lognormal(size=m),
    rng.integers(1, 100, size=m),
    accuracy=rng.uniform(size=m),
    effective_steps=rng.integers(1, 50, size=m).astype(float),
    gradient_norm=rng.lognormal(size=m),
    initial_loss=rng.lognormal(size=m),
  )


def _apply(
  rule: types.Rule, cohort: types.Cohort, state: Any = None
) -> types.RuleOutput:
  """Returns a rule's output as arrays, by default from the initial state."""
  cohort = _tensors(cohort)
  if rule.remembered_rounds:
    cohort = cohort._replace(
      remembered_id=tf.zeros([0], tf.int64),
      remembered_age=tf.zeros([0], tf.int32),
    )
  state = rule.initialize() if state is None else state
  output = rule.coefficients(cohort, state)
  return tf.nest.map_structure(np.asarray, output)


def _check_reference(
  reference: Reference, needed: Mapping[str, Any], rule: types.Rule
) -> None:
  names = [n for n in declared.fields_of(type(rule)) if n not in needed]
  hparams = {name: getattr(rule, name) for name in names}
  for m in (1, 2, 7):
    cohort = _random_cohort(m)
    expected = np.asarray(reference(cohort, **needed, **hparams))
    found = _apply(rule, cohort).coefficients
    np.testing.assert_allclose(
      found, expected, _TOLERANCE, _TOLERANCE * np.abs(expected).max(initial=0)
    )


def _check_hard_cohorts(rule: types.Rule) -> None:
  for case, values in HARD_COHORTS.items():
    cohort = make_cohort(**values)
    output = _apply(rule, cohort)
    c = output.coefficients
    assert c.dtype == np.float64, f"{case}: coefficients are {c.dtype}"
    assert c.shape == cohort.loss.shape, f"{case}: coefficients {c.shape}"
    assert np.isfinite(c).all(), f"{case}: coefficients {c}"
    for value in tf.nest.flatten((output.for_finalizer, output.state)):
      assert np.isfinite(value).all(), f"{case}: {value}"


def _later_state(rule: types.Rule) -> Any:
  """Returns a rule's state after rounds with some of the clients 0 to 9."""
  state = rule.initialize()
  if not tf.nest.flatten(state):
    return state
  for seed, client_id in enumerate(([0, 1, 3], [1, 2, 7], [3, 7, 9])):
    cohort = _random_cohort(3, seed)._replace(client_id=np.array(client_id))
    state = _apply(rule, cohort, state).state
  return state


def _check_order(rule: types.Rule) -> None:
  cohort, order = _random_cohort(6), np.array([3, 0, 5, 1, 2, 4])
  state = _later_state(rule)
  there, back = (
    _apply(rule, found, state) for found in (cohort, take(cohort, order))
  )
  _assert_close(back.coefficients, there.coefficients[order])
  _assert_close(back.state, there.state)


def _assert_close(actual: Any, expected: Any) -> None:
  tf.nest.map_structure(
    lambda x, y: np.testing.assert_allclose(x, y, _TOLERANCE, 1e-12),
    actual,
    expected,
  )


def _check_equal_clients(rule: types.Rule) -> None:
  updates = np.random.default_rng(0).normal(size=(3, _SIZE))[[0, 0, 1, 1, 2, 2]]
  loss = np.repeat([0.7, 0.2, 1.0], 2)
  c = _apply(rule, make_cohort(updates, loss)).coefficients
  np.testing.assert_allclose(c[::2], c[1::2], 1e-9, 1e-12)


def _check_what_is_read(rule: types.Rule) -> None:
  cohort = _random_cohort(5)
  known = {"client_id", "weight", "num_examples", *rule.signals}
  if rule.geometry is not types.Geometry.NONE:
    known.add("squared_norm")
  if rule.geometry is types.Geometry.GRAM:
    known.add("gram")
  hidden = dict.fromkeys(set(types.Cohort._fields) - known)
  _assert_close(_apply(rule, cohort._replace(**hidden)), _apply(rule, cohort))


def _check_state(rule: types.Rule) -> None:
  before = tf.nest.map_structure(np.asarray, rule.initialize())
  state = _later_state(rule)
  first, again = (_apply(rule, _random_cohort(4), state) for _ in range(2))
  tf.nest.map_structure(np.testing.assert_array_equal, first, again)
  tf.nest.assert_same_structure(first.state, before)
  for new, old in zip(
    tf.nest.flatten(first.state), tf.nest.flatten(before), strict=True
  ):
    assert (new.dtype, new.ndim) == (old.dtype, old.ndim)


def _check_form(rule: Any) -> None:
  """Checks c_k = exp(l_k) (u + v x_k), where only client k determines l_k, x_k.

  Only client k may determine its terms of further sums, too.
  """
  cohort = _random_cohort(6)
  cohort = cohort._replace(weight=cohort.num_examples)

  def values_of(clients: types.Cohort) -> Any:
    given = _tensors(clients)
    x = rule.covariate(given)
    log_weight, terms = rule.log_weight(given), {**rule.terms(given)}
    return tf.nest.map_structure(
      np.asarray, (log_weight, [] if x is None else [x], terms)
    )

  together = values_of(cohort)
  tf.nest.map_structure(
    lambda values, *own: np.testing.assert_allclose(
      values, np.concatenate(own), 1e-9
    ),
    together,
    *(values_of(take(cohort, [k])) for k in range(6)),
  )
  log_weight, x, terms = together
  columns = np.stack([np.ones(6), *x])
  expected = _apply(rule, _random_cohort(6))
  c = expected.coefficients
  tolerance = 1e-12 * np.abs(c).max()
  e = np.exp(log_weight - log_weight.max())
  fit = np.linalg.lstsq((e * columns).T, c, rcond=None)[0]
  np.testing.assert_allclose(fit @ columns * e, c, _TOLERANCE, tolerance)
  if not rule.can_use_sums() or (reference := _reference(rule)) is None:
    return
  e = np.exp(log_weight - reference)
  first = e * columns[-1] * bool(x)
  sums = (cohort.num_examples, e, first, first * columns[-1])
  weight, scale, first, second = (tf.constant(v.sum()) for v in sums)
  of_terms = {name: tf.reduce_sum(value) for name, value in terms.items()}
  output = rule.from_sums(types.Sums(weight, scale, first, second, of_terms))
  slope = 0.0 if output.slope is None else output.slope.numpy()
  found = e * (output.level.numpy() + slope * columns[-1])
  if not e.any():  # All weights are too small for sums.
    return
  np.testing.assert_allclose(found, c, _TOLERANCE, tolerance)
  for name, value in expected.measurements.items():
    _assert_close(output.measurements.get(name, value), value)
  _assert_close({**output.for_finalizer}, {**expected.for_finalizer})


def _reference(rule: types.SeparableRule) -> float | None:
  """Returns `log_reference`, or None if these hyperparameters have none."""
  try:
    return rule.log_reference()
  except declared.FieldError:
    return None


def _tensors(cohort: types.Cohort) -> types.Cohort:
  known = {n: x for n, x in cohort._asdict().items() if x is not None}
  return types.Cohort(**tf.nest.map_structure(tf.constant, known))


def _check_sums(rule: types.Rule) -> None:
  """Checks that each kind of aggregation returns the rule's direction."""
  if not chosen_context.use():
    runtime.use_local()
  # Clients send float32, so other numbers would be rounded.
  updates, cohort = _float32_clients()
  expected = _apply(rule, cohort).coefficients @ updates
  clients = [
    types.ClientSignals(
      **{
        name: (np.int64 if name == "client_id" else np.float32)(value[k])
        for name in types.ClientSignals._fields
        if (value := getattr(cohort, name)) is not None
      }
    )
    for k in range(len(updates))
  ]
  is_exact = (
    isinstance(rule, types.SeparableRule) and _reference(rule) is not None
  )
  for way in summing.supported_aggregations(rule):
    if way == summing.SECURE and not is_exact:
      continue
    process = summing.RuleFactory(
      rule,
      aggregation=way,
      # Plain sums are exact, and need no runtime that has secure sums.
      sum_factory=tff.aggregators.SumFactory() if way == "secure" else None,
    ).create(
      tff.TensorType(np.float32, [updates.shape[1]]),
      tff.types.tensorflow_to_type(types.signals_spec()),
    )
    found = process.next(process.initialize(), [*updates], clients).result
    np.testing.assert_allclose(
      found,
      expected,
      1e-4,
      1e-5 * np.abs(expected).max(),
      err_msg=f"aggregation={way!r}",
    )


def _float32_clients() -> tuple[np.ndarray, types.Cohort]:
  """Returns random updates and their cohort, with inputs rounded to float32."""
  m = 5
  rng = np.random.default_rng(m)
  updates = rng.normal(size=(m, _SIZE)).astype(np.float32)
  random = _random_cohort(m)
  rounded = {
    name: getattr(random, name).astype(np.float32)
    for name in ("loss", "num_examples", *_DEFAULT_SIGNALS)
  }
  return updates, make_cohort(updates, **rounded)
