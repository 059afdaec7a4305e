"""What a run knows of wrong labels: saved after each iteration, and at the end.

`label_correction.npz` in the run's folder has all that a run needs to go on
from there. `label_correction.csv` is for people.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

import tasks
from tasks import label_noise
from tasks.formats import files
from tff_fair.experiments import spreadsheets
from tff_fair.experiments.runs import array_files
from tff_fair.experiments.runs.folder import RunFolder

_WEIGHT, _LABELS = "weight_", "labels_"
_COLUMNS = ("dimensions", "levels", "is_noisy")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectionRecord:
  """How far the correction of labels is, and what it has found.

  Attributes:
    iterations: How many iterations of the first stage are done.
    is_done: Whether the second stage is done, too.
    weights: The model's trainable weights, flat.
    labels: New training labels by client id, of clients with other ones.
    dimensions: float64[K], the sum of each client's mean dimension over the
      iterations; NaN where there was no estimate.
    levels: float64[K], estimated shares of wrong labels.
    is_noisy: bool[K].
  """

  iterations: int
  is_done: bool
  weights: Sequence[np.ndarray]
  labels: Mapping[int, np.ndarray]
  dimensions: np.ndarray
  levels: np.ndarray
  is_noisy: np.ndarray


def start(weights: Sequence[np.ndarray], num_clients: int) -> CorrectionRecord:
  """Returns the record before the first iteration.

  Args:
    weights: The initial trainable weights, flat.
    num_clients: K.
  """
  return CorrectionRecord(
    iterations=0,
    is_done=False,
    weights=weights,
    labels={},
    dimensions=np.zeros(num_clients),
    levels=np.zeros(num_clients),
    is_noisy=np.zeros(num_clients, bool),
  )


def save(folder: RunFolder, record: CorrectionRecord) -> None:
  """Writes a record in the place of the one before."""
  array_files.write(
    folder.label_correction,
    {
      "iterations": np.int64(record.iterations),
      "is_done": np.bool_(record.is_done),
      **{name: getattr(record, name) for name in _COLUMNS},
      **{f"{_WEIGHT}{i}": w for i, w in enumerate(record.weights)},
      **{f"{_LABELS}{k}": y for k, y in record.labels.items()},
    },
  )


def load(folder: RunFolder) -> CorrectionRecord | None:
  """Returns the last record, if there is one.

  Raises:
    RunError: If the file is damaged or cannot be read.
  """
  path = folder.label_correction
  if not path.exists():
    return None
  with array_files.read(
    path, "Move it away, and the run corrects the labels again."
  ) as arrays:
    number = sum(name.startswith(_WEIGHT) for name in arrays)
    return CorrectionRecord(
      iterations=int(arrays["iterations"]),
      is_done=bool(arrays["is_done"]),
      weights=[arrays[f"{_WEIGHT}{i}"] for i in range(number)],
      labels={
        int(name.removeprefix(_LABELS)): y
        for name, y in arrays.items()
        if name.startswith(_LABELS)
      },
      **{name: arrays[name] for name in _COLUMNS},
    )


def write_table(
  folder: RunFolder, task: tasks.Task, record: CorrectionRecord
) -> None:
  """Writes a row for each client: what was found, and what was changed.

  Args:
    folder: The folder of the run.
    task: The task with the labels from before the correction.
    record: What came of it.
  """
  table = pd.DataFrame(
    {
      "client_id": range(task.num_clients),
      "client": [spreadsheets.quoted(str(n)) for n in task.client_names],
      "num_examples": task.train.num_examples,
      "dimension": record.dimensions / record.iterations,
      "noisy": record.is_noisy,
      "noise_level": record.levels,
      "labels_changed": [
        _num_changed(task, record, k) for k in range(task.num_clients)
      ],
    }
  )
  if task.train.true_labels is not None:
    after = label_noise.with_labels(task, record.labels).train
    for name, split in (("before", task.train), ("after", after)):
      table[f"wrong_labels_{name}"] = [
        label_noise.wrong_share(split, k) for k in range(task.num_clients)
      ]
  files.write(folder.label_corrections, table.to_csv(index=False))


def _num_changed(
  task: tasks.Task, record: CorrectionRecord, client_id: int
) -> int:
  if client_id not in record.labels:
    return 0
  before = task.train.load(client_id)[1]
  return int(np.count_nonzero(record.labels[client_id] != before))


def describe(task: tasks.Task, record: CorrectionRecord) -> str:
  """Returns a few words on a record.

  Args:
    task: The task with the labels from before the correction.
    record: How far the correction is.
  """
  changed = sum(_num_changed(task, record, k) for k in record.labels)
  return (
    f"{np.count_nonzero(record.is_noisy):,} of {task.num_clients:,} clients "
    f"noisy, {changed:,} of {task.train.num_examples.sum():,} labels changed"
  )
