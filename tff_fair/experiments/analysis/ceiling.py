"""Finds the ceiling of a task: the least losses that any method can reach.

Runs are compared with it. If a model is linear in its trained weights,
`tff_fair.metrics.ceiling` finds its least mean loss, least CVaR and least
largest loss over the clients' training data, with a proof. In other models, the
last layer is linear in the features that a trained run computes: the ceiling
then holds for models with these features.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from tff_fair import declared
from tff_fair.declared import FieldError
from tff_fair.experiments import progress
from tff_fair.experiments.analysis import ceiling_problems
from tff_fair.experiments.analysis.ceiling_problems import Problem, RunWeights
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.metrics import ceiling as risk_ceiling
from tff_fair.metrics.client_losses import Array, ClientLosses

if typing.TYPE_CHECKING:
  import pandas as pd

  from tff_fair.experiments.runs.discovery import Place

Weighting = Literal["uniform", "num_examples", "column"]
WEIGHTINGS: tuple[str, ...] = get_args(Weighting)
MEAN, TAIL, LARGEST = "mean", "tail", "largest"
RISKS = (MEAN, TAIL, LARGEST)
_TAILS = (0.25, 0.5, 0.75, 0.9)  # The s in the risks (1 - s) mean + s CVaR.
# The minimum default radius; for regression, in units of the labels' RMS.
_RADIUS = 100.0
# The default radius is at least this factor times the norm of a run's weights.
_RADIUS_FACTOR = 2.0
# A run has diverged if the norm of its weights exceeds this factor times the
# minimum radius.
_DIVERGENCE_FACTOR = 1000.0
_TOLERANCE = 1e-4  # The tolerated gap, value - bound, in the loss's unit.


@dataclasses.dataclass(frozen=True, eq=False)
class Ceilings:
  """The ceilings of data sets and models, compared with runs.

  Attributes:
    share: The share of the clients in the tail.
    weighting: The weights of clients in the mean.
    data: A row for each data set and model: `data`, its number; `title`;
      `loss`; `num_clients`, `num_examples`, `num_weights`; `representation`,
      the run whose features the model takes, "" if it is linear in all its
      weights; `radius`, the bound |W| <= radius on the model's weights W.
    least: A row for each risk: `data`; `risk`: "mean", "tail", "largest", or
      "front" for a mixture of the first two; `s` in (1 - s) mean + s CVaR;
      `value`, the risk of the best model that was found; `bound`, a proven
      lower bound on the risk of every model; `gap`, their difference; for the
      model with this value, its `norm`, whether it `touches` the ball's
      boundary, the `mean`, `tail` and `largest` of its training losses, and
      the same risks of its test losses, `test_mean`, ...
    runs: A row for each run: `data`, `path`, `method`, `seed`, `norm`; its
      training losses `mean`, `tail`, `largest`; `excess_mean`, ..., how far
      these are above the values in `least`; test losses `test_mean`, ...
    notes: Sentences for the user, such as on runs that are left out.
  """

  share: float
  weighting: str
  data: pd.DataFrame
  least: pd.DataFrame
  runs: pd.DataFrame
  notes: tuple[str, ...]

  @property
  def names(self) -> dict[str, str]:
    """The risks' titles in tables, by their names in `RISKS`."""
    return {
      MEAN: "mean",
      TAIL: f"worst {100 * self.share:g} %",
      LARGEST: "largest loss",
    }

  @property
  def unit(self) -> str:
    """The unit of the losses in words: "squared errors" or "nats"."""
    is_squared = self.data["loss"].iloc[0] == "squared"
    return "squared errors" if is_squared else "nats"


