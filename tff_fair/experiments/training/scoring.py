"""The score of each client of a task, from the evaluation of a model."""

import math
from collections.abc import Callable, Mapping

import numpy as np

import tasks
from tff_fair.experiments import scores
from tff_fair.experiments.scores import Score

# One entry per client each.
Columns = Mapping[str, np.ndarray]


def score_of(task: tasks.Task) -> Score:
  """Returns the score of a task: an error where its label is a number."""
  return scores.RMSE if task.num_classes is None else scores.ACCURACY


def build(
  task: tasks.Task, label_variance: Callable[[int], float]
) -> Callable[[Columns], dict[str, np.ndarray]]:
  """Returns a function from evaluations to evaluations with the score.

  Args:
    task: The task. Where its label is a number, its loss must be the mean
      squared error.
    label_variance: Returns `variance` of the test labels of a client that was
      evaluated. Asked only where the label is a number.

  Returns:
    A function from the columns `client_id`, `num_examples`, `loss` and
    `accuracy` to the same ones; those of a regression have `rmse` and `r2` in
    place of the accuracy. A client whose labels are all equal has None as its
    R². Where the loss is no number, the model has diverged: then the error is
    infinite, and R² is minus infinity.
  """
  if score_of(task) is scores.ACCURACY:
    return dict

  def with_errors(columns: Columns) -> dict[str, np.ndarray]:
    ids = columns["client_id"].tolist()
    variances = np.array([label_variance(client_id) for client_id in ids])
    kept = {name: c for name, c in columns.items() if name != "accuracy"}
    rmse, r2 = errors(columns["loss"], variances, task.label_scale)
    cells = r2.astype(object)
    cells[np.isnan(r2)] = None
    return {**kept, "rmse": rmse, "r2": cells}

  return with_errors


def variance(labels: np.ndarray) -> float:
  """Returns the mean squared deviation of labels from their mean.

  It is exactly 0 where all are equal: the rounding of a mean would leave a rest
  of it.

  Args:
    labels: float[n], or float[n, t] of several numbers an example, each of
      which has a mean of its own.
  """
  centered = labels.astype(np.float64) - labels[0].astype(np.float64)
  return float(centered.var(axis=0).mean())


def errors(
  squared_errors: np.ndarray, variances: np.ndarray, label_scale: float
) -> tuple[np.ndarray, np.ndarray]:
  """Returns RMSE and R² of clients.

  Args:
    squared_errors: float[K], mean squared errors, in units of y².
    variances: float64[K], those of the labels, in units of y².
    label_scale: The units of the label that one unit of y is.

  Returns:
    float64[K], RMSE in units of the label, inf where the squared error is NaN;
    float64[K], R², NaN where the variance is 0.
  """
  mean_squares = squared_errors.astype(np.float64)
  mean_squares = np.where(np.isnan(mean_squares), math.inf, mean_squares)
  unexplained = np.divide(
    mean_squares,
    variances,
    out=np.full_like(mean_squares, math.nan),
    where=variances > 0,
  )
  return abs(label_scale) * np.sqrt(mean_squares), 1 - unexplained
