"""Counts how the model of a run treats groups of people at each client."""

import pandas as pd

from tff_fair.experiments import group_fairness
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.training import assembly, baselines, gain_columns
from tff_fair.metrics import group_gaps


def of_run(folder: RunFolder, parts: assembly.RunParts) -> pd.DataFrame | None:
  """Counts the test examples of clients by group; None without groups.

  Args:
    folder: The folder of the run, which has trained.
    parts: Its parts.

  Returns:
    The table of `group_fairness`, a row for each client and group that has
    examples.
  """
  task, of_groups = parts.task, parts.task.test.groups
  if of_groups is None or task.group_names is None:
    return None
  ids = parts.evaluated.tolist()
  labels = [task.test.load(k)[1] for k in ids]
  positive = parts.scores.positive
  if positive is None and task.num_classes == 2:
    positive = gain_columns.rarer_class(labels)
  outputs = baselines.outputs_of_run(folder, task, ids)
  rows = []
  for client_id, y, logits in zip(ids, labels, outputs, strict=True):
    counts = group_gaps.count(
      y,
      logits.argmax(-1),
      of_groups(client_id),
      len(task.group_names),
      -1 if positive is None else positive,
    )
    rows.append(
      pd.DataFrame(
        {
          "client_id": client_id,
          group_fairness.GROUP: task.group_names,
          **counts._asdict(),
        }
      )
    )
  table = pd.concat(rows, ignore_index=True)
  if positive is None:
    table = table.drop(columns=list(group_fairness.OF_ONE_CLASS))
  else:
    names = task.class_names or range(task.num_classes or 0)
    table.insert(2, group_fairness.POSITIVE, str(list(names)[positive]))
  return table[table["examples"] > 0]
