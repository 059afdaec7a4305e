"""Tests of Ditto's personal models against local training in NumPy."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.cases import one_of_each
from tests.client_works import local_work
from tests.client_works.local_work import theta_of, weights_of
from tff_fair import client_works, evaluation
from tff_fair.client_works import local_model

IDS = small_problem.CLIENT_IDS
ARRAYS = small_problem.client_arrays()
RATE = small_problem.LEARNING_RATE
LAM = 0.7
COHORTS = ((12, 3), (8, 2**40 + 1, 12), (5,), (3, 31, 8, 12), (31, 5))


@functools.cache
def build(model="functional", optimizer=None, *, lam=LAM, **settings):
  """Returns client work with personal models; equal calls share one object."""
  return client_works.MethodWork(
    model_fn=local_work.MODELS[model],
    optimizer=optimizer or small_problem.optimizer(),
    settings=client_works.TrainingSettings(**{"batch_size": 4, **settings}),
    persistent_state=client_works.PersistentState(personal_lam=lam),
  ).build()


def run(process, state, cohort, round_num=0, data=small_problem.whole):
  return process.next(
    process.initialize() if state is None else state,
    [weights_of(theta_of(round_num))] * len(cohort),
    [data(k) for k in cohort],
  )


def trained(v, theta, client_id, *, lam=LAM, rate=RATE, epochs=1):
  """Returns the personal model v after a round of the paper's steps."""
  for x, y in local_work.batches_of(ARRAYS[client_id], 4) * epochs:
    _, gradient = reference.loss_and_gradient(v, x, y)
    v = v - rate * (gradient + lam * (v - theta))
  return v


def models_after(cohorts, **kwargs):
  """Returns the personal models by id, after a round of each cohort."""
  models = {}
  for round_num, cohort in enumerate(cohorts):
    theta = theta_of(round_num)
    for k in cohort:
      models[k] = trained(models.get(k, theta), theta, k, **kwargs)
  return models


def run_rounds(process, cohorts=COHORTS):
  state = None
  for round_num, cohort in enumerate(cohorts):
    state = run(process, state, cohort, round_num).state
  return state


def assert_table(state, models):
  table = state["personal"]
  assert table["client_id"].tolist() == sorted(models)
  rows = np.reshape([models[k] for k in sorted(models)], [-1, 18])
  np.testing.assert_allclose(table["weights"], rows, atol=1e-5)


@pytest.mark.parametrize(
  ("lam", "epochs"),
  one_of_each([(LAM, 2), (0.0, 1), (0.0, 2), (LAM, 1)]),
)
def test_models_are_kept_by_id_over_rounds(lam, epochs):
  # A new client's personal model starts from the weights that it receives, not
  # from the initial ones.
  process = build(lam=lam, local_epochs=epochs)
  state = run_rounds(process)
  assert_table(state, models_after(COHORTS, lam=lam, epochs=epochs))


def test_order_of_arrival_does_not_matter():
  there = run_rounds(build())
  back = run_rounds(build(), [cohort[::-1] for cohort in COHORTS])
  tf.nest.map_structure(
    np.testing.assert_array_equal, there["personal"], back["personal"]
  )


def test_results_are_those_of_training_one_model():
  cohort, theta = COHORTS[3], weights_of(theta_of(0))
  output = run(build(), run_rounds(build()), cohort)
  plain = local_work.run(
    local_work.build(batch_size=4),
    small_problem.cohort(cohort),
    weights=theta,
  )
  tf.nest.map_structure(
    np.testing.assert_array_equal, output.result, plain.result
  )
  tf.nest.map_structure(
    np.testing.assert_array_equal, output.measurements, plain.measurements
  )


@pytest.mark.parametrize(
  "bad", [small_problem.not_a_number, small_problem.empty]
)
def test_clients_that_do_not_count_keep_their_models(bad):
  before = run_rounds(build())
  state = run(build(), before, (3, 12), 9, bad).state
  tf.nest.map_structure(
    np.testing.assert_array_equal, state["personal"], before["personal"]
  )
  # A client gets a model only in the first round in which it counts.
  state = run(build(), None, (3, 12), 9, bad).state
  assert_table(state, {})
  state = run(build(), state, (12,), 2).state
  assert_table(state, {12: trained(theta_of(2), theta_of(2), 12)})


