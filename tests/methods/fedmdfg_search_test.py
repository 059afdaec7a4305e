"""Tests of FedMDFG's search for the length of its step."""

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.refusals import rejected
from tests.rounds import problem
from tff_fair import client_works, rounds
from tff_fair.methods import fedmdfg
from tff_fair.runtime import phases
from tff_fair.runtime.parts import cohort_cuts

pytestmark = [pytest.mark.tff, pytest.mark.usefixtures("built_once")]

NAN, INF = np.nan, np.inf
FACTORS = [4.0, 2.0, 1.0, 0.5, 0.25]
build_sgdm = tff.learning.optimizers.build_sgdm


def choice(loss, slope, trial_loss, rate=1.0):
  with tf.Graph().as_default():
    trials = rounds.Trials(
      *(
        tf.constant(np.asarray(value, np.float64))
        for value in (loss, slope, trial_loss, FACTORS, rate)
      )
    )
    found = fedmdfg.choose_step(trials)
    with tf.compat.v1.Session() as session:
      factor, is_sufficient = session.run(found)
  return float(factor), bool(is_sufficient)


def numpy_choice(loss, slope, trial_loss, rate=1.0):
  """Returns what `choice` returns, by a loop over steps and clients."""
  clients = [k for k in range(len(loss)) if not np.isnan(slope[k])]
  totals = {}
  for j, a in enumerate(FACTORS):
    trials = [trial_loss[k][j] for k in clients]
    if not all(map(np.isfinite, trials)):
      continue
    if all(
      loss[k] - trial_loss[k][j] >= 1e-4 * rate * a * slope[k] for k in clients
    ):
      return a, True
    totals[a] = sum(trials)
  # Factors fall, so of steps with equal totals, `min` returns the longest.
  return (min(totals, key=lambda a: totals[a]) if totals else 0.0), False


@pytest.mark.parametrize("seed", range(20))
def test_the_choice_is_that_of_numpy(seed):
  rng = np.random.default_rng(seed)
  m = rng.integers(1, 6)
  loss = rng.uniform(0.5, 2, m)
  slope = rng.normal(1, 1, m) * 10.0 ** rng.integers(-2, 4)
  # The losses change little, so that all kinds of choices come up.
  trial = loss[:, None] - rng.normal(0.3, 0.3, [m, len(FACTORS)])
  if seed % 3 == 0:
    trial[rng.integers(m), rng.integers(len(FACTORS))] = rng.choice([NAN, INF])
  if seed % 5 == 0:
    slope[rng.integers(m)] = NAN
  arguments = (loss, slope, trial, rng.uniform(0.1, 3))
  assert choice(*arguments) == numpy_choice(*arguments)


@pytest.mark.parametrize(
  ("loss", "slope", "trial_loss", "expected"),
  [
    # One client: the longest step that descends enough.
    ([1.0], [1.0], [[1.1, 0.9, 0.5, 0.6, 0.7]], (2.0, True)),
    # A share of 1e-4 of the predicted decrease is enough; less is too little.
    ([1.0], [1.0], [[1.0, 1.0, 0.9998, 0, 0]], (1.0, True)),
    ([1.0], [1.0], [[1.0, 1.0, 0.99991, 0.9, 0]], (0.5, True)),
    # All clients must satisfy the condition.
    ([1, 1], [1, 1], [[0, 0, 0, 0, 0.5], [2, 2, 2, 2, 0.5]], (0.25, True)),
    # No step satisfies all clients: that of the least total loss is taken, and
    # of equal totals, the longest step.
    ([0, 0], [1, 1], [[5, 1, 2, 1, 4], [5, 2, 2, 2, 4]], (2.0, False)),
    # A step fails if its loss is not finite at one client.
    ([1, 1], [1, 1], [[NAN, 0, 0, 0, 0], [0, INF, 0.5, 0, 0]], (1.0, True)),
    ([0, 0], [1, 1], [[NAN, 9, 9, 9, 9], [0, 1, 2, 3, 4]], (2.0, False)),
    ([1.0], [1.0], [[-INF, NAN, 0.5, 0, 0]], (1.0, True)),
    # No step has finite losses at all clients.
    ([1.0], [1.0], [[NAN] * 5], (0.0, False)),
    ([0, 0], [1, 1], [[INF, 1, 1, 1, NAN], [1, NAN, INF, NAN, 1]], (0, False)),
    # A client without a slope does not count; if no client counts, steps tie.
    ([1, 1], [1, NAN], [[0.5, 0, 0, 0, 0], [NAN] * 5], (4.0, True)),
    ([1, 0], [NAN, NAN], [[9] * 5, [NAN] * 5], (4.0, True)),
    ([], [], np.zeros([0, 5]), (4.0, True)),
    # An update so large that its slope overflows float32.
    ([1.0], [INF], [[0.5, 0.4, 0.3, 0.2, 0.1]], (0.25, False)),
    # No step changes a loss, as when the direction is zero.
    ([1, 1], [0, 0], np.ones([2, 5]), (4.0, True)),
    ([-1.0], [1.0], [[-3, -2, -1, -1, -1]], (4.0, True)),
  ],
)
def test_hard_choices(loss, slope, trial_loss, expected):
  assert choice(loss, slope, trial_loss) == expected
  assert numpy_choice(loss, slope, trial_loss) == expected


