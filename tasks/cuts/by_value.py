"""The natural cut: a client for each value, such as a writer or a label."""

from typing import Any

import numpy as np

from tasks.cuts import checks


def by_value(values: np.ndarray) -> tuple[list[Any], list[np.ndarray]]:
  """Makes a client of all examples that have a value in common.

  Args:
    values: Who wrote an example, or its label, by example, shape
      [num_examples].

  Returns:
    The values in order, each once, and the positions of each one's examples.

  Raises:
    ValueError: If there are no examples.
  """
  values = checks.vector(values)
  if len(values) == 0:
    raise ValueError("There are no examples to cut.")
  unique, index, counts = np.unique(
    values, return_inverse=True, return_counts=True
  )
  order = np.argsort(index, kind="stable")
  return unique.tolist(), np.split(order, np.cumsum(counts)[:-1])
