"""Splits one client's examples into train and test."""

import numpy as np

from tasks.cuts import seeding
from tff_fair.declared import FieldError


def num_test_examples(sizes: np.ndarray, test_fraction: float) -> np.ndarray:
  """Returns how many examples of each client are for testing.

  Args:
    sizes: Number of examples of each client, int64[clients].
    test_fraction: Share of the test side, between 0 and 1.

  Returns:
    int64[clients]; of two examples and more, at least one is on either side,
    and a single one is not for testing.
  """
  num_test = np.rint(sizes * test_fraction).astype(np.int64)
  return np.minimum(np.maximum(num_test, 1), np.maximum(sizes - 1, 0))


def train_test_split(
  indices: np.ndarray,
  test_fraction: float,
  seed: seeding.Seed,
  *,
  unused_fraction: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
  """Splits one client's examples at random; neither side is ever empty.

  Args:
    indices: Positions of the client's examples, at least two.
    test_fraction: Share of the test side, between 0 and 1.
    seed: Seed of the shuffle.
    unused_fraction: Share of the examples that is on neither side, for papers
      that keep a third part for validation.

  Returns:
    Positions of the training and of the test examples, shuffled.

  Raises:
    ValueError: If there are fewer than two examples, or the fractions leave
      nothing for training or testing.
  """
  if not 0 < test_fraction < 1:
    raise FieldError(
      "test_fraction", "expected between 0 and 1.", value=test_fraction
    )
  if not 0 <= unused_fraction < 1 - test_fraction:
    raise FieldError(
      "unused_fraction",
      "expected at least 0, and less than 1 - test_fraction.",
      value=unused_fraction,
    )
  if len(indices) < 2:
    raise ValueError(
      f"A train and a test example need 2 examples, found {len(indices)}."
    )
  num_test = int(num_test_examples(np.array(len(indices)), test_fraction))
  num_unused = round(len(indices) * unused_fraction)
  num_train = max(len(indices) - num_test - num_unused, 1)
  shuffled = seeding.generator(seed).permutation(indices)
  return shuffled[num_test : num_test + num_train], shuffled[:num_test]
