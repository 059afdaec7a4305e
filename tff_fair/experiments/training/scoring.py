"""Computes each client's scores from the columns of a model's evaluation."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

import tasks
from tff_fair import spelling
from tff_fair.client_works.output_ranges import ENDS, LABEL_SUMS, TOP, Outputs
from tff_fair.client_works.score_sums import SumsRequest
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import majority
from tff_fair.experiments.runs import diagnosis
from tff_fair.experiments.spec import scores
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.scores import ACCURACY, RMSE, Score
from tff_fair.metrics import class_scores

# Columns by name; each has one entry per client, [clients, ...].
Columns = Mapping[str, np.ndarray]


class ScoringSettings(NamedTuple):
  """The scores that an evaluation computes, and what it needs for them."""

  score: Score
  # None means the rarer of two classes or, with more classes, a mean over all.
  positive_class: int | None = None
  # The sums that clients send; None if they send only accuracies.
  sums: SumsRequest | None = None


def resolve(task: tasks.Task, spec: RunSpec) -> ScoringSettings:
  """Returns the scores that a run requests, or the task's default score."""
  usual = RMSE if task.num_classes is None else ACCURACY
  name = spec.score or usual.name
  asked = [] if spec.measures is None else spec.measures.split(",")
  positive = _positive(task, spec)
  for field, names in (("score", [name]), ("measures", asked)):
    for found in names:
      _check(task, field, found)
  if _has_rare_class(task) and _RECALL not in asked:
    asked = [*asked, _RECALL]  # Recall shows if a rare class is missed.
  if {name, *asked} == {ACCURACY.name}:
    return ScoringSettings(ACCURACY, positive)
  others = dict.fromkeys([usual.name, *usual.extra_scores, *asked])
  beside = tuple(other for other in others if other != name)
  ordered = class_scores.WITH_HISTOGRAM.keys() & {name, *beside}
  sums = SumsRequest(task.num_classes, with_histogram=bool(ordered))
  return ScoringSettings(scores.with_extra_scores(name, beside), positive, sums)


_RECALL = "recall"


def _has_rare_class(task: tasks.Task) -> bool:
  return (
    task.num_classes == 2
    and task.has_class_labels
    and task.objective.activation == "softmax"
    and task.num_clients <= MOST_CLIENTS_TO_READ
    and majority.rare_class(task.label_counts.sum(0)) is not None
  )


MOST_CLIENTS_TO_READ = 5000  # Beyond this, reading all data takes minutes.


def _check(task: tasks.Task, field: str, name: str) -> None:
  score = scores.BY_NAME[name]
  is_of_classes = task.num_classes is not None
  if score.is_for_classes != is_of_classes:
    valid = [
      n for n, s in scores.BY_NAME.items() if s.is_for_classes == is_of_classes
    ]
    kind = "classes" if is_of_classes else "numbers"
    raise FieldError(
      field,
      f"the labels of {task.name} are {kind}; choose one of "
      f"{', '.join(valid)}.",
      value=name,
    )
  if is_of_classes and name != ACCURACY.name:
    require_class_logits(task, field, name)


def require_class_logits(task: tasks.Task, field: str, value: object) -> None:
  """Raises a `FieldError` unless a task has class labels and logits."""
  if not task.has_class_labels or task.objective.activation != "softmax":
    raise FieldError(
      field,
      "needs one class for each example and a model with a logit for each "
      f"class, which {task.name} does not have; leave it out.",
      value=value,
    )


def _positive(task: tasks.Task, spec: RunSpec) -> int | None:
  """Returns the class that `score_class` gives by name or number, or None."""
  given = spec.score_class
  if given is None:
    return None
  if task.num_classes is None:
    raise FieldError(
      "score_class",
      f"the labels of {task.name} are numbers; leave it out.",
      value=given,
    )
  names = task.class_titles
  if given in names:
    return names.index(given)
  if given.isdecimal() and int(given) < task.num_classes:
    return int(given)
  raise FieldError(
    "score_class",
    f"{task.name} has no such class; choose one of "
    f"{spelling.join_names(names)}.",
    value=given,
  )


def build(
  task: tasks.Task,
  label_variance: Callable[[int], float],
  scoring: ScoringSettings,
) -> Callable[[Columns], dict[str, np.ndarray]]:
  """Returns a function from an evaluation's columns to columns of scores."""
  score = scoring.score

  def with_scores(columns: Columns) -> dict[str, np.ndarray]:
    kept = {n: columns[n] for n in ("client_id", "num_examples", "loss")}
    found = {"accuracy": columns["accuracy"]}
    if task.num_classes is None:
      found = _regression_scores(columns, task.label_scale, label_variance)
    elif scoring.sums is not None:
      found |= _classification_scores(columns, scoring)
    return kept | {
      name: _cells(found[name], scores.BY_NAME[name])
      for name in (score.name, *score.extra_scores)
    }

  return with_scores


