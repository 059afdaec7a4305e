"""Tests of the evaluation of many clients in one computation."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.client_works.local_work import MODELS
from tests.metrics import class_scores_test
from tests.small_problem import model_weights
from tff_fair import client_dataset, evaluation
from tff_fair.client_works import score_sums

pytestmark = pytest.mark.tff

models = pytest.mark.parametrize("model", MODELS)
COLUMNS = ["client_id", "num_examples", "loss", "accuracy"]


@functools.cache
def build(model="functional", batch_size=512):
  return evaluation.build_client_evaluation(
    MODELS[model], batch_size=batch_size
  )


def assert_rows(rows, clients):
  """Compares rows with NumPy's, for `clients` (id, examples), in order."""
  assert list(rows) == COLUMNS
  theta = reference.initial_theta()
  np.testing.assert_array_equal(rows["client_id"], [k for k, _ in clients])
  np.testing.assert_array_equal(
    rows["num_examples"], [len(y) for _, (_, y) in clients]
  )
  losses = [
    reference.loss_and_gradient(theta, x, y)[0] for _, (x, y) in clients
  ]
  accuracies = [reference.accuracy(theta, x, y) for _, (x, y) in clients]
  np.testing.assert_allclose(rows["loss"], losses, rtol=1e-5)
  np.testing.assert_allclose(rows["accuracy"], accuracies, rtol=1e-6)


@pytest.mark.parametrize("make", [small_problem.whole, small_problem.batched])
@models
def test_rows_are_those_of_numpy_in_order_of_id(model, make):
  ids = small_problem.CLIENT_IDS
  assert list(ids) != sorted(ids)
  rows = build(model)(model_weights(), [make(k) for k in ids])
  arrays = small_problem.client_arrays()
  assert_rows(rows, [(k, arrays[k]) for k in sorted(ids)])
  assert [column.dtype for column in rows.values()] == [
    np.int64,
    np.int64,
    np.float32,
    np.float32,
  ]


@pytest.mark.parametrize(
  ("model", "batch_size"),
  [*(("functional", size) for size in (3, 20)), ("keras", 3)],
)
def test_elements_larger_than_the_batch_size_are_sliced(model, batch_size):
  ids = (3, 31, 2**40 + 1)  # 13, 16 and 20 examples.
  rows = build(model, batch_size)(model_weights(), small_problem.cohort(ids))
  arrays = small_problem.client_arrays()
  assert_rows(rows, [(k, arrays[k]) for k in ids])


@models
def test_clients_without_examples_have_no_row(model):
  arrays = small_problem.client_arrays()
  none = tuple(array[:0] for array in arrays[3])
  data = [
    small_problem.whole(5),
    small_problem.whole(12).take(0),
    small_problem.whole(3, none),
    small_problem.whole(8),
  ]
  rows = build(model)(model_weights(), data)
  assert_rows(rows, [(k, arrays[k]) for k in (5, 8)])


def test_no_client_has_no_rows():
  for data in ([], [small_problem.whole(5).take(0)]):
    rows = build()(model_weights(), data)
    assert [len(rows[name]) for name in COLUMNS] == [0, 0, 0, 0]


def test_a_loss_that_is_not_finite_shows_and_spoils_no_other_row():
  arrays = small_problem.client_arrays()
  data = [small_problem.not_a_number(3), small_problem.whole(5)]
  rows = build()(model_weights(), data)
  assert np.isnan(rows["loss"][0])
  assert rows["num_examples"][0] == 13
  good = {name: column[1:] for name, column in rows.items()}
  assert_rows(good, [(5, arrays[5])])


def test_type_signature():
  signature = build().type_signature
  parameter_weights, data = signature.parameter
  assert parameter_weights.placement is tff.SERVER
  assert data == tff.FederatedType(
    tff.SequenceType(
      tff.types.tensorflow_to_type(
        (tf.TensorSpec([], tf.int64), small_problem.INPUT_SPEC)
      )
    ),
    tff.CLIENTS,
  )
  assert str(signature.result) == (
    "<client_id=int64[?],num_examples=int64[?],loss=float32[?],"
    "accuracy=float32[?]>@SERVER"
  )


@pytest.mark.parametrize(
  "build",
  [evaluation.build_client_evaluation, evaluation.build_personal_evaluation],
)
@pytest.mark.parametrize(
  ("batch_size", "error", "message"),
  [
    (0, ValueError, "batch_size=.*1"),
    (1.5, TypeError, "batch_size .*float"),
    (None, TypeError, "batch_size .*NoneType"),
  ],
)
def test_wrong_batch_sizes_are_named(build, batch_size, error, message):
  with pytest.raises(error, match=message):
    build(MODELS["functional"], batch_size=batch_size)


def test_wrong_models_are_named():
  with pytest.raises(TypeError, match="`model_fn`"):
    evaluation.build_client_evaluation("model")


def test_data_without_ids_does_not_fit_the_type():
  dataset = tf.data.Dataset.from_tensors(small_problem.client_arrays()[3])
  with pytest.raises(TypeError):
    build()(model_weights(), [dataset])
  fitting = client_dataset(3, dataset)
  assert build()(model_weights(), [fitting])["client_id"] == 3


@models
def test_sums_are_those_of_numpy_on_the_examples(model):
  """Compares sums with NumPy's; `class_scores_test` uses scikit-learn."""
  asked = score_sums.SumsRequest(3, with_histogram=True)
  evaluate = evaluation.build_client_evaluation(
    MODELS[model], batch_size=7, sums=asked
  )
  ids = sorted(small_problem.CLIENT_IDS)
  rows = evaluate(model_weights(), small_problem.cohort(ids))
  plain = build(model)(model_weights(), small_problem.cohort(ids))
  for name in COLUMNS:
    np.testing.assert_allclose(rows[name], plain[name], rtol=1e-6)
  kernel, bias = (np.float64(w) for w in small_problem.initial_weights())
  arrays = small_problem.client_arrays()
  for place, client in enumerate(ids):
    x, y = arrays[client]
    expected = class_scores_test.sums(y, x @ kernel + bias)
    for name in ("counts", "errors", "confidences"):
      np.testing.assert_allclose(
        rows[name][place], getattr(expected, name), rtol=1e-5, atol=1e-6
      )
    histogram = rows["histogram"][place]
    assert histogram.sum(-1).tolist() == expected.histogram.sum(-1).tolist()
    # In float32, an example may fall into the neighbouring bin.
    ends = np.cumsum(histogram - expected.histogram, -1)
    assert np.abs(ends).max() <= 1
    assert np.count_nonzero(ends) <= len(y)
