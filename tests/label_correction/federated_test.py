"""Tests of the computations of label correction over clients."""

import functools

import numpy as np
import pytest

from tests import reference, small_problem
from tests.client_works.local_work import MODELS
from tests.small_problem import flat, model_weights
from tff_fair import runtime
from tff_fair.client_works import training_settings
from tff_fair.label_correction import federated

pytestmark = pytest.mark.tff

EPOCHS = 2
MU = {k: np.float32(0.5 * i) for i, k in enumerate(small_problem.CLIENT_IDS)}


@functools.cache
def build_round(model="functional", learning_rate=small_problem.LEARNING_RATE):
  return federated.build_round(
    MODELS[model],
    small_problem.optimizer(learning_rate),
    training_settings.TrainingSettings(
      batch_size=small_problem.BATCH_SIZE, local_epochs=EPOCHS
    ),
    num_classes=small_problem.NUM_CLASSES,
    with_softmax=True,
  )


def probabilities(theta, x):
  kernel = theta[:-3].reshape(small_problem.NUM_FEATURES, -1)
  powers = np.exp(x.astype(np.float64) @ kernel + theta[-3:])
  return powers / powers.sum(axis=1, keepdims=True)


def run_round(ids, model="functional", **options):
  return build_round(model, **options)(
    model_weights(), 3, [MU[k] for k in ids], small_problem.cohort(ids)
  )


@pytest.mark.parametrize("model", MODELS)
def test_a_round_is_that_of_numpy(model):
  ids = small_problem.CLIENT_IDS
  new_weights, rows = run_round(ids, model)
  theta, arrays = reference.initial_theta(), small_problem.client_arrays()
  trained = {
    k: theta - reference.run_client(theta, k, epochs=EPOCHS, mu=MU[k]).update
    for k in ids
  }
  expected = np.average(
    [trained[k] for k in ids], axis=0, weights=small_problem.SIZES
  )
  np.testing.assert_allclose(flat(new_weights), expected, rtol=1e-5, atol=1e-6)
  np.testing.assert_array_equal(
    rows["client_id"],
    np.concatenate([np.full(len(arrays[k][1]), k) for k in sorted(ids)]),
  )
  np.testing.assert_allclose(
    rows["probabilities"],
    np.concatenate(
      [probabilities(trained[k], arrays[k][0]) for k in sorted(ids)]
    ),
    atol=1e-5,
  )


@pytest.mark.parametrize("model", MODELS)
def test_predictions_are_those_of_numpy(model):
  predict = federated.build_predictions(
    MODELS[model], num_classes=small_problem.NUM_CLASSES, with_softmax=True
  )
  ids = small_problem.CLIENT_IDS[:3]
  rows = predict(model_weights(), small_problem.cohort(ids))
  arrays, theta = small_problem.client_arrays(), reference.initial_theta()
  np.testing.assert_allclose(
    rows["probabilities"],
    np.concatenate([probabilities(theta, arrays[k][0]) for k in sorted(ids)]),
    atol=1e-6,
  )
  batched = predict(model_weights(), [small_problem.batched(k) for k in ids])
  np.testing.assert_array_equal(batched["client_id"], rows["client_id"])
  np.testing.assert_allclose(
    batched["probabilities"], rows["probabilities"], atol=1e-6
  )


def test_a_round_in_parts_is_the_same_but_for_rounding():
  ids = small_problem.CLIENT_IDS
  whole = run_round(ids)
  with runtime.in_parts_of(2):
    cut = run_round(ids)
  np.testing.assert_allclose(flat(cut[0]), flat(whole[0]), rtol=1e-6)
  np.testing.assert_array_equal(cut[1]["client_id"], whole[1]["client_id"])
  np.testing.assert_allclose(
    cut[1]["probabilities"], whole[1]["probabilities"], atol=1e-6
  )


def test_clients_that_diverge_do_not_count():
  ids = small_problem.CLIENT_IDS[:2]
  broken = small_problem.not_a_number(ids[0])
  found, rows = build_round()(
    model_weights(),
    0,
    [MU[k] for k in ids],
    [broken, small_problem.whole(ids[1])],
  )
  alone, _ = build_round()(
    model_weights(), 0, [MU[ids[1]]], [small_problem.whole(ids[1])]
  )
  np.testing.assert_array_equal(flat(found), flat(alone))
  assert np.isnan(rows["probabilities"][rows["client_id"] == ids[0]]).any()
  unchanged, _ = build_round()(model_weights(), 0, [MU[ids[0]]], [broken])
  np.testing.assert_array_equal(flat(unchanged), flat(model_weights()))
