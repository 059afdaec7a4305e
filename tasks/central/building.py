"""Makes a task of a data set that was cut over clients."""

from collections.abc import Sequence

import numpy as np

from tasks import client_weights, cuts, models, task
from tasks.central import cutting
from tasks.central.cutting import CentralData, CutOptions
from tasks.data_error import DataError
from tasks.tabular import labels, population


def build_task(
  name: str,
  config: CutOptions,
  data: CentralData,
  keras_model_fn: task.KerasModelFn,
  *,
  seed: int,
  split: cuts.ClientSplit | None = None,
) -> task.Task:
  """Cuts a data set over clients and makes a task of it.

  Args:
    name: Name of the task.
    config: How to cut.
    data: The data set.
    keras_model_fn: Returns a new classifier of its inputs.
    seed: Seed of the cut.
    split: How it was cut, where that is known already.

  Returns:
    The task. Clients without train or test examples are left out, and counted
    in its description, which also has the share of examples that `min_size`
    moved.

  Raises:
    ValueError: If the data cannot be cut as the options say.
    DataError: If no client is left.
  """
  split = split or cutting.cut(config, data, seed)
  kept = [
    k
    for k, (train, test) in enumerate(zip(split.train, split.test, strict=True))
    if len(train) > 0 and len(test) > 0
  ]
  how_cut = split.how_cut or config.how_cut()
  if not kept:
    raise DataError(
      data.source,
      f"none of the {len(split.client_names):,} clients {how_cut} has examples "
      "to train and to be tested on.",
    )
  parts = [[half[k] for k in kept] for half in (split.train, split.test)]
  found = _labels(data, parts[0])
  train, test = (_split(data, found.y, half) for half in parts)
  names = tuple(split.client_names[k] for k in kept)
  return task.Task(
    name=name,
    description=(
      f"{data.title} over {len(kept):,} clients {how_cut}"
      f"{_notes(config, split, len(kept))}: {task.count_examples(train, test)}"
    ),
    client_names=names,
    train=train,
    test=test,
    element_spec=task.element_spec(data.x_shape, y_dtype=found.y.dtype.name),
    num_classes=found.num_classes,
    class_names=found.class_names,
    keras_model_fn=keras_model_fn,
    objective=models.number_objective()
    if found.class_names is None
    else models.class_objective(),
    label_scale=found.scale,
    client_weights=None
    if data.weights is None
    else client_weights.of_parts(data.weights, names, parts, data.source),
  )


def _notes(config: CutOptions, split: cuts.ClientSplit, num_kept: int) -> str:
  """Returns what a task's description says of its cut, in parentheses."""
  notes = []
  if split.share_moved:
    notes.append(
      f"{100 * split.share_moved:.3g} % of the examples moved for "
      f"min_size={config.min_size}"
    )
  if num_left_out := len(split.client_names) - num_kept:
    notes.append(f"{num_left_out:,} without train or test examples left out")
  return f" ({'; '.join(notes)})" if notes else ""


def _labels(data: CentralData, train: Sequence[np.ndarray]) -> labels.Labels:
  """Returns what clients predict; numbers are scaled by what they train on."""
  if data.numbers is None:
    return labels.Labels(y=data.labels, class_names=data.class_names)
  rows = population.ClientRows(
    np.concatenate(train), np.array([len(part) for part in train])
  )
  return labels.standardized(data.numbers, rows, source=data.source)


def _split(
  data: CentralData, y: np.ndarray, parts: Sequence[np.ndarray]
) -> task.Split:
  return task.Split(
    num_examples=np.array([len(part) for part in parts], np.int64),
    load=lambda k: (data.load_x(parts[k]), y[parts[k]]),
  )
