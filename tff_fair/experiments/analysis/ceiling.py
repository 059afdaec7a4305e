"""How much better any method could be: the ceiling of a task, runs beside it.

A model that is linear in its trained weights has a least mean loss, a least
CVaR and a least largest loss over the clients' training data, which
`tff_fair.metrics.ceiling` finds with a proof. Of other models, the last layer
is such a model of the features that a trained run computes: the ceiling is then
one of this representation.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from tff_fair import declared
from tff_fair.declared import FieldError
from tff_fair.experiments import progress
from tff_fair.experiments.analysis import groups as run_groups
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import configuration, finding, tables
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.metrics import ceiling as least, client_losses
from tff_fair.metrics.client_losses import Array, ClientLosses

if typing.TYPE_CHECKING:
  import pandas as pd
  import tensorflow as tf

  import tasks
  from tff_fair.experiments.runs.finding import Place

Weighting = Literal["uniform", "num_examples", "column"]
WEIGHTINGS: tuple[str, ...] = get_args(Weighting)
MEAN, TAIL, LARGEST = "mean", "tail", "largest"
RISKS = (MEAN, TAIL, LARGEST)
_TAILS = (0.25, 0.5, 0.75, 0.9)  # Of the front, between the mean and the CVaR.
_RADIUS = 100.0  # In units of the labels, where they are numbers.
_ROOM = 2.0  # Times the largest norm of a run: so far, the ball reaches.
_FAR = 1000.0  # Times the usual radius: runs beyond have diverged.
_BATCH = 1024


@dataclasses.dataclass(frozen=True, eq=False)
class Ceilings:
  """The ceilings of some data, and runs beside them.

  Attributes:
    share: The share of the clients in the tail.
    weighting: What clients count for in the mean.
    data: A row for each data set and model: `data`, its number; `title`;
      `loss`; `num_clients`, `num_examples`, `num_weights`; `representation`,
      the run whose features the model takes, "" where it is linear in all its
      weights; `radius`, the ball |W| <= radius that W lies in.
    least: A row for each risk and point of the front: `data`; `risk`: "mean",
      "tail", "largest" or "front"; `s`, of (1 - s) mean + s CVaR; `value`,
      `bound`, `gap`; of the model that reaches the value its `norm`, whether it
      `touches` the ball, its `mean`, `tail` and `largest` training loss, and
      the same of test losses, `test_mean`, ...
    runs: A row for each run: `data`, `path`, `method`, `seed`, `norm`; its
      training losses `mean`, `tail`, `largest`; `excess_mean`, ..., what they
      are above the values of the ceiling; test losses `test_mean`, ...
    notes: What to know beside.
  """

  share: float
  weighting: str
  data: pd.DataFrame
  least: pd.DataFrame
  runs: pd.DataFrame
  notes: tuple[str, ...]


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
  """Finds how fair any training of a model could be on its training data.

      ceiling(task="digits").least[["risk", "value", "gap"]]
      ceiling("outputs/sweep").runs.groupby("method").excess_tail.mean()

  The gap of each value is at most 1e-4 nats, or 1e-4 of the labels' variance,
  unless `notes` says otherwise.

  Args:
    runs: Finished runs, or folders of runs, to lay beside the ceiling of their
      data and model.
    task: In their place, the name of a task.
    task_options: Its options.
    data_dir: Directory of its data files.
    seed: Its seed.
    model: Another model for it, as in `RunSpec`.
    share: Of the clients, those in the tail: the CVaR is over these.
    weighting: What clients count for in the mean; "column" takes the task's.
    radius: W, with its biases, lies in the ball of this radius. By default 100
      (times the root of the labels' mean square), and twice as far out as the
      runs.
    trust: As for `tff_fair.experiments.export`.
    tell: Takes a line before each ceiling is computed.

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
  if runs is None:
    if task is None:
      raise FieldError("task", "is missing; name a task, or give runs.")
    spec = RunSpec(
      task=task,
      task_options=dict(task_options or {}),
      data_dir=data_dir,
      seed=seed,
      model=model,
    )
    problems = [_Problem.of(spec, None, ())]
  else:
    if task is not None:
      raise FieldError("task", "is that of the runs; leave it out.", value=task)
    problems = _problems(runs, trust, notes)
  solve = functools.partial(
    _solve, share=share, weighting=weighting, radius=radius
  )
  parts = []
  for number, problem in enumerate(problems):
    rows, clients = problem.train.x.shape[0], problem.train.num_clients
    tell(f"{problem.title}: {clients:,} clients, {rows:,} training examples.")
    parts.append(solve(number, problem))
  return _joined(share, weighting, parts, notes)


def _joined(
  share: float, weighting: str, parts: Sequence[_Part], notes: list[str]
) -> Ceilings:
  """Returns the parts as tables."""
  import pandas as pd  # noqa: PLC0415  It takes as long as all others.

  found = [row for part in parts for row in part.least]
  for row in found:
    if row["gap"] > row["tolerance"]:
      notes.append(
        f"The gap of the least {row['risk']} is {row['gap']:.2g}, above the "
        f"{row['tolerance']:.2g} that was asked for."
      )
  return Ceilings(
    share,
    weighting,
    pd.DataFrame([part.data for part in parts]),
    pd.DataFrame(found).drop(columns="tolerance"),
    pd.DataFrame([row for part in parts for row in part.runs]),
    tuple(dict.fromkeys([*notes, *(n for part in parts for n in part.notes)])),
  )


# From runs and tasks to rows.


class _Model(NamedTuple):
  """A Keras model as features and a last layer of dense weights.

  Attributes:
    parts: What computes the features, one after the other.
    last: The last layer.
    loss: The loss of its outputs.
  """

  parts: Sequence[Callable[..., Any]]
  last: tf.keras.layers.Dense
  loss: client_losses.Loss

  @property
  def has_representation(self) -> bool:
    """Whether the features have weights."""
    return any(getattr(part, "weights", ()) for part in self.parts)

  def weights(self) -> Array:
    """Returns W with the biases as its last row, flat."""
    kernel, *bias = self.last.get_weights()
    rows = [kernel, *(b[None] for b in bias)]
    return np.concatenate(rows).astype(np.float64).ravel()

  def features(self, x: np.ndarray) -> np.ndarray:
    """Returns the inputs of the last layer, and 1 for the biases."""
    found = []
    for start in range(0, len(x), _BATCH):
      batch = x[start : start + _BATCH]
      for part in self.parts:
        batch = part(batch, training=False)
      found.append(np.asarray(batch, np.float32).reshape(len(batch), -1))
    ones = [np.ones((len(x), 1), np.float32)] * self.last.use_bias
    return np.concatenate([np.concatenate(found), *ones], 1)


class _RunWeights(NamedTuple):
  """A run, and the weights of its last layer."""

  run: Run
  method: str
  weights: Array


class _Problem(NamedTuple):
  """Rows of clients, and the weights of runs for them."""

  title: str
  representation: str
  train: ClientLosses
  test: ClientLosses
  client_weights: np.ndarray | None
  runs: Sequence[_RunWeights]

  @classmethod
  def of(
    cls,
    spec: RunSpec,
    clients: np.ndarray | None,
    members: Sequence[tuple[Run, str]],
  ) -> _Problem:
    """Loads the data of runs that share it, and their weights.

    Of a model with weights before its last layer, there is one run.
    """
    # Imported late: they import TensorFlow.
    from tff_fair.experiments.runs import trained_model  # noqa: PLC0415
    from tff_fair.experiments.spec import task_loading  # noqa: PLC0415

    task = task_loading.load(spec)
    loss = _loss(task)
    keras_model = task.keras_model_fn()
    model = _split(keras_model, loss, task)
    if model.has_representation and not members:
      raise FieldError(
        "model",
        "has weights before its last layer, so that its loss is not convex; "
        "give a trained run: the ceiling is then one of its representation.",
      )
    weights = []
    for run, method in members:
      trained_model.assign(keras_model, run.weights())
      weights.append(_RunWeights(run, method, model.weights()))
    ids = np.arange(task.num_clients) if clients is None else clients
    given = task.client_weights
    return cls(
      task.name if not members else members[0][0].task,
      str(members[0][0].path) if model.has_representation else "",
      _rows(task.train, ids, model, task.num_classes),
      _rows(task.test, ids, model, task.num_classes),
      None if given is None else given[ids],
      weights,
    )


def _problems(
  runs: Run | Place | Iterable[Run | Place], trust: bool, notes: list[str]
) -> list[_Problem]:
  """Loads the data of runs, once for all that share it."""
  found = finding.find_whole(runs, ("clients",))
  notes += found.notes
  finished = [run for run in found.runs if run.is_finished]
  if left_out := len(found.runs) - len(finished):
    notes.append(f"{left_out} runs are not finished, and left out.")
  if not finished:
    raise RunError("No run is finished; train one to its end first.")
  same: dict[tuple[object, ...], list[tuple[Run, str]]] = {}
  for group in run_groups.group(finished):
    for run in group.runs:
      key: tuple[object, ...] = (
        run_groups.data_key(run),
        run.seeds.data,
        run.spec.data_dir,
        run.spec.model,
        run.spec.unseen_clients,
        run.path if _is_deep(run) else "",
      )
      same.setdefault(key, []).append((run, group.label))
  return [
    _Problem.of(
      configuration.with_code(
        members[0][0].config, members[0][0].spec, trust=trust
      ),
      _participants(members[0][0]),
      members,
    )
    for members in same.values()
  ]


def _is_deep(run: Run) -> bool:
  """Returns whether a run has more weights than those of one dense layer."""
  return len(run.weights()) > 2


def _participants(run: Run) -> np.ndarray | None:
  """Returns the ids of the clients that may take part; None means all."""
  clients = run.clients
  if clients is None or tables.UNSEEN not in clients:
    return None
  taking = clients[~clients[tables.UNSEEN].astype(bool)]
  return np.sort(taking["client_id"].to_numpy())


def _loss(task: tasks.Task) -> client_losses.Loss:
  if task.num_classes is None:
    return "squared"
  if not task.has_class_labels or task.objective.activation != "softmax":
    raise FieldError(
      "task",
      "has no ceiling: expected one class for each example, or numbers.",
      value=task.name,
    )
  return "softmax"


def _split(
  model: tf.keras.Model, loss: client_losses.Loss, task: tasks.Task
) -> _Model:
  """Splits a model before its last layer, which must be linear."""
  import tensorflow as tf  # noqa: PLC0415

  from tasks.models import initial_weights  # noqa: PLC0415

  user_model = initial_weights.of_user(model)
  parts: list[Callable[..., Any]] = []
  last: Any = user_model
  while isinstance(last, tf.keras.Model) and last.layers:
    if isinstance(last, tf.keras.Sequential):
      parts += last.layers[:-1]
    else:
      before = last.layers[-1].input
      parts.append(tf.keras.Model(last.inputs, before))
    last = last.layers[-1]
  is_linear = (
    isinstance(last, tf.keras.layers.Dense)
    and last.activation is tf.keras.activations.linear
  )
  if not is_linear:
    raise FieldError(
      "model",
      f"ends with {type(last).__name__}; a ceiling needs a model that ends "
      "with a Dense layer without an activation.",
      value=task.name,
    )
  if loss == "softmax" and last.units == 1:
    loss = "logistic"
  return _Model(parts, last, loss)


def _rows(
  split: tasks.Split,
  ids: np.ndarray,
  model: _Model,
  num_classes: int | None,
) -> ClientLosses:
  """Loads the rows of some clients."""
  x, y, client = [], [], []
  for number, client_id in enumerate(ids):
    rows, labels = split.load(int(client_id))
    x.append(model.features(rows))
    y.append(labels)
    client.append(np.full(len(labels), number))
  return ClientLosses(
    np.concatenate(x),
    np.concatenate(y),
    np.concatenate(client),
    model.loss,
    num_classes,
  )


# From rows to tables.


class _Part(NamedTuple):
  """The rows of the tables that are about one problem."""

  data: dict[str, Any]
  least: list[dict[str, Any]]
  runs: list[dict[str, Any]]
  notes: list[str]


def _solve(
  number: int,
  problem: _Problem,
  *,
  share: float,
  weighting: str,
  radius: float | None,
) -> _Part:
  """Finds the ceilings of a problem, and what its runs are above them."""
  losses = problem.train
  scale = _scale(losses)
  usual = _RADIUS * scale.length
  near: list[_RunWeights] = []
  notes: list[str] = []
  for run in problem.runs:
    if np.linalg.norm(run.weights) <= _FAR * usual:
      near.append(run)
    else:  # Or its weights are not numbers.
      notes.append(f"{run.run.path}: left out, as its training diverged.")
  norms = [float(np.linalg.norm(run.weights)) for run in near]
  if radius is None:
    radius = max([usual, *(_ROOM * norm for norm in norms)])
  p = _client_weights(problem, weighting)
  risks = {
    MEAN: least.mean_loss(p),
    TAIL: least.tail_loss(p, share),
    LARGEST: least.largest_loss(p),
  }
  asked = [
    (MEAN, risks[MEAN]),
    *(("front", least.tail_loss(p, share, tail)) for tail in _TAILS),
    (TAIL, risks[TAIL]),
    (LARGEST, risks[LARGEST]),
  ]

  def measured(weights: Array) -> dict[str, float]:
    train, test = losses.values(weights), problem.test.values(weights)
    return {
      **{name: risk.of(train) for name, risk in risks.items()},
      **{f"test_{name}": risk.of(test) for name, risk in risks.items()},
    }

  tolerance, start = 1e-4 * scale.loss, None
  rows: list[dict[str, Any]] = []
  for name, risk in asked:
    found = least.least_risk(losses, risk, radius, tolerance, start)
    start = found.weights
    rows.append(
      {
        "data": number,
        "risk": name,
        "s": risk.tail,
        "value": found.value,
        "bound": found.bound,
        "gap": found.gap,
        "norm": found.norm,
        "touches": found.touches,
        **measured(found.weights.ravel()),
        "tolerance": tolerance,
      }
    )
  rows = [_best(row, rows) for row in rows]
  values = {row["risk"]: row["value"] for row in rows if row["risk"] in risks}
  of_runs = []
  for run, norm in zip(near, norms, strict=True):
    if norm > radius:
      notes.append(
        f"{run.run.path}: its weights lie outside the ball, at {norm:.4g}; it "
        "may be better than the ceiling."
      )
    of_run = measured(run.weights)
    of_runs.append(
      {
        "data": number,
        "path": str(run.run.path),
        "method": run.method,
        "seed": str(run.run.seeds),
        "norm": norm,
        **of_run,
        **{f"excess_{n}": of_run[n] - values[n] for n in RISKS},
      }
    )
  data = {
    "data": number,
    "title": problem.title,
    "loss": losses.loss,
    "num_clients": losses.num_clients,
    "num_examples": len(losses.x),
    "num_weights": losses.shape[0] * losses.shape[1],
    "representation": problem.representation,
    "radius": radius,
  }
  return _Part(data, rows, of_runs, notes)


def _best(
  row: dict[str, Any], rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
  """Returns a row with the model that is the best for its risk of all rows."""

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


class _Scale(NamedTuple):
  """Units of a loss: its tolerance is in units of `loss`, R of `length`."""

  loss: float
  length: float


def _scale(losses: ClientLosses) -> _Scale:
  if losses.loss != "squared":
    return _Scale(1.0, 1.0)
  squares = float((losses.y**2).mean()) or 1.0
  return _Scale(float(losses.y.var(axis=0).mean()) or squares, squares**0.5)


def _client_weights(problem: _Problem, weighting: str) -> Array:
  """Returns p."""
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
