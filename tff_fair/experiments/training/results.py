"""Writes the results of a run: the summary, the table of clients, the plots."""

import pathlib
import tempfile
from typing import Any

import numpy as np
import pandas as pd

import tasks
from tasks import label_noise
from tff_fair.experiments import interruption
from tff_fair.experiments.analysis import (
  certificates,
  group_fairness,
  joining_gains,
  majority,
  sampling_noise,
)
from tff_fair.experiments.runs import checkpoints, integrity, summaries, tables
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.training import (
  build,
  plan,
  plots,
  predictions,
  sampling,
  scoring,
)
from tff_fair.experiments.training.early_stopping import BestEvaluationTracker
from tff_fair.files import atomic, csv_cells, parsing


def write(
  folder: RunFolder,
  spec: RunSpec,
  parts: build.RunParts,
  predicted: predictions.Results,
) -> dict[str, Any]:
  """Writes the results of a run that has trained; returns the summary."""
  score = parts.scores.score
  evaluations = tables.read_required(folder.path, tables.evaluations(score))
  of_clients = tables.read_required(
    folder.path, tables.client_evaluations(score)
  )
  last = evaluations.iloc[-1]
  score = score.with_fitting_digits(last[f"{score.name}/mean"])
  clients = _clients(of_clients, parts, int(last["round"]), predicted)
  seen = tables.drop_unseen(clients)
  left_out = seen["client"][seen[f"test_{score.name}"].isna()]
  joined = joining_gains.of_clients(seen, score)
  summary = {
    **_client_summary(last, clients, score),
    **_training_summary(folder, spec, parts, int(last["round"])),
    **_majority(parts, seen),
    summaries.LEFT_OUT: [*map(str, left_out)] or None,
    summaries.JOINING: joined
    and {**joined, **(predicted.local_training or {})},
    summaries.GROUPS: None
    if predicted.groups is None
    else group_fairness.summarize(predicted.groups, seen[tables.CLIENT]),
    summaries.THRESHOLD: predicted.threshold,
    summaries.FINETUNED: joining_gains.of_fine_tuned(seen, score),
    summaries.UNSEEN: joining_gains.of_unseen_clients(clients, score),
    summaries.LATE: joining_gains.of_late_clients(of_clients, score),
  }
  summary = {key: found for key, found in summary.items() if found is not None}
  with tempfile.TemporaryDirectory(
    prefix=atomic.STAGING, dir=folder.path, ignore_cleanup_errors=True
  ) as staging:
    staged = RunFolder(pathlib.Path(staging))
    for path, table in (
      (staged.clients, clients),
      (staged.groups, predicted.groups),
      (staged.fine_tuning, predicted.fine_tuning),
    ):
      if table is not None:
        atomic.write(path, csv_cells.csv_text(table))
    values = seen[f"test_{score.name}"].dropna()
    plots.draw_distribution(values, staged.plot_of(score), score)
    plots.draw_curves(evaluations, staged.curves_plot, score)
    _write_labels(staged, parts.task)
    atomic.write(staged.summary, parsing.json_text(summary))
    if folder.next_configuration is not None:
      text = parsing.json_text(folder.next_configuration)
      atomic.write(staged.config, text)
    for path in folder.path.glob("*.*"):
      if path.is_file():  # A user's link may be broken.
        atomic.sync(path)
    integrity.write_checksums(folder, staged=staged)
    with interruption.defer():
      _move(staged, folder)
  return summary


def _move(staged: RunFolder, folder: RunFolder) -> None:
  """Moves final files to a run's folder; the last one marks the run as done."""
  last = [staged.checksums, staged.summary]
  if folder.is_finished:
    # Until the new configuration is in place, the same command fine-tunes
    # again.
    last = [staged.summary, staged.checksums, staged.config]
    # Old checksums would report the new results as changed.
    folder.checksums.unlink(missing_ok=True)
    atomic.sync(folder.path)
  others = sorted({*staged.path.iterdir()}.difference(last))
  for file in (*others, *last):
    folder.check_place()
    atomic.move(file, folder.path / file.name)


def _client_summary(
  last: pd.Series, clients: pd.DataFrame, score: Score
) -> dict[str, Any]:
  seen = tables.drop_unseen(clients)
  found = {
    "rounds": int(last["round"]),
    "num_clients": len(seen),
    "score": score.name,
    **_results(last, score),
    **_noise(seen, score),
  }
  if tables.ATTACKER in seen:
    honest = seen[~seen[tables.ATTACKER]]
    found["honest"] = {
      "num_clients": len(honest),
      **_results(last, score, tables.HONEST),
      **_noise(honest, score),
    }
  return found


def _training_summary(
  folder: RunFolder, spec: RunSpec, parts: build.RunParts, rounds: int
) -> dict[str, Any]:
  """Returns the summary's entries on training; None for a missing entry."""
  cohorts = tables.read_required(folder.path, tables.COHORTS)
  metrics = tables.read_required(folder.path, tables.METRICS)
  return {
    "best": _best(folder, parts.best_tracker),
    plan.PRIVACY: parts.dp
    and plan.account_privacy(
      spec,
      parts.dp,
      num_clients=sampling.num_participants(parts.first_rounds),
      rounds=rounds,
    ),
    summaries.STATIONARITY: certificates.stationarity(metrics, cohorts),
    summaries.COEFFICIENT_CHANGE: certificates.coefficient_change(
      spec, cohorts, parts.task
    ),
  }


