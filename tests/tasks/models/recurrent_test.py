import numpy as np
import pytest

from tasks import models

_TOKENS = np.array([[1, 2, 3, 0], [4, 5, 6, 6]], np.int32)


@pytest.mark.parametrize("build", [models.character_lstm, models.word_lstm])
def test_an_output_sees_no_later_token(build):
  model = build(7, 0, units=4)
  changed = _TOKENS.copy()
  changed[:, 3] = 5
  before, after = model(_TOKENS).numpy(), model(changed).numpy()
  assert before.shape == (2, 4, 7)
  np.testing.assert_array_equal(before[:, :3], after[:, :3])
  assert not np.array_equal(before[:, 3], after[:, 3])


def test_padding_changes_no_sentence():
  model = models.sentence_lstm(7, 2, 0, units=4, embedding_size=3)
  padded = np.pad(_TOKENS, [(0, 0), (0, 3)])
  np.testing.assert_allclose(model(padded), model(_TOKENS), atol=1e-6)


@pytest.mark.parametrize(
  ("model", "count"),
  [
    (lambda: models.character_lstm(80, 0), 817_872),
    (lambda: models.character_lstm(80, 0, num_layers=1), 292_560),
    (lambda: models.character_lstm(90, 0), 820_522),
    (lambda: models.word_lstm(10_004, 0), 4_050_748),
    (lambda: models.sentence_lstm(10_002, 2, 0), 1_161_202),
    (lambda: models.bag_of_words_regression(10_000, 500, 0), 5_000_500),
  ],
)
def test_numbers_of_weights(model, count):
  assert model().count_params() == count
