"""What each client has without a federation, and what it gains by joining."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

import tasks
from tff_fair.experiments import joining
from tff_fair.experiments.comparing import paired
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.training import assembly, baselines
from tff_fair.metrics import gains

_EXCHANGES = (2000, 20_000)  # At least, and at most.


def of_clients(
  folder: RunFolder,
  parts: assembly.RunParts,
  found: Mapping[str, baselines.Baseline],
) -> pd.DataFrame:
  """Returns columns of the table of clients.

  Args:
    folder: The folder of the run, which has trained.
    parts: Its parts.
    found: The baselines by their kind, at least one.

  Returns:
    By `client_id`, `local_SCORE` and `pooled_SCORE`; with a local baseline also
    `gain`, the federation's score minus that (turned round where less is
    better), its interval `gain_low` and `gain_high`, and `gain_p_value` after
    Holm's correction for the clients.
  """
  task, name = parts.task, parts.scores.score.name
  ids = parts.evaluated.tolist()
  labels = [_in_units(task, task.test.load(k)[1]) for k in ids]
  positive = parts.scores.positive
  if positive is None and task.num_classes == 2:
    positive = rarer_class(labels)
  of_all = {
    kind: dict(zip(b.client_ids.tolist(), b.outputs, strict=True))
    for kind, b in found.items()
  }
  table = pd.DataFrame({tables.CLIENT: ids})
  for kind, outputs in of_all.items():
    table[f"{kind}_{name}"] = [
      gains.score(name, y, _in_units(task, outputs[k]), positive)
      for k, y in zip(ids, labels, strict=True)
    ]
  if joining.LOCAL in found:
    before = [of_all[joining.LOCAL][k] for k in ids]
    after = baselines.outputs_of_run(folder, task, ids)
    least, most = _EXCHANGES
    of_clients = [
      gains.client_gain(
        name,
        gains.Outputs(y, *(_in_units(task, o) for o in outputs)),
        positive=positive,
        draws=min(max(least, 40 * len(ids)), most),
        seed=(parts.cohorts.seed, client_id),
      )
      for client_id, y, *outputs in zip(ids, labels, before, after, strict=True)
    ]
    table[list(joining.COLUMNS)] = np.array(of_clients)
    table[joining.P_VALUE] = _corrected(table[joining.P_VALUE].to_numpy())
  return table


def _in_units(task: tasks.Task, values: np.ndarray) -> np.ndarray:
  """Returns labels or outputs, of numbers in the units of the label."""
  return values if task.num_classes is not None else values * task.label_scale


def rarer_class(labels: Sequence[np.ndarray]) -> int:
  """Returns the rarer of two classes; of equals, the second."""
  counts = np.bincount(np.concatenate(labels), minlength=2)
  return int(counts[1] <= counts[0])


def _corrected(p_values: np.ndarray) -> np.ndarray:
  known = ~np.isnan(p_values)
  corrected = p_values.copy()
  factors = np.array(paired.holm_factors(p_values[known].tolist()))
  corrected[known] = np.minimum(1, factors * p_values[known])
  return corrected