def ceiling(
  runs: Run | Place | Iterable[Run | Place] | None = None,
  *,
  task: str | None = None,
  task_options: Mapping[str, Any] | None = None,
  data_dir: str | None = None,
  seed: int = 0,
  model: str | None = None,
  share: float = 0.1,
  weighting: Weighting = "uniform",
  radius: float | None = None,
  trust: bool = False,
  tell: Callable[[str], object] = progress.say,
) -> Ceilings:
  """Finds a model's ceiling: the least risks that any training of it can reach.

      ceiling(task="digits").least[["risk", "value", "gap"]]
      ceiling("outputs/sweep").runs.groupby("method").excess_tail.mean()

  The gap of each value is at most 1e-4 nats, or 1e-4 of the labels' variance,
  unless `notes` says otherwise.

  Args:
    runs: Finished runs, or folders of runs, to compare with the ceiling of
      their data and model.
    task: Instead of runs, the name of a task.
    task_options: Options of the task.
    data_dir: Directory of the task's data files.
    seed: Seed of the task's data.
    model: Another model for the task, as in `RunSpec`.
    share: The share of the clients in the tail: the CVaR is their mean loss.
    weighting: The weights of clients in the mean: "uniform", "num_examples", or
      "column", the weights in the task's data.
    radius: The radius of the ball of allowed weights, biases included. By
      default 100 (times the root of the labels' mean square), or twice the
      largest norm of the runs' weights if that is more.
    trust: As for `tff_fair.experiments.export`.
    tell: Called with a line of text before each ceiling is computed.

  Returns:
    The least risks, with proven bounds on their errors, and the runs' risks.

  Raises:
    FieldError: If an argument is not valid, or the model has no ceiling.
    RunError: If a run cannot be read.
    tasks.DataError: If the data cannot be used.
  """
  declared.check_number(
    "share", share, minimum=0, exclude_minimum=True, maximum=1
  )
  declared.check_choice("weighting", weighting, WEIGHTINGS)
  if radius is not None:
    declared.check_number("radius", radius, minimum=0, exclude_minimum=True)
  notes: list[str] = []
  if runs is not None:
    of_task = {
      "task": task,
      "task_options": task_options or None,
      "data_dir": data_dir,
      "seed": seed or None,
      "model": model,
    }
    for name, value in of_task.items():
      if value is not None:
        raise FieldError(name, "comes from the runs; leave it out.")
    problems, notes = ceiling_problems.of_runs(runs, trust=trust)
  elif task is None:
    raise FieldError("task", "is missing; name a task, or give runs.")
  else:
    spec = RunSpec(
      task=task,
      task_options=dict(task_options or {}),
      data_dir=data_dir,
      seed=seed,
      model=model,
    )
    problems = [*ceiling_problems.load(spec, task)]
  parts = []
  for problem in problems:
    rows, clients = problem.train.x.shape[0], problem.train.num_clients
    tell(f"{problem.title}: {clients:,} clients, {rows:,} training examples.")
    p = _client_weights(problem, weighting)
    parts.append(_solve(problem, share, p, radius))
  return _joined(share, weighting, parts, notes)


def _joined(
  share: float, weighting: str, parts: Sequence[_Part], notes: Sequence[str]
) -> Ceilings:
  import pandas as pd  # noqa: PLC0415  Takes as long as all other imports.

  data, rows, runs = (
    pd.DataFrame(
      [
        {"data": number, **row}
        for number, part in enumerate(parts)
        for row in getattr(part, name)
      ]
    )
    for name in ("data", "least", "runs")
  )
  all_notes = [*notes, *(note for part in parts for note in part.notes)]
  return Ceilings(
    share, weighting, data, rows, runs, tuple(dict.fromkeys(all_notes))
  )


class _Part(NamedTuple):
  data: list[dict[str, Any]]
  least: list[dict[str, Any]]
  runs: list[dict[str, Any]]
  notes: list[str]


def _solve(
  problem: Problem, share: float, p: Array, radius: float | None
) -> _Part:
  """Finds the least risks for client weights `p`, and runs' excess risks."""
  losses = problem.train
  unit, length = _scale(losses)
  usual, tolerance = _RADIUS * length, _TOLERANCE * unit
  most = _DIVERGENCE_FACTOR * usual
  near = [run for run in problem.runs if run.norm <= most]
  notes = [
    f"{run.run.path}: left out, as its training diverged."
    for run in problem.runs
    if not run.norm <= most  # NaN means divergence, too.
  ]
  if radius is None:
    radius = max([usual, *(_RADIUS_FACTOR * run.norm for run in near)])
  measured = _ProblemRisks(problem, p, share)
  rows = _least(measured, radius, tolerance)
  notes += [
    f"The gap of the least {row['risk']} is {row['gap']:.2g}, above the "
    f"{tolerance:.2g} that was asked for."
    for row in rows
    if row["gap"] > tolerance
  ]
  notes += [
    f"{run.run.path}: its weights lie outside the ball, at {run.norm:.4g}; it "
    "may be better than the ceiling."
    for run in near
    if run.norm > radius
  ]
  data = {
    "title": problem.title,
    "loss": losses.loss,
    "num_clients": losses.num_clients,
    "num_examples": len(losses.x),
    "num_weights": losses.shape[0] * losses.shape[1],
    "representation": problem.representation,
    "radius": radius,
  }
  return _Part([data], rows, _run_rows(near, measured, rows), notes)


