"""A data set in one place, not yet cut over clients."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CentralData:
  """Examples of one data set, published training data first, then test data.

  Attributes:
    title: The data set in a few words.
    source: File or directory, for error messages.
    labels: Class numbers of all examples, int32[n].
    num_train: How many of them, from the start, are published for training.
    load_x: Maps positions, int64[m], to inputs, float32[m, *x_shape]. Called
      for one client at a time.
    x_shape: Shape of one input.
    class_names: Name of each class.
    users: Who made each example, [n]; None if that is not known.
    weights: What its client counts for, float[n]; None if that is not known.
    numbers: Numbers to predict, float64[n], where there are no classes: no
      names of classes, and all labels 0.
  """

  title: str
  source: str
  labels: np.ndarray
  num_train: int
  load_x: Callable[[np.ndarray], np.ndarray]
  x_shape: tuple[int, ...]
  class_names: Sequence[str]
  users: np.ndarray | None = None
  weights: np.ndarray | None = None
  numbers: np.ndarray | None = None

  @property
  def num_outputs(self) -> int:
    """Number of outputs of a model: of classes, or one for a number."""
    return len(self.class_names) or 1


def select_classes(
  data: CentralData, class_names: Sequence[str]
) -> CentralData:
  """Returns the examples of some classes, which are numbered anew.

  Args:
    data: The data set.
    class_names: Names of the classes to keep, in their new order.

  Returns:
    A data set of its own; inputs are the same as before.
  """
  number = np.full(len(data.class_names), -1, np.int32)
  for new, name in enumerate(class_names):
    number[data.class_names.index(name)] = new
  kept = np.flatnonzero(number[data.labels] >= 0)
  return dataclasses.replace(
    data,
    title=f"{data.title} ({len(class_names)} of {len(number)} classes)",
    labels=number[data.labels[kept]],
    num_train=int(np.count_nonzero(kept < data.num_train)),
    load_x=lambda positions: data.load_x(kept[positions]),
    class_names=class_names,
    users=None if data.users is None else data.users[kept],
    weights=None if data.weights is None else data.weights[kept],
  )