def _cells(values: np.ndarray, score: Score) -> np.ndarray:
  """Returns a score's values for tables, with None instead of NaN."""
  if not score.needs:
    return values
  cells = values.astype(object)
  cells[np.isnan(values)] = None
  return cells


def _classification_scores(
  columns: Columns, scoring: ScoringSettings
) -> dict[str, np.ndarray]:
  """Returns the classification scores that follow from clients' sums."""
  sums = class_scores.ClassSums(
    **{
      name: columns[name].astype(np.float64)
      for name in class_scores.ClassSums._fields
      if name in columns
    }
  )
  positive = scoring.positive_class
  if positive is None and sums.counts.shape[-2] == 2:
    positive = class_scores.rarest_class(sums.counts[..., 0])
  score = scoring.score
  found = {
    name: class_scores.score(name, sums, positive)
    for name in (score.name, *score.extra_scores)
    if name != ACCURACY.name
  }
  for name, values in found.items():
    if not scores.BY_NAME[name].needs:
      found[name] = np.where(np.isnan(values), math.inf, values)
  return found


def _regression_scores(
  columns: Columns, label_scale: float, label_variance: Callable[[int], float]
) -> dict[str, np.ndarray]:
  ids = columns["client_id"].tolist()
  variances = np.array([label_variance(client_id) for client_id in ids])
  number = columns["num_examples"]
  rmse, r2 = rmse_and_r2(columns["squared"] / number, variances, label_scale)
  mae = abs(label_scale) * columns["absolute"] / number
  mae = np.where(np.isnan(mae), math.inf, mae)
  return {"rmse": rmse, "r2": r2, "mae": mae}


def variance(labels: np.ndarray) -> float:
  """Returns the mean squared deviation of labels from their mean."""
  # Subtracting one label makes the variance of equal labels exactly 0.
  centered = labels.astype(np.float64) - labels[0].astype(np.float64)
  return float(centered.var(axis=0).mean())


def rmse_and_r2(
  squared_errors: np.ndarray, variances: np.ndarray, label_scale: float
) -> tuple[np.ndarray, np.ndarray]:
  """Returns each client's RMSE, in units of the label, and its R²."""
  mean_squares = squared_errors.astype(np.float64)
  mean_squares = np.where(np.isnan(mean_squares), math.inf, mean_squares)
  unexplained = np.divide(
    mean_squares,
    variances,
    out=np.full_like(mean_squares, math.nan),
    where=variances > 0,
  )
  return abs(label_scale) * np.sqrt(mean_squares), 1 - unexplained


# Predictions are constant if their range is at most this share of the labels'.
_CONSTANT_TOLERANCE = 1e-5
_ROUNDING = 1e-12  # Rounding errors, as a share of a mean square.
# Scores of probabilities: with a rare class, a good model may predict the other
# class for all examples.
_PROBABILITY_SCORES = frozenset(
  {"auc", "average_precision", "brier", "calibration_error", "log_loss"}
)


def output_kind(task: tasks.Task, score: Score) -> Outputs | None:
  """Returns the outputs whose ranges an evaluation measures, if any."""
  label = task.element_spec[1]
  if task.num_classes is None:
    width = label.shape[1:].num_elements()
    return None if width is None else Outputs("number", width)
  if task.objective.activation == "sigmoid" and label.shape.rank == 2:
    width = label.shape[1]
    # With at most `TOP` labels, the top predictions are always the same.
    return Outputs("labels", width) if (width or 0) > TOP else None
  if not label.dtype.is_integer or score.name in _PROBABILITY_SCORES:
    return None
  return Outputs("class", padding=task.objective.padding)


def summarize_outputs(
  columns: Columns, outputs: Outputs | None
) -> dict[str, float | dict[str, float]]:
  """Returns the entries of a summary that `diagnosis` reads."""
  if outputs is None:
    return {}
  low, high, label_low, label_high = columns[ENDS].max(0) * [-1, 1, -1, 1]
  spread = float(label_high - label_low)
  same = _CONSTANT_TOLERANCE * spread if outputs.kind == "number" else 0
  is_finite = (
    np.isfinite([low, high]).all() and np.isfinite(columns["loss"]).all()
  )
  is_constant = is_finite and spread > 0 and high - low <= same
  found: dict[str, float | dict[str, float]] = {}
  if is_constant:
    found[diagnosis.CONSTANT] = {outputs.kind: float(low)}
  if outputs.kind == "number" and (r2 := _pooled_r2(columns)) is not None:
    found[diagnosis.POOLED] = r2
  return found


def _pooled_r2(columns: Columns) -> float | None:
  number = columns["num_examples"].sum()
  means, squares = columns[LABEL_SUMS].sum(0) / number
  variance = float((squares - means**2).mean())
  if not variance > _ROUNDING * float((means**2).mean()):
    return None
  # NaN means that the model has diverged, so the error is infinite.
  error = float(np.nan_to_num(columns["squared"].sum() / number, nan=math.inf))
  return 1 - error / variance
