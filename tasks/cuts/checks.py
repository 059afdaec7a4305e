"""Checks of the arguments of partitions."""

import numpy as np

from tff_fair.declared import FieldError


def vector(labels: np.ndarray) -> np.ndarray:
  """Returns labels as an array; raises a FieldError if it is no vector."""
  labels = np.asarray(labels)
  if labels.ndim != 1:
    raise FieldError(
      "labels", f"expected a vector, found the shape {labels.shape}."
    )
  return labels


def num_parts(num_parts: int, num_examples: int, name: str) -> None:
  """Raises a FieldError unless each part can have an example."""
  if not 1 <= num_parts <= num_examples:
    raise FieldError(
      name,
      f"expected between 1 and the number of examples, {num_examples}.",
      value=num_parts,
    )


def enough_examples(num_clients: int, min_size: int, num_examples: int) -> None:
  """Raises a FieldError unless each client can have `min_size` examples."""
  num_parts(num_clients, num_examples, "num_clients")
  if not 0 <= min_size * num_clients <= num_examples:
    raise FieldError(
      "min_size",
      f"{num_clients} clients of so many need {min_size * num_clients} "
      f"examples, found {num_examples}.",
      value=min_size,
    )