def test_a_personal_model_that_diverges_is_not_kept():
  # The global model trains without the pull and does not diverge.
  process = build(lam=1e30)
  output = run(process, None, (31, 8))
  assert [r.update_weight.num_examples for r in output.result] == [16, 1]
  # Client 8 takes one step, from theta, where the pull is zero.
  assert_table(
    output.state,
    {8: trained(theta_of(0), theta_of(0), 8, lam=0)},
  )


def test_the_proximal_term_is_the_global_models_alone():
  process = build(proximal_mu=5.0)
  output = run(process, None, (31,))
  wanted = reference.run_client(theta_of(0), 31, mu=5.0)
  np.testing.assert_allclose(
    local_work.flat(output.result[0].update), wanted.update, atol=1e-5
  )
  assert_table(output.state, models_after([(31,)]))


def test_momentum_starts_anew_each_round():
  process = build(optimizer=tff.learning.optimizers.build_sgdm(RATE, 0.9))
  state, v = None, theta_of(0)
  for round_num in range(3):
    state = run(process, state, (31,), round_num).state
    velocity, theta = 0.0, theta_of(round_num)
    for x, y in local_work.batches_of(ARRAYS[31], 4):
      _, gradient = reference.loss_and_gradient(v, x, y)
      velocity = 0.9 * velocity + gradient + LAM * (v - theta)
      v = v - RATE * velocity
    assert_table(state, {31: v})


def test_decay_holds_for_personal_models_too():
  process = build(learning_rate_decay=0.5)
  state, v = None, theta_of(0)
  for t in range(3):
    state = run(process, state, (31,), t).state
    v = trained(v, theta_of(t), 31, rate=RATE * 0.5**t)
    assert_table(state, {31: v})


def test_hparams_are_those_of_both_trainings():
  state = build().initialize()
  hparams = build().get_hparams(state)
  assert hparams == pytest.approx({"learning_rate": RATE})
  hparams["learning_rate"] = np.float32(0.3)
  state = run(build(), build().set_hparams(state, hparams), (31,)).state
  assert build().get_hparams(state) == hparams
  assert_table(state, models_after([(31,)], rate=0.3))


@pytest.mark.parametrize("model", local_work.MODELS)
def test_evaluation_takes_each_clients_own_model(model):
  evaluate = evaluation.build_personal_evaluation(
    local_work.MODELS[model], batch_size=3
  )
  state, theta = run_rounds(build(model), COHORTS[:2]), theta_of(20)
  models = models_after(COHORTS[:2])
  weights = local_model.describe(local_work.MODELS[model]).initial_weights()
  weights = tff.learning.models.ModelWeights(
    tf.nest.pack_sequence_as(
      weights.trainable, tf.nest.flatten(weights_of(theta).trainable)
    ),
    weights.non_trainable,
  )
  rows = evaluate(
    weights,
    state["personal"],
    [*map(small_problem.whole, IDS), small_problem.empty(77)],
  )
  ids = sorted(IDS)
  assert rows["client_id"].tolist() == ids
  assert rows["num_examples"].tolist() == [len(ARRAYS[k][1]) for k in ids]
  # Clients without a personal model get the global one.
  own = [models.get(k, theta) for k in ids]
  assert 0 < len(models) < len(ids)
  for name, value in (
    ("loss", lambda v, x, y: reference.loss_and_gradient(v, x, y)[0]),
    ("accuracy", reference.accuracy),
  ):
    wanted = [value(v, *ARRAYS[k]) for v, k in zip(own, ids, strict=True)]
    np.testing.assert_allclose(rows[name], wanted, rtol=1e-4)


def test_evaluation_without_any_personal_model_is_that_of_the_global_one():
  model = local_work.MODELS["functional"]
  data = small_problem.cohort(IDS)
  weights = weights_of(theta_of(0))
  personal = evaluation.build_personal_evaluation(model)(
    weights, build().initialize()["personal"], data
  )
  shared = evaluation.build_client_evaluation(model)(weights, data)
  tf.nest.map_structure(np.testing.assert_array_equal, personal, shared)


@pytest.mark.parametrize(
  ("lam", "error"),
  [(-0.1, ValueError), (float("nan"), ValueError), ("1", TypeError)],
)
def test_bad_pulls_are_named(lam, error):
  with pytest.raises(error, match="lam"):
    build(lam=lam)
