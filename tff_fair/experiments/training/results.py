"""What remains of a run: the summary, the table of clients and the plots.

All of it comes from the tables in the run's folder.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

import tasks
from tasks import label_noise
from tasks.cuts import label_histogram
from tasks.formats import files, parsing
from tff_fair import privacy
from tff_fair.experiments import (
  coefficient_change,
  decisions,
  group_fairness,
  joining,
  newcomers,
  spread_noise,
  spreadsheets,
  stationarity,
)
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.scores import ACCURACY, Score
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import (
  participation,
  plots,
  release,
  resolving,
  scoring,
)
from tff_fair.experiments.training.loop import Selection

# Beyond this, reading all data takes minutes.
_MOST_CLIENTS_WITH_LABELS = 5000


def write(
  folder: RunFolder,
  task: tasks.Task,
  *,
  spec: RunSpec | None = None,
  score: Score | None = None,
  gains: pd.DataFrame | None = None,
  groups: pd.DataFrame | None = None,
  threshold: Mapping[str, Any] | None = None,
  selection: Selection | None = None,
  attackers: Sequence[int] = (),
  dp: privacy.DifferentialPrivacy | None = None,
) -> dict[str, Any]:
  """Writes the results of a run whose last round is done.

  Args:
    folder: The folder with the tables of all rounds.
    task: Knows the clients' names and numbers of examples.
    spec: The run; without it, nothing is said of its coefficients and
      certificates.
    score: The score of the clients; by default the usual one of the task.
    gains: Columns of the table of clients by `client_id`: what clients have
      without the federation, and gain from it.
    groups: Counts of groups of people, see `group_fairness`.
    threshold: The decision threshold, see `decisions`.
    selection: Knows the best evaluation, if the run selects one.
    attackers: The clients that attack.
    dp: The noise for differential privacy, if there was any.

  Returns:
    The summary.

  Raises:
    RunError: If a table is damaged or missing.
  """
  score = score or scoring.of_task(task).score
  evaluations = tables.read_whole(folder.path, tables.evaluations(score))
  last = evaluations.iloc[-1]
  rounds = int(last["round"])
  of_clients = tables.read_whole(folder.path, tables.client_evaluations(score))
  clients = _clients(of_clients, task, rounds)
  if gains is not None:
    clients = clients.merge(gains, on="client_id", validate="one_to_one")
  if groups is not None:
    groups.to_csv(folder.groups, index=False)
    gaps = group_fairness.of_each_client(groups)
    clients = clients.merge(gaps, on="client_id", validate="one_to_one")
  score = score.fitting(last[f"{score.name}/mean"])
  seen = tables.seen(clients)
  results = {**_results(last, score), **_noise(seen, score)}
  if attackers:
    is_attacker = seen["client_id"].isin(attackers)
    clients.insert(2, tables.ATTACKER, clients["client_id"].isin(attackers))
    results["honest"] = {
      "num_clients": int((~is_attacker).sum()),
      **_results(last, score, "honest/"),
      **_noise(seen[~is_attacker], score),
    }
  names = clients["client"].map(spreadsheets.quoted)
  clients.assign(client=names).to_csv(folder.clients, index=False)
  values = seen[f"test_{score.name}"].dropna()
  plots.draw_distribution(values, folder.plot_of(score), score)
  plots.draw_curves(evaluations, folder.curves_plot, score)
  summary: dict[str, Any] = {
    "rounds": rounds,
    "num_clients": len(seen),
    "score": score.name,
    **results,
  }
  if selection is not None and selection.round_num is not None:
    summary["best"] = _best(folder, selection, selection.round_num)
  if dp is not None:
    first = None if spec is None else participation.first_rounds(spec, task)
    summary[resolving.PRIVACY] = resolving.account_privacy(
      dp,
      num_clients=task.num_clients
      if first is None
      else participation.num_seen(first),
      rounds=rounds,
    )
  if spec is not None:
    cohorts = tables.read_whole(folder.path, tables.COHORTS)
    certificate = stationarity.of_run(
      tables.read_whole(folder.path, tables.METRICS), cohorts
    )
    if certificate is not None:
      summary[stationarity.KEY] = certificate
    change = coefficient_change.of_run(spec, cohorts, task)
    if change is not None:
      summary[coefficient_change.KEY] = change
  for key, found in {
    joining.KEY: joining.of_clients(seen, score),
    group_fairness.KEY: None
    if groups is None
    else group_fairness.summarize(groups, seen[tables.CLIENT]),
    decisions.KEY: threshold,
    newcomers.UNSEEN: newcomers.of_unseen(clients, score),
    newcomers.LATE: newcomers.of_late(of_clients, score),
  }.items():
    if found is not None:
      summary[key] = found
  _write_labels(folder, task)
  for path in folder.path.glob("*.*"):
    if path.is_file():  # No link to nothing, whosever it is.
      files.sync(path)
  # All at once, as the last file: it says that the run is finished.
  files.write(folder.summary, parsing.json_text(summary))
  return summary


def _best(
  folder: RunFolder, selection: Selection, round_num: int
) -> dict[str, object]:
  """Returns where the state at the best evaluation is, and its value."""
  path = release.best_checkpoint(folder, round_num)
  return {
    "checkpoint": str(path.relative_to(folder.path)),
    "round": round_num,
    "criterion": selection.criterion,
    "value": selection.value,
  }


def _write_labels(folder: RunFolder, task: tasks.Task) -> None:
  """Writes how many training examples of each class every client has."""
  if (
    task.num_classes is None
    or not task.has_class_labels
    or task.num_clients > _MOST_CLIENTS_WITH_LABELS
  ):
    return
  counts = label_histogram.count_labels(task.train, task.num_classes)
  table = pd.DataFrame(counts)
  table.insert(0, "client_id", range(task.num_clients))
  table.to_csv(folder.labels, index=False)


def _clients(
  rows: pd.DataFrame, task: tasks.Task, round_num: int
) -> pd.DataFrame:
  rows = rows[rows["round"] == round_num].drop(columns="round")
  ids = rows.pop("client_id").to_numpy()
  clients = pd.DataFrame(
    {
      "client_id": ids,
      "client": [task.client_names[client_id] for client_id in ids],
      "num_train_examples": task.train.num_examples[ids],
    }
  )
  for name in (tables.UNSEEN, tables.JOIN_ROUND):
    if name in rows:
      clients[name] = rows.pop(name).to_numpy()
  if task.train.noise_levels is not None:
    clients["label_noise"] = task.train.noise_levels[ids]
    if len(ids) <= _MOST_CLIENTS_WITH_LABELS:
      clients["wrong_labels"] = [
        label_noise.wrong_share(task.train, client_id) for client_id in ids
      ]
  clients["num_test_examples"] = rows.pop("num_examples").to_numpy()
  for name in rows:  # Loss, score, ...
    clients[f"test_{name}"] = rows[name].to_numpy()
  return clients


def _results(
  row: pd.Series, score: Score, prefix: str = ""
) -> dict[str, object]:
  weighted = f"{score.name}_weighted"
  return {
    f"test_{score.name}": _group(row, f"{prefix}{score.name}"),
    f"test_{weighted}": float(row[f"{prefix}{weighted}"]),
    **{f"test_{n}": _group(row, f"{prefix}{n}") for n in score.beside},
    "test_loss": _group(row, f"{prefix}loss"),
  }


def _noise(clients: pd.DataFrame, score: Score) -> dict[str, object]:
  """Returns the noise in the spread of accuracies, if these are the score."""
  if score.name != ACCURACY.name:
    return {}
  noise = spread_noise.of_clients(
    clients["test_accuracy"], clients["num_test_examples"]
  )
  return {} if noise is None else {spread_noise.KEY: noise}


def _group(row: pd.Series, group: str) -> dict[str, float]:
  prefix = f"{group}/"
  return {
    name.removeprefix(prefix): float(value)
    for name, value in row.items()
    if name.startswith(prefix)
  }
