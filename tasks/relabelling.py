"""Half of a task's data with other labels."""

import dataclasses
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from tasks.task import Split

_X = TypeVar("_X")


@dataclasses.dataclass(frozen=True)
class _Relabelled(Generic[_X]):
  """Reads a client's x and y, and replaces y."""

  read: Callable[[int], tuple[_X, np.ndarray]]
  relabel: Callable[[int, np.ndarray], np.ndarray]

  def __call__(self, client_id: int) -> tuple[_X, np.ndarray]:
    x, y = self.read(client_id)
    return x, self.relabel(client_id, y)


@dataclasses.dataclass(frozen=True)
class _LabelsOf:
  """Reads a client's labels alone."""

  read: Callable[[int], tuple[object, np.ndarray]]

  def __call__(self, client_id: int) -> np.ndarray:
    return self.read(client_id)[1]


def relabelled(
  split: Split, relabel: Callable[[int, np.ndarray], np.ndarray]
) -> Split:
  """Returns data with other labels, which still know the true ones.

  Args:
    split: Half of a task's data.
    relabel: From a client's id and labels to its new labels.
  """
  return dataclasses.replace(
    split,
    load=_Relabelled(split.load, relabel),
    raw=split.raw and _Relabelled(split.raw, relabel),
    true_labels=split.true_labels or _LabelsOf(split.load),
  )
