"""Who wrote MNIST's digits: QMNIST's extended labels.

Yadav and Bottou, "Cold Case: The Lost MNIST Digits" (NeurIPS 2019).
"""

import pathlib

import numpy as np

from tasks.data_error import DataError
from tasks.formats import idx, source_file

_CLASS, _WRITER = 0, 2  # Columns.


def read_writers(
  path: pathlib.Path,
  labels: np.ndarray,
  on_read: source_file.OnRead = source_file.ignore,
) -> np.ndarray:
  """Returns who wrote the images of a half of MNIST.

  Args:
    path: QMNIST's extended labels of the half, an idx file.
    labels: MNIST's labels of it, which must be the same.
    on_read: Told how much was read.

  Returns:
    NIST's numbers of the writers, int64, one for each of the labels.

  Raises:
    DataError: If the file is damaged or not about these images.
  """
  table = idx.read(path, 2, on_read)
  # QMNIST has more test digits than MNIST, after those that MNIST has.
  if table.shape[1] <= _WRITER or len(table) < len(labels):
    raise DataError(
      f"{path}: has {len(table):,} rows of {table.shape[1]}, expected at least "
      f"{len(labels):,} rows with the writer in column {_WRITER}."
    )
  table = table[: len(labels)]
  different = np.flatnonzero(table[:, _CLASS] != labels)
  if different.size:
    raise DataError(
      f"{path}: row {different[0]} (counted from 0) has the label "
      f"{table[different[0], _CLASS]}, but MNIST's is {labels[different[0]]}: "
      "the rows are not those of the images."
    )
  return table[:, _WRITER].astype(np.int64)
