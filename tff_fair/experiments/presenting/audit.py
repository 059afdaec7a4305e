"""Audits an existing model, or its results, for fairness to clients."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import typing
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import tasks
from tff_fair import declared, metrics
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import (
  audit_table,
  joining_gains,
  sampling_noise,
)
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.presenting import audit_page
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec.scores import ACCURACY, Score
from tff_fair.files import atomic, csv_cells, parsing
from tff_fair.metrics import vectors

if typing.TYPE_CHECKING:
  import tensorflow as tf

  from tff_fair.experiments.analysis.model_evaluation import Outputs, Split

CLIENTS, SUMMARY, PAGE = "clients.csv", "summary.json", "index.html"


@dataclasses.dataclass(frozen=True, eq=False)
class Audit:
  """The results of an audit.

  Attributes:
    clients: One row per client: client, num_examples, and accuracy with its
      interval (accuracy_low, accuracy_high), correct and loss; or rmse and r2
      if the label is a number; or only loss.
    summary: `num_clients`; `num_examples`; `score`, the name of the column by
      which clients are compared; `test_NAME`, the score's statistics over
      equally weighted clients, under the names of
      `tff_fair.metrics.fairness_summary` (for errors, the worst are the
      largest); `test_NAME_weighted`, the score's mean weighted by examples;
      `intervals`, the 95 % intervals `[low, high]` of statistics that have one;
      for accuracies also `test_accuracy_noise`, the spread due to finite test
      sets (None if unknown), and `equality_p_value`, the probability of at
      least this spread if all clients are served equally well; `newcomers`, a
      lower bound on the scores of clients on which the model was not trained.
    title: The names of the model and its data.
    about: The kind and the amount of the data, in one line.
  """

  clients: pd.DataFrame
  summary: Mapping[str, Any]
  title: str
  about: str

  def describe(self) -> str:
    """Returns the fairness table with intervals, and the verdict, as text."""
    return audit_page.describe(self.clients, self.summary)

  def write(
    self, folder: str | os.PathLike[str], *, overwrite: bool = False
  ) -> pathlib.Path:
    """Writes the table of clients, the summary and a page.

    Args:
      folder: The folder for clients.csv, summary.json and index.html, created
        if missing.
      overwrite: Whether to replace these files if they exist.

    Returns:
      The path of the page.

    Raises:
      RunError: If a file exists already, or cannot be written.
    """
    folder = pathlib.Path(folder)
    check_folder(folder, overwrite=overwrite)
    contents = {
      CLIENTS: csv_cells.csv_text(self.clients),
      SUMMARY: parsing.json_text(self.summary),
      PAGE: audit_page.build(
        self.clients, self.summary, self.title, self.about
      ),
    }
    try:
      folder.mkdir(parents=True, exist_ok=True)
      for name, content in contents.items():
        atomic.write(folder / name, content)
    except OSError as error:
      raise RunError(
        f"{folder}: cannot be written: {error.strerror or error}."
      ) from error
    return folder / PAGE


def audit(
  model: tf.keras.Model | str | os.PathLike[str] | None = None,
  task: tasks.Task | str | None = None,
  *,
  results: str | os.PathLike[str] | None = None,
  task_options: Mapping[str, Any] | None = None,
  data_dir: str | os.PathLike[str] | None = None,
  seed: int = 0,
  split: Split = "test",
  outputs: Outputs = "auto",
  trust: bool = False,
  score: str | None = None,
  measures: str | None = None,
  score_class: str | None = None,
  threshold_for: str | None = None,
) -> Audit:
  """Measures how fair a model is to clients, from the model or its results.

      audit("model.keras", "digits").write("outputs/audit")
      audit(results="per_client.csv").summary["test_accuracy"]["worst_10"]

  Args:
    model: A Keras model that maps the task's x to outputs; or the path of a
      model: a .keras or .h5 file, or the folder of a SavedModel. A model whose
      inputs have the names of the task's raw columns gets these columns.
    task: The task on whose clients the model is evaluated, or its name.
    results: Instead of a model and a task, a CSV file of results from another
      program, one row per client: client, n, and correct, accuracy or loss.
      This does not need TensorFlow.
    task_options: Options of a task given by name.
    data_dir: Directory of the data files of a task given by name.
    seed: Seed of a task given by name. It must be the seed of the training, as
      it determines which examples are test examples.
    split: The examples to evaluate on: "test", "train" or "all".
    outputs: What a classifier returns: "probabilities", "logits", or "auto":
      probabilities if the outputs sum to 1 for each example, else logits.
    trust: Whether to run code that the model's file contains or names.
    score: The score by which clients are compared, as in a run: "auc", "f1",
      ... By default the accuracy, or the RMSE if labels are numbers.
    measures: Further scores, such as "recall,brier".
    score_class: The class to which scores such as recall refer, as in a run.
    threshold_for: With two classes, the score for which a decision threshold is
      chosen, on the training data of the clients.

  Returns:
    The clients' results, and statistics over them.

  Raises:
    ValueError: If an argument is not valid, or does not fit the others.
    tasks.DataError: If the data cannot be used.
  """
  of_model = {
    "model": model,
    "task": task,
    "task_options": task_options or None,
    "data_dir": data_dir,
    "seed": seed,
    "split": split,
    "outputs": outputs,
    "trust": trust,
    "score": score,
    "measures": measures,
    "score_class": score_class,
    "threshold_for": threshold_for,
  }
  if results is not None:
    _check_unused(
      of_model,
      "does not go with results, which have no model and no outputs for each "
      "example; leave it or the results out.",
    )
    clients = audit_table.read(results)
    title = f"Audit of {pathlib.Path(results).name}"
    return _audit("results", clients, title, "Results")
  if model is None or task is None:
    missing = "model" if model is None else "task"
    raise FieldError(
      missing, "is missing; give a model and a task, or results."
    )
  if not isinstance(task, str):
    _check_unused(
      {name: of_model[name] for name in ("task_options", "data_dir", "seed")},
      "goes with the name of a task, not with a task; leave it out.",
    )
  # Imported here: they load TensorFlow, which audits of `results` do not need.
  from tff_fair.experiments.analysis import model_evaluation  # noqa: PLC0415
  from tff_fair.experiments.presenting import audit_scores  # noqa: PLC0415

  declared.check_choice("split", split, model_evaluation.SPLITS)
  declared.check_choice("outputs", outputs, model_evaluation.OUTPUTS)
  found = model_evaluation.read_model(model, trust=trust)
  if isinstance(task, str):
    task = _load(task, task_options or {}, data_dir, seed)
  scoring = audit_scores.build_scoring(
    task,
    score=score,
    measures=measures,
    score_class=score_class,
    threshold_for=threshold_for,
  )
  if threshold_for is not None and found.decides:
    raise FieldError(
      "threshold_for",
      "does not go with a model that has its own threshold; leave it out.",
      value=threshold_for,
    )

  evaluate = functools.partial(
    model_evaluation.evaluate, found, task, outputs=outputs
  )
  clients, gathered = evaluate(split=split)
  trained = None if threshold_for is None else evaluate(split="train")[1]
  clients, more = audit_scores.measure(
    clients, task, scoring, gathered, trained, threshold_for
  )
  decided = ", decided by the model's own threshold" if found.decides else ""
  about = f"{task.description}. {_SPLIT_TITLES[split]}{decided}"
  title = f"Audit of {pathlib.Path(found.name).name} on {task.name}"
  return _audit("task", clients, title, about, scoring.score, more)


# The defaults of arguments whose default is not None.
_DEFAULTS = {"seed": 0, "split": "test", "outputs": "auto", "trust": False}


def _check_unused(arguments: Mapping[str, object], problem: str) -> None:
  """Raises a `FieldError` with `problem` unless all arguments are defaults."""
  for name, value in arguments.items():
    if value != _DEFAULTS.get(name):
      raise FieldError(
        name, problem, value=value if isinstance(value, str) else None
      )


_SPLIT_TITLES = {
  "test": "Test data",
  "train": "Training data",
  "all": "Training and test data",
}


def check_folder(folder: pathlib.Path, *, overwrite: bool) -> None:
  """Checks that `Audit.write` can write its files into a folder."""
  if os.path.lexists(folder) and not folder.is_dir():
    raise RunError(f"{folder}: is not a folder; name another.")
  RunFolder(folder).check_writable()
  try:
    for name in (CLIENTS, SUMMARY, PAGE):
      atomic.check_free(folder / name, overwrite=overwrite)
  except OSError as error:
    raise RunError(str(error)) from error


def _audit(
  argument: str,
  clients: pd.DataFrame,
  title: str,
  about: str,
  score: Score | None = None,
  more: Mapping[str, Any] | None = None,
) -> Audit:
  """Returns an audit; an error about its clients names the `argument`."""
  if len(clients) < 2:
    raise FieldError(
      argument, "has one client; a spread between clients needs two."
    )
  found = {
    **_summarize(clients, score or audit_table.score_of(clients)),
    **(more or {}),
  }
  examples, number = found["num_examples"], found["num_clients"]
  return Audit(
    _with_intervals(clients),
    found,
    title,
    f"{about}: {number:,} clients with {examples:,} examples.",
  )


def _load(
  name: str,
  options: Mapping[str, Any],
  data_dir: str | os.PathLike[str] | None,
  seed: int,
) -> tasks.Task:
  try:
    tasks.option_names(name)
  except ValueError as error:
    raise FieldError("task", str(error), value=name) from error
  try:
    return tasks.load(name, data_dir=data_dir, seed=seed, **options)
  except tasks.DataError:
    raise
  except ValueError as error:
    raise FieldError("task_options", str(error)) from error


# The statistics with an interval; minimum and maximum have none.
_WITH_INTERVAL = (
  *("mean", "std", "worst_10", "best_10", "percentile_50"),
  *("relative_std", "jain"),
)


def _with_intervals(clients: pd.DataFrame) -> pd.DataFrame:
  """Returns `clients`, with Wilson intervals if the table has accuracies."""
  accuracy = ACCURACY.name
  if accuracy not in clients:
    return clients
  low, high = metrics.wilson_interval(
    clients[accuracy], clients[audit_table.COUNT]
  )
  place = clients.columns.get_loc(accuracy) + 1
  found = clients.copy()
  found.insert(place, f"{accuracy}_low", low)
  found.insert(place + 1, f"{accuracy}_high", high)
  return found


def _summarize(clients: pd.DataFrame, score: Score) -> dict[str, Any]:
  known = clients.dropna(subset=[score.name])
  if known.empty:
    raise FieldError(
      "score",
      f"no client's data have {score.needs}, which it needs; choose another "
      "score.",
      value=score.name,
    )
  values = known[score.name].to_numpy(np.float64)
  count = known[audit_table.COUNT].to_numpy(np.float64)
  once = np.ones_like(values)
  summary: dict[str, Any] = {
    "num_clients": len(clients),
    "num_examples": int(clients[audit_table.COUNT].sum()),
    "score": score.name,
    f"test_{score.name}": {
      name: float(statistic(values, once))
      for name, statistic in score.statistics.items()
    },
    f"test_{score.name}_weighted": float(vectors.mean(values, count)),
    "intervals": {
      name: list(ends)
      for name, ends in score.intervals(values, count, _WITH_INTERVAL).items()
    },
    "newcomers": joining_gains.unseen_client_bound(values, count, score),
  }
  if score.is_accuracy:
    summary[summaries.NOISE] = sampling_noise.of_accuracies(values, count)
    summary["equality_p_value"] = metrics.equality_p_value(values, count)
  if left_out := len(clients) - len(known):
    summary[f"test_{score.name}"]["left_out"] = left_out
  return summary