class _ProblemRisks:
  """Computes the risks of a problem for given weights of its model."""

  def __init__(self, problem: Problem, p: Array, share: float) -> None:
    self.losses = problem.train
    self._test = problem.test
    self.risks = {
      MEAN: risk_ceiling.Risk(p),
      TAIL: risk_ceiling.Risk(p, tail=1.0, share=share),
      LARGEST: risk_ceiling.largest_loss(p),
    }
    self.front = [risk_ceiling.Risk(p, tail, share) for tail in _TAILS]

  def evaluate(self, weights: Array) -> dict[str, float]:
    """Returns the risks of training losses and of test losses by name."""
    train, test = self.losses.values(weights), self._test.values(weights)
    return {
      **{name: risk.evaluate(train) for name, risk in self.risks.items()},
      **{
        f"test_{name}": risk.evaluate(test) for name, risk in self.risks.items()
      },
    }


def _least(
  measured: _ProblemRisks, radius: float, tolerance: float
) -> list[dict[str, Any]]:
  named_risks = [
    (MEAN, measured.risks[MEAN]),
    *(("front", risk) for risk in measured.front),
    *((name, measured.risks[name]) for name in (TAIL, LARGEST)),
  ]
  rows: list[dict[str, Any]] = []
  start = None
  for name, risk in named_risks:
    found = risk_ceiling.least_risk(
      measured.losses, risk, radius, tolerance, start
    )
    start = found.weights
    rows.append(
      {
        "risk": name,
        "s": risk.tail,
        "value": found.value,
        "bound": found.bound,
        "gap": found.gap,
        "norm": found.norm,
        "touches": found.is_at_boundary,
        **measured.evaluate(found.weights.ravel()),
      }
    )
  return [_with_best_model(row, rows) for row in rows]


def _run_rows(
  runs: Sequence[RunWeights],
  measured: _ProblemRisks,
  rows: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
  """Returns a row per run: its risks, and their excess over the least risks."""
  values = {row["risk"]: row["value"] for row in rows}
  found = []
  for run in runs:
    reached = measured.evaluate(run.weights)
    found.append(
      {
        "path": str(run.run.path),
        "method": run.method,
        "seed": str(run.run.seeds),
        "norm": run.norm,
        **reached,
        **{f"excess_{name}": reached[name] - values[name] for name in RISKS},
      }
    )
  return found


def _with_best_model(
  row: dict[str, Any], rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
  """Returns `row` with another row's model, if that has a smaller risk."""

  def value(other: dict[str, Any]) -> float:
    if row["risk"] == LARGEST:
      return float(other[LARGEST])
    return float((1 - row["s"]) * other[MEAN] + row["s"] * other[TAIL])

  best = min(rows, key=value)
  if best is row or value(best) >= row["value"]:
    return row
  proof = {name: row[name] for name in ("risk", "s", "bound")}
  gap = max(0.0, value(best) - row["bound"])
  return {**best, **proof, "value": value(best), "gap": gap}


def _scale(losses: ClientLosses) -> tuple[float, float]:
  """Returns the units of losses and of the radius: 1, except in regression."""
  if losses.loss != "squared":
    return 1.0, 1.0
  squares = float((losses.y**2).mean()) or 1.0
  return float(losses.y.var(axis=0).mean()) or squares, squares**0.5


def _client_weights(problem: Problem, weighting: str) -> Array:
  counts = problem.train.counts
  if weighting == "column":
    if problem.client_weights is None:
      raise FieldError(
        "weighting",
        "needs a task whose data has weights of clients; leave it out.",
        value=weighting,
      )
    given = problem.client_weights
  else:
    given = counts if weighting == "num_examples" else np.ones(counts.size)
  found: Array = given / given.sum()
  return found