RATE = 0.7


@functools.cache
def searching(**options):
  """Returns a process whose learning rates decay, at clients and server."""
  return small_problem.process(
    "fedmdfg",
    server_optimizer=build_sgdm(RATE),
    hparams={"line_search": 4, "theta": 5.0},
    learning_rate_decay=0.4,
    server_learning_rate_decay=0.25,
    **options,
  )


COHORTS = ((12, 3, 2**40 + 1, 8), (5, 31, 12))


def test_rounds_are_those_of_numpy_with_the_rates_of_the_round():
  process = searching()
  state, factors = process.initialize(), []
  for cohort in COHORTS:
    state, metrics = process.next(state, small_problem.cohort(cohort))
    factors.append(float(metrics["line_search"]["step_factor"]))
    assert "slopes" not in metrics["aggregator"]
  expected = reference.run(
    "fedmdfg",
    COHORTS,
    client_factor=lambda t: 0.4**t,
    server_factor=lambda t: RATE * 0.25**t,
    line_search=4,
    theta=5.0,
  )
  found = small_problem.flat_weights(state)
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
  # The server's rate decays, so the search takes larger factors.
  assert factors[1] > factors[0]


def test_phases_agree_with_the_whole_and_hostile_clients_have_no_say():
  process = searching()
  assert isinstance(process.next, phases.PhasedComputation)
  assert len(cohort_cuts.phases_of(process.next)) == 2
  start = process.initialize()
  good = small_problem.cohort(COHORTS[0])
  expected = problem.run_both(process, start, good, size=2)
  bad = [*problem.hostile(), problem.diverging(30)]
  mixed = problem.run_both(
    process, start, [bad[0], *good[:2], *bad[1:], *good[2:]], size=2
  )
  problem.assert_equal(mixed.state, expected.state)
  problem.assert_equal(
    mixed.metrics["line_search"], expected.metrics["line_search"]
  )
  only_bad = problem.run(process, start, bad, 0)
  problem.assert_equal(only_bad.state, start)


@pytest.mark.parametrize(
  ("option", "options"),
  [
    ("server_optimizer", {"server_optimizer": build_sgdm(1.0, 0.5)}),
    (
      "server_optimizer",
      {"server_optimizer": tff.learning.optimizers.build_adam(0.01)},
    ),
    ("loss_at", {"loss_at": "training"}),
    ("line_search", {"hparams": {"line_search": -1}}),
    ("line_search", {"hparams": {"line_search": 31}}),
  ],
)
def test_options_that_do_not_go_with_a_search(option, options):
  with rejected(option):
    problem.build("fedmdfg", **{"hparams": {"line_search": 1}, **options})


def test_a_search_needs_one_model_and_sgd_at_the_server():
  search = rounds.LineSearch((1.0,), fedmdfg.choose_step)
  others: dict[str, Any] = {"finalizer": lambda *_: None, "personal_lam": 0.1}
  for name, other in others.items():
    with pytest.raises(ValueError, match=name):
      rounds.compose(
        small_problem.functional_model(),
        fedmdfg.FedMdfgRule(),
        client_optimizer=small_problem.optimizer(),
        line_search=search,
        **{name: other},
      )
  with pytest.raises(TypeError, match="`slopes`"):
    rounds.compose(
      small_problem.functional_model(),
      fedmdfg.FedMdfgRule(),
      client_optimizer=small_problem.optimizer(),
      line_search=search,
    )


def test_trial_losses_are_those_of_numpy():
  """Includes attackers, who add to the losses, and a client without data."""
  theta = reference.initial_theta()
  direction = np.random.default_rng(3).normal(size=theta.size)
  kernel, bias = small_problem.initial_weights()
  of_kernel, of_bias = np.split(direction, [kernel.size])
  evaluate = client_works.MethodWork(
    model_fn=small_problem.keras_model,
    optimizer=small_problem.optimizer(),
    settings=client_works.TrainingSettings(batch_size=4),
    signals=(),
    attack=client_works.Attack(kind="bias", strength=3.0, client_ids=(8,)),
  ).build_trial_losses((2.0, -0.5))
  clients = small_problem.cohort((31, 8))
  clients.append(small_problem.whole(12).take(0))
  m = len(clients)
  found = evaluate(
    [tff.learning.models.ModelWeights([kernel, bias], [])] * m,
    [[of_kernel.reshape(kernel.shape).astype(np.float32), np.float32(of_bias)]]
    * m,
    [np.float32(0.1)] * m,
    clients,
  )
  assert sorted(found.client_id.tolist()) == [8, 31]
  arrays = small_problem.client_arrays()
  losses = client_works.losses_of(
    tf.constant([3, 31, 8, 2**62], tf.int64), found
  ).numpy()
  assert np.isnan(losses[[0, 3]]).all()
  for row, client_id, bias_of_loss in ((1, 31, 0.0), (2, 8, 3.0)):
    for column, factor in enumerate((2.0, -0.5)):
      x, y = arrays[client_id]
      loss, _ = reference.loss_and_gradient(
        theta - 0.1 * factor * direction, x, y
      )
      assert losses[row, column] == pytest.approx(loss + bias_of_loss, rel=1e-5)