def _best(
  folder: RunFolder, best: BestEvaluationTracker | None
) -> dict[str, object] | None:
  """Returns the best evaluation's checkpoint, round, criterion and value."""
  if best is None or best.round_num is None:
    return None
  path = checkpoints.path(folder.best_checkpoint, best.round_num)
  return {
    "checkpoint": str(path.relative_to(folder.path)),
    "round": best.round_num,
    "criterion": best.criterion,
    "value": best.value,
  }


def label_counts(task: tasks.Task) -> np.ndarray | None:
  """Returns `Task.label_counts`; None without classes or with many clients."""
  if (
    not task.has_class_labels or task.num_clients > scoring.MOST_CLIENTS_TO_READ
  ):
    return None
  return task.label_counts


def _write_labels(folder: RunFolder, task: tasks.Task) -> None:
  counts = label_counts(task)
  if counts is None:
    return
  table = pd.DataFrame(counts)
  table.insert(0, "client_id", range(task.num_clients))
  table.to_csv(folder.labels, index=False)


def _training_label_counts(parts: build.RunParts) -> np.ndarray | None:
  """Counts the participants' training labels by class; None without classes."""
  counts = label_counts(parts.task)
  if counts is None or len(counts[0]) < 2:
    return None
  return counts[sampling.participates(parts.first_rounds)].sum(0)


def _majority(parts: build.RunParts, clients: pd.DataFrame) -> dict[str, Any]:
  counts = _training_label_counts(parts)
  if counts is None:
    return {}
  names = parts.task.class_titles
  positive = parts.scores.positive_class
  return {
    summaries.MAJORITY: majority.compare(
      clients, parts.scores.score, counts, names, "num_test_examples", "test_"
    ),
    summaries.POSITIVE_CLASS: None if positive is None else names[positive],
  }


def _clients(
  evaluations: pd.DataFrame,
  parts: build.RunParts,
  round_num: int,
  predicted: predictions.Results,
) -> pd.DataFrame:
  task = parts.task
  rows = evaluations[evaluations["round"] == round_num].drop(columns="round")
  ids = rows.pop("client_id").to_numpy()
  clients = pd.DataFrame(
    {
      "client_id": ids,
      "client": [task.client_names[client_id] for client_id in ids],
    }
  )
  if parts.attackers:
    clients[tables.ATTACKER] = np.isin(ids, parts.attackers)
  clients["num_train_examples"] = task.train.num_examples[ids]
  for name in (tables.UNSEEN, tables.JOIN_ROUND):
    if name in rows:
      clients[name] = rows.pop(name).to_numpy()
  if task.train.noise_levels is not None:
    clients["label_noise"] = task.train.noise_levels[ids]
    if len(ids) <= scoring.MOST_CLIENTS_TO_READ:
      clients["wrong_labels"] = [
        label_noise.wrong_share(task.train, client_id) for client_id in ids
      ]
  clients["num_test_examples"] = rows.pop("num_examples").to_numpy()
  if (counts := _training_label_counts(parts)) is not None:
    most = counts.argmax()
    clients[majority.COLUMN] = [
      np.mean(task.test.load(client_id)[1] == most) for client_id in ids
    ]
  for name in rows:  # Loss, score, ...
    is_of_test = not name.startswith(tables.VALIDATION)
    clients[f"test_{name}" if is_of_test else name] = rows[name].to_numpy()
  for columns in (
    predicted.other_models,
    None
    if predicted.groups is None
    else group_fairness.client_gaps(predicted.groups),
  ):
    if columns is not None:
      clients = clients.merge(columns, on="client_id", validate="one_to_one")
  return clients


def _results(
  row: pd.Series, score: Score, prefix: str = ""
) -> dict[str, object]:
  weighted = f"{score.name}_weighted"
  return {
    f"test_{score.name}": _group(row, f"{prefix}{score.name}"),
    f"test_{weighted}": float(row[f"{prefix}{weighted}"]),
    **{f"test_{n}": _group(row, f"{prefix}{n}") for n in score.extra_scores},
    "test_loss": _group(row, f"{prefix}loss"),
  }


def _noise(clients: pd.DataFrame, score: Score) -> dict[str, object]:
  """Returns the entry on sampling noise; empty unless the score is accuracy."""
  if not score.is_accuracy:
    return {}
  noise = sampling_noise.of_scores(
    clients["test_accuracy"], clients["num_test_examples"]
  )
  return {} if noise is None else {summaries.NOISE: noise}


def _group(row: pd.Series, group: str) -> dict[str, float]:
  prefix = f"{group}/"
  return {
    name.removeprefix(prefix): float(value)
    for name, value in row.items()
    if name.startswith(prefix)
  }
