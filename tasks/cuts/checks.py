"""Checks of the arguments of partitions."""

import numpy as np


def vector(labels: np.ndarray) -> np.ndarray:
  """Returns labels as an array; raises ValueError if it is no vector."""
  labels = np.asarray(labels)
  if labels.ndim != 1:
    raise ValueError(f"labels must be a vector, found shape {labels.shape}.")
  return labels


def num_parts(num_parts: int, num_examples: int, name: str) -> None:
  """Raises ValueError unless each part can have an example."""
  if not 1 <= num_parts <= num_examples:
    raise ValueError(
      f"{name} must be between 1 and the number of examples, "
      f"{num_examples}; found {num_parts}."
    )


def enough_examples(num_clients: int, min_size: int, num_examples: int) -> None:
  """Raises ValueError unless each client can have `min_size` examples."""
  num_parts(num_clients, num_examples, "num_clients")
  if not 0 <= min_size * num_clients <= num_examples:
    raise ValueError(
      f"{num_clients} clients with min_size {min_size} need "
      f"{min_size * num_clients} examples, found {num_examples}."
    )
