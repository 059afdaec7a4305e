"""Tests of Gram matrices and combinations of rows, by blocks of columns."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tff_fair.kernels import combine_rows, gram, gram_matrix, inner_products

# Sizes around the border between one block of columns and the next.
_BLOCK = 8
_COLUMNS = [0, 1, _BLOCK - 1, _BLOCK, _BLOCK + 1, 5 * _BLOCK, 5 * _BLOCK + 3]


@pytest.fixture
def small_blocks(request, monkeypatch):
  """Makes blocks small: they hold _BLOCK columns of m vectors."""
  m = request.node.callspec.params.get("m", 10)
  monkeypatch.setattr(gram, "_VALUES_PER_BLOCK", _BLOCK * max(1, m))


def _gram_function(*dtypes):
  """Returns `gram_matrix` as a graph function of matrices of any shape."""
  specs = [tf.TensorSpec([None, None], dtype) for dtype in dtypes]
  return tf.function(lambda *x: gram_matrix(x), input_signature=specs)


def _combine_function(dtype):
  return tf.function(
    lambda c, x: combine_rows(c, [x]),
    input_signature=[
      tf.TensorSpec([None], tf.float64),
      tf.TensorSpec([None, None], dtype),
    ],
  )


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("m", [0, 1, 7])
def test_gram_by_blocks(m):
  gram_of = _gram_function(tf.float32)
  for d in _COLUMNS:
    x = np.random.default_rng(d).normal(size=(m, d)).astype(np.float32)
    result = gram_of(x).numpy()
    assert result.dtype == np.float64
    x = x.astype(np.float64)
    np.testing.assert_allclose(result, x @ x.T, rtol=0, atol=1e-13)


def test_gram_of_large_rows_has_the_precision_of_float64():
  # Nearly equal rows: in float32 their differences would be lost.
  rng = np.random.default_rng(0)
  x = (1.0 + 1e-4 * rng.normal(size=(6, 70_001))).astype(np.float32)
  result = _gram_function(tf.float32)(x).numpy()
  rows = x.astype(np.float64)
  for i, j in [(0, 0), (0, 1), (4, 2)]:
    assert result[i, j] == pytest.approx(
      math.fsum(rows[i] * rows[j]), rel=1e-14
    )
  np.testing.assert_array_equal(result, result.T)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("sizes", [(5,), (0, 5), (3, 0, 1, 4), (0, 0)])
@pytest.mark.parametrize("others", [(), (2,), (1, 0, 3)])
def test_blocks_of_rows_are_those_of_one_matrix(sizes, others):
  rng = np.random.default_rng(1)
  x, y = (rng.normal(size=(sum(n), 21)) for n in (sizes, others))

  def cut(matrix, sizes):
    places = np.cumsum(sizes)[:-1]
    return [p.astype(np.float32) for p in np.split(matrix, places)]

  blocks, other_blocks = cut(x, sizes), cut(y, others) if others else []
  x, y = (z.astype(np.float32).astype(np.float64) for z in (x, y))
  np.testing.assert_allclose(
    gram_matrix(blocks), x @ x.T, rtol=1e-12, atol=1e-12
  )
  np.testing.assert_allclose(
    inner_products(blocks, other_blocks),
    np.concatenate([x @ x.T, x @ y.T], axis=1),
    rtol=1e-12,
    atol=1e-12,
  )
  c = rng.normal(size=len(x))
  np.testing.assert_allclose(combine_rows(c, blocks), c @ x, atol=1e-6)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
  ("dtype", "precision", "m", "d"),
  [
    (tf.bfloat16, 2**-8, 3, 30),
    (tf.float16, 2**-11, 3, 30),
    (tf.float64, 1e-12, 70, 30),
    (tf.float32, 1e-6, 1, 30),
    (tf.float32, 1e-6, 0, 30),
    (tf.float32, 1e-6, 3, 0),
  ],
)
def test_joined_columns_of_single_rows(dtype, precision, m, d):
  # Like the slots of a stack, each part has one row or none.
  x = tf.cast(np.random.default_rng(4).normal(size=(m, d)), dtype)
  rows = [x[:0], *(x[i : i + 1] for i in range(m)), x[:0]]
  spec = tf.TensorSpec([None, d], dtype)

  @tf.function(input_signature=[[spec] * len(rows)])
  def gram_and_combination(rows):
    columns = gram.Columns(rows).join()
    products = gram_matrix(columns)
    ones = tf.ones([columns.num_rows], tf.float64)
    return products, combine_rows(ones, columns)

  products, combination = gram_and_combination(rows)
  exact = tf.cast(x, tf.float64).numpy()
  np.testing.assert_allclose(products, exact @ exact.T, rtol=0, atol=1e-12)
  assert combination.dtype == dtype
  assert combination.shape == [d]
  np.testing.assert_allclose(
    tf.cast(combination, tf.float64), exact.sum(0), rtol=precision, atol=1e-12
  )


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_products_of_nearly_dependent_vectors(scale):
  # The difference of two such vectors must still be accurate.
  rng = np.random.default_rng(5)
  x = rng.normal(size=(3, 150_001))
  x[1] = x[0] + 1e-5 * x[1]
  x = (scale * x).astype(np.float32)
  products = inner_products([x[:1], x[1:]], [x[:2]]).numpy() / scale**2
  difference = x[0].astype(np.float64) - x[1]
  squared_norm = math.fsum((difference / scale) ** 2)
  for i, j in [(0, 1), (0, 4)]:
    found = products[0, 0] - 2 * products[0, j] + products[1, 1]
    assert found == pytest.approx(squared_norm, rel=1e-3), (i, j)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16, tf.float64])
def test_gram_of_other_dtypes(dtype):
  x = tf.cast(np.random.default_rng(2).normal(size=(4, 30)), dtype)
  exact = tf.cast(x, tf.float64).numpy()
  np.testing.assert_allclose(
    _gram_function(dtype)(x), exact @ exact.T, rtol=0, atol=1e-13
  )


def test_gram_of_mixed_dtypes():
  columns = gram.Columns([np.ones((1, 5), np.float32), np.ones((2, 5))])
  for vectors in (columns, columns.join()):
    np.testing.assert_array_equal(gram_matrix(vectors), np.full((3, 3), 5.0))


@pytest.mark.parametrize("value", [1e30, 3e38, 1e-30, 2e-38])
def test_gram_beyond_the_range_of_float32(value):
  x = np.full((3, 1000), value, np.float32)
  x[1] *= -1
  expected = 1000 * np.float64(np.float32(value)) ** 2
  signs = np.outer([1, -1, 1], [1, -1, 1])
  np.testing.assert_allclose(
    _gram_function(tf.float32)(x), signs * expected, rtol=1e-13
  )


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("m", [1, 7])
def test_combination_by_blocks(m):
  combine = _combine_function(tf.float32)
  for d in _COLUMNS:
    rng = np.random.default_rng(d)
    x, c = rng.normal(size=(m, d)).astype(np.float32), rng.normal(size=m)
    result = combine(c, x).numpy()
    assert result.dtype == np.float32
    assert result.shape == (d,)
    np.testing.assert_allclose(result, c @ x, rtol=1e-6, atol=1e-12)


def test_combination_with_cancellation():
  # sum c = 1 with |c| around 1e7: a float32 sum would be wrong in every digit.
  rng = np.random.default_rng(3)
  x = (1.0 + 1e-3 * rng.normal(size=(8, 40_000))).astype(np.float32)
  c = 1e7 * rng.normal(size=8)
  c[0] += 1.0 - math.fsum(c)
  result = _combine_function(tf.float32)(c, x).numpy()
  for column in (0, 16_383, 16_384, 39_999):
    expected = math.fsum(c * x[:, column].astype(np.float64))
    assert result[column] == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_combination_whose_terms_are_beyond_float32():
  x = np.array([[1e30], [1e30], [2e30]], np.float32)
  c = np.array([1e20, 1e20, -1e20])
  result = _combine_function(tf.float32)(c, x).numpy()
  expected = 1e20 * (2 * np.float64(x[0]) - np.float64(x[2]))
  np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16, tf.float64])
def test_combination_of_other_dtypes(dtype):
  x = tf.cast([[1.0, 2.0], [3.0, 5.0]], dtype)
  result = _combine_function(dtype)([2.0, -1.0], x)
  assert result.dtype == dtype
  np.testing.assert_array_equal(tf.cast(result, tf.float64), [-1.0, -1.0])


def test_combination_keeps_a_known_length():
  spec = tf.TensorSpec([None, 70_000], tf.float32)
  function = tf.function(lambda x: combine_rows(x[:, 0], [x]))
  assert function.get_concrete_function(spec).output_shapes == [70_000]


def test_unusable_arguments():
  for function in (gram_matrix, lambda x: combine_rows([1], x)):
    with pytest.raises(ValueError, match="one"):
      function([])
  for function in (
    lambda x: gram_matrix([x]),
    lambda x: inner_products([tf.ones([2, 3])], [x]),
    lambda x: combine_rows([1], [x]),
  ):
    with pytest.raises(ValueError, match=r"\(2, 3, 4\)"):
      function(tf.ones([2, 3, 4]))
    with pytest.raises(TypeError, match="int32"):
      function(tf.ones([2, 3], tf.int32))
