"""Tests of FedMinMax, as a process and in a run, against a NumPy loop."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from tests import reference, small_problem
from tests.experiments.training.small_run import tables, train
from tests.methods import fairfed_test
from tests.refusals import rejected
from tests.rounds import problem
from tests.runtime import ways
from tff_fair import client_dataset, privacy, runtime
from tff_fair.client_works import group_weights
from tff_fair.experiments.spec import task_loading

RATE = 0.5
COHORTS = ((12, 3, 2**40 + 1, 8), (5, 31, 12), (8, 5), (31, 3, 5, 12))
# Client 8 has one example; one of the three groups is rare.
GROUPS = {
  client_id: np.random.default_rng(client_id % 97).choice(
    3, len(y), p=(0.6, 0.35, 0.05)
  )
  for client_id, (_, y) in small_problem.client_arrays().items()
}
SHARES = tuple(np.bincount(np.concatenate([*GROUPS.values()]), minlength=3))

pytestmark = [pytest.mark.tff, pytest.mark.usefixtures("built_once")]


def data(client_id, groups=None, x=None):
  """Returns a client's examples, with their groups, as one element."""
  own, y = small_problem.client_arrays()[client_id]
  groups = GROUPS[client_id] if groups is None else groups
  arrays = (own if x is None else x, y, groups.astype(np.int32))
  return client_dataset(client_id, tf.data.Dataset.from_tensors(arrays))


@functools.cache
def built(aggregation="streaming", model_fn=None, **options):
  return small_problem.process(
    "fedminmax",
    model_fn,
    aggregation=aggregation,
    hparams={"lambda_learning_rate": RATE},
    **{"group_shares": SHARES, **options},
  )


def run(process, cohorts=COHORTS, of_client=data):
  state = process.initialize()
  for cohort in cohorts:
    state, _ = process.next(state, [of_client(k) for k in cohort])
  return state


def losses_and_errors(theta, x, y):
  """Returns examples' losses and their gradients with respect to the logits."""
  matrix = theta.reshape(x.shape[1] + 1, -1)  # The last row is the bias.
  chances = softmax(x @ matrix[:-1] + matrix[-1], axis=1)
  rows = np.arange(len(y))
  losses = -np.log(chances[rows, y])
  chances[rows, y] -= 1
  return losses, chances


def by_hand(cohorts, clients, theta, shares, *, rate, size, epochs=1):
  """Returns the weights and the mixture after a round of each cohort.

  `clients` has x, y and groups by id; `rate` is the clients' learning rate,
  `size` the number of examples in a minibatch.
  """
  rho = np.array(shares) / np.sum(shares)
  mu = rho.copy()
  for cohort in cohorts:
    number = sum(len(clients[k][1]) for k in cohort)
    direction, sums = 0.0, np.zeros((2, len(rho)))
    for k in cohort:
      x, y, groups = clients[k]
      losses = losses_and_errors(theta, x, y)[0]
      np.add.at(sums[0], groups, losses)
      np.add.at(sums[1], groups, 1)
      own = theta.copy()
      for start in [*range(0, len(y), size)] * epochs:
        part = slice(start, start + size)
        errors = losses_and_errors(own, x[part], y[part])[1]
        errors *= (mu / rho)[groups[part], None] / len(errors)
        gradient = [(x[part].T @ errors).ravel(), errors.sum(0)]
        own -= rate * np.concatenate(gradient)
      direction += len(y) / number * (theta - own)
    theta = theta - direction
    present = sums[1] > 0
    mu[present] += RATE * sums[0][present] / sums[1][present]
    mu = reference.project_to_simplex(mu)
  return theta, mu


@functools.cache
def expected(size=small_problem.BATCH_SIZE):
  clients = {
    k: (np.float64(x), y, GROUPS[k])
    for k, (x, y) in small_problem.client_arrays().items()
  }
  return by_hand(
    COHORTS,
    clients,
    reference.initial_theta(),
    SHARES,
    rate=small_problem.LEARNING_RATE,
    size=size,
  )


def assert_as_by_hand(state, *, atol=1e-6, **settings):
  theta, mixture = expected(**settings)
  np.testing.assert_allclose(
    small_problem.flat_weights(state), theta, atol=atol
  )
  np.testing.assert_allclose(state.client_work["mixture"], mixture, atol=atol)


def test_rounds_are_those_of_a_loop_over_examples():
  _, mixture = expected()
  assert np.abs(mixture - np.array(SHARES) / sum(SHARES)).max() > 0.1
  assert_as_by_hand(run(built()))


def test_a_keras_model_and_no_batch_size():
  # One step on all examples, as in the paper.
  process = built(model_fn=small_problem.keras_model, batch_size=None)
  assert_as_by_hand(run(process), size=1000)


def test_a_round_is_one_graph_with_the_bits_of_single_steps():
  with ways.counted() as graphs:
    found = run(built(), COHORTS[:2])
  assert graphs[-2:] == [True, True]
  with ways.step_by_step():
    stepped = run(built(), COHORTS[:2])
  ways.assert_same_bits([found], [stepped])


def test_clients_that_do_not_count_leave_no_trace():
  x = small_problem.client_arrays()[3][0]
  bad = [data(3, x=np.full_like(x, np.nan)), data(31).take(0)]
  process = built()
  start = run(process, COHORTS[:1])
  good = [data(k) for k in COHORTS[2]]
  after = process.next(start, [bad[0], *good, bad[1]])
  assert after.metrics["aggregator"]["num_clients_excluded"] == 2
  problem.assert_equal(after.state, process.next(start, good).state)
  problem.assert_equal(process.next(start, bad).state, start)


def test_a_group_without_a_share_is_an_error():
  process = built()
  start = process.initialize()
  with pytest.raises(Exception, match="group_shares"):
    process.next(start, [data(8, np.array([3]))])


def test_in_parts_and_in_secure_sums():
  with runtime.in_parts_of(2):
    assert_as_by_hand(run(built()))
  runtime.use_local(simulate_secure_sums=True, clients_per_part=0)
  assert_as_by_hand(run(built("secure", secure_bound=64.0)), atol=1e-3)
  runtime.use_local()


@pytest.mark.parametrize(
  ("options", "field"),
  [
    ({"group_shares": None}, "group_shares"),
    ({"group_shares": (1.0,)}, "group_shares"),
    ({"group_shares": (1.0, -1.0)}, "group_shares"),
    ({"group_shares": (0, 0)}, "group_shares"),
    ({"group_shares": ("a", "b")}, "group_shares"),
    ({"group_shares": ((1,), 2)}, "group_shares"),
    ({"personal_lam": 0.1}, "personal_lam"),
    ({"dp": privacy.dp(1.0, 2, 1.0), "client_weighting": "uniform"}, "dp"),
  ],
)
def test_what_does_not_go_together(options, field):
  with rejected(field):
    built(**options)


@pytest.mark.parametrize("rate", [np.nan, np.inf, -1.0])
def test_a_wrong_learning_rate_is_named(rate):
  with rejected("group_learning_rate"):
    group_weights.GroupWeights(shares=SHARES, learning_rate=rate)


def test_other_methods_take_no_groups():
  with rejected("group_shares", "fedminmax"):
    small_problem.process("fedavg", group_shares=SHARES)


@pytest.mark.usefixtures("unpainted")
def test_a_run_weighs_by_the_groups_of_training_examples(tmp_path):
  models = fairfed_test.Models()
  spec = fairfed_test.spec_of(tmp_path).replace(
    algorithm="fedminmax",
    hparams={"lambda_learning_rate": RATE},
    local_epochs=2,
    batch_size=1000,
    measure_improvement=True,  # This measurement ignores groups.
  )
  run = train(spec, tmp_path / "run", callbacks=[models])
  task = task_loading.load(spec)
  assert run.cohorts is not None
  assert task.train.groups is not None
  clients = {
    k: (
      *map(np.float64, task.train.load(k)[:1]),
      task.train.load(k)[1],
      task.train.groups(k),
    )
    for k in range(task.num_clients)
  }
  groups = np.concatenate([of_client[2] for of_client in clients.values()])
  kernel, bias = models.weights[0]
  theta, _ = by_hand(
    [rows["client_id"].tolist() for _, rows in run.cohorts.groupby("round")],
    clients,
    np.float64(np.concatenate([kernel.ravel(), bias])),
    np.bincount(groups),
    rate=0.3,
    size=1000,
    epochs=2,
  )
  found = np.concatenate([w.ravel() for w in models.weights[4]])
  np.testing.assert_allclose(found, theta, atol=1e-5)


@pytest.mark.long
@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("algorithm", ["fairfed", "fedminmax"])
def test_a_run_on_dask_is_that_of_one_machine_bit_for_bit(algorithm, tmp_path):
  spec = fairfed_test.spec_of(tmp_path).replace(
    algorithm=algorithm, hparams={}, total_rounds=3, clients_per_part=1
  )
  local = train(spec, tmp_path / "local", engine="local")
  try:
    spread = train(spec, tmp_path / "dask", engine="dask", dask_workers=2)
  finally:
    runtime.stop()
  assert tables(spread) == tables(local)
  summaries = [(r.path / "summary.json").read_bytes() for r in (spread, local)]
  assert summaries[0] == summaries[1]
