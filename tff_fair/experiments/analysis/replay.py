"""Applies rules to the rounds on a run's tape, and compares the rules."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tff_fair import methods
from tff_fair.declared import FieldError
from tff_fair.experiments import progress
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import configuration, discovery, tape_files
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.settings import learning
from tff_fair.experiments.texts import layout
from tff_fair.metrics import intervals
from tff_fair.metrics.statistics import STATISTICS

if typing.TYPE_CHECKING:
  import pandas as pd

  from tff_fair import types
  from tff_fair.experiments.runs.discovery import Place

# Slopes below this share of ||Delta_k|| ||d|| are rounding errors.
_ROUNDING = 1e-12


def replay(
  run: Run | Place,
  algorithm: str | types.Rule,
  hparams: Mapping[str, Any] | None = None,
  *,
  tell: Callable[[str], object] = progress.say,
) -> pd.DataFrame:
  """Applies a rule to the rounds on a run's tape, without training.

  In each round, the rule would have taken the direction d = sum_k c_k Delta_k,
  where Delta_k is the update of client k. It is computed from the clients'
  scalars and the inner products of their updates. Only the rule is replayed,
  not a method's local training or server step.

  Args:
    run: A run with a tape, or its folder.
    algorithm: The name of a method, or a rule of your own.
    hparams: Hyperparameters of the method; those left out have their defaults.
      Without this argument, those of the run, if its method is the same.
    tell: Called with a line about each missing or damaged block on the tape.

  Returns:
    A row for each round and client included in it, in the tape's order:

    * `round`, `client_id`;
    * `coefficient`, c_k;
    * `slope`, <Delta_k, d>;
    * `cosine`, the cosine of the angle between Delta_k and d;
    * `harmed`, whether the slope is below 0: to first order, the step raises
      the client's loss;
    * `conflicts`, the number of other clients j with <Delta_k, Delta_j> < 0;
    * `loss_change`, the first-order change of the client's loss by the step
      eta_s d: -(eta_s / eta_k) <Delta_k, d> / steps_k, where the server has the
      learning rate eta_s, and the client eta_k and steps_k local steps; NaN
      unless both take steps of plain SGD, the server at a constant rate;
    * `angle`, between d and the direction that the run took in the round, in
      degrees.

  Raises:
    RunError: If the run has no tape, or the tape belongs to another model or
      lacks quantities that the rule needs.
    TypeError: If a hyperparameter has the wrong type.
    FieldError: If a method, hyperparameter or value is not valid.
  """
  import pandas as pd  # noqa: PLC0415  Takes as long as all other imports.

  from tff_fair import runtime  # noqa: PLC0415  Imports TensorFlow.
  from tff_fair.summing import aggregation_kinds, tape  # noqa: PLC0415

  found = run if isinstance(run, Run) else discovery.open_run(run)
  folder = RunFolder(found.path)
  runtime.use_default()
  rule = _rule(found, folder, algorithm, hparams)
  replaying = tape.Replay(rule)
  server_rate = _server_rate(found, algorithm)
  columns: list[pd.DataFrame] = []
  for round_num, taped in tape_files.read(folder, _last_round(found), tell):
    if taped is None and replaying.has_state:
      tell(
        f"{folder.tape}: lacks round {round_num}, so the replay of "
        f"{type(rule).__name__} ends there: it needs every round."
      )
      break
    if taped is None:
      continue
    if replaying.needs_updates and aggregation_kinds.UPDATES not in taped:
      raise RunError(
        f"{folder.tape}: has no updates, which {type(rule).__name__} remembers "
        "with these hyperparameters; train the run with --tape=updates."
      )
    output = replaying.next(taped)
    if output is not None:
      columns.append(_rows(round_num, taped, output, server_rate))
  if not columns:
    raise RunError(f"{folder.tape}: has no round that can be replayed.")
  return pd.concat(columns, ignore_index=True)


def _rule(
  run: Run,
  folder: RunFolder,
  algorithm: str | types.Rule,
  hparams: Mapping[str, Any] | None,
) -> types.Rule:
  """Returns the rule to apply, and checks that the tape has its inputs."""
  from tff_fair.experiments.runs import trained_model  # noqa: PLC0415  Imports TensorFlow.

  described = trained_model.Architecture.read(folder.model)
  if not isinstance(algorithm, str):
    if hparams is not None:
      raise FieldError(
        "hparams",
        "apply to a method given by name; set the fields of the rule instead.",
      )
    rule = algorithm
  else:
    algorithm = methods.canonical_name(algorithm)
    if algorithm == run.algorithm:
      saved = run.config.get(configuration.OWN_FILES, {}).get("algorithm")
      if saved not in (None, methods.file_digest(algorithm)):
        raise RunError(
          f"{folder.path}: was made with another version of the file of "
          f"{algorithm}; put that version back, or name the rule of another "
          "file."
        )
      if hparams is None:
        hparams = run.spec.all_hparams
    rule = methods.make_rule(
      algorithm, hparams, num_clients=described.num_clients
    )
  if rule.is_measured:
    raise FieldError(
      "algorithm",
      "needs measurements or draws between rounds, which no tape has; replay "
      "another method.",
      value=algorithm if isinstance(algorithm, str) else type(rule).__name__,
    )
  if "accuracy" in rule.signals and described.num_classes is None:
    raise RunError(
      f"{folder.path}: has no accuracies, which {type(rule).__name__} needs: "
      "the label is a number."
    )
  return rule


def _last_round(run: Run) -> int:
  rounds = run.rounds["round"]
  last = int(rounds.max()) if len(rounds) else 0
  return min(last, run.spec.tape_rounds or last)


def _server_rate(run: Run, algorithm: str | types.Rule) -> float:
  """Returns the server's rate eta_s; NaN if not all steps are plain SGD."""
  spec = run.spec
  momenta = ("client_momentum", "server_momentum")  # Hyperparameters of FedFA.
  is_sgd = (
    spec.client_optimizer == "sgd"
    and not any(spec.all_hparams.get(name) for name in momenta)
    and spec.server_optimizer in (None, "sgd")
    and spec.server_learning_rate_decay is None
    and not spec.has_own_server_step
    and not spec.corrects_steps
  )
  if isinstance(algorithm, str):
    is_sgd &= learning.SERVER_RATE not in methods.hyperparameters(algorithm)
  return (spec.server_learning_rate or 1.0) if is_sgd else math.nan


def _rows(
  round_num: int, taped: tape_files.Arrays, output: Any, server_rate: float
) -> pd.DataFrame:
  import pandas as pd  # noqa: PLC0415

  from tff_fair.summing import tape  # noqa: PLC0415

  gram, slopes = tape.gram_of_cohort(taped), output.slopes
  lengths = np.sqrt(taped["squared_norm"]) * output.direction_norm
  travelled = taped["learning_rate"] * taped["effective_steps"]
  with np.errstate(divide="ignore", invalid="ignore"):
    return pd.DataFrame(
      {
        "round": round_num,
        "client_id": taped["client_id"],
        "coefficient": output.coefficients,
        "slope": slopes,
        "cosine": np.where(lengths > 0, slopes / lengths, math.nan),
        "harmed": slopes < -_ROUNDING * lengths,
        "conflicts": (gram < 0).sum(axis=1),
        "loss_change": np.where(
          travelled > 0, -server_rate * slopes / travelled, math.nan
        ),
        "angle": output.angle,
      }
    )


RULE = "rule"  # The column with the names of rules.


class _Column(NamedTuple):
  """A column of the comparison; `measure` gives its number for a round."""

  title: str
  measure: Callable[[pd.DataFrame], float]
  form: str = ".3g"


_COLUMNS: Mapping[str, _Column] = {
  "harmed": _Column("Harmed (%)", lambda r: 100 * r["harmed"].mean(), ".1f"),
  "worst_cosine": _Column("Worst cosine", lambda r: r["cosine"].min(), ".3f"),
  "loss_change": _Column("Change of loss", lambda r: r["loss_change"].mean()),
  "worst_loss_change": _Column(
    "Worst change", lambda r: r["loss_change"].max()
  ),
  "angle": _Column("Angle (°)", lambda r: r["angle"].iloc[0], ".1f"),
}


def compare_replays(replays: pd.DataFrame) -> pd.DataFrame:
  """Returns each rule's means over the common rounds, with 95 % intervals."""
  import pandas as pd  # noqa: PLC0415

  groups = dict(list(replays.groupby(RULE, sort=False)))
  common = set.intersection(*(set(rows["round"]) for rows in groups.values()))
  found = []
  for rule, rows in groups.items():
    of_rounds = rows[rows["round"].isin(common)].groupby("round")
    row: dict[str, object] = {RULE: rule, "rounds": len(common)}
    for name, column in _COLUMNS.items():
      values = np.array([column.measure(r) for _, r in of_rounds], float)
      row |= _with_interval(name, values[np.isfinite(values)])
    found.append(row)
  return pd.DataFrame(found)


def _with_interval(name: str, values: np.ndarray) -> dict[str, float]:
  """Returns the mean of `values`, one per round, and its interval's ends."""
  mean, ends = math.nan, intervals.Interval(math.nan, math.nan)
  if values.size:
    mean = float(values.mean())
    ends = intervals.bootstrap_intervals({name: STATISTICS["mean"]}, values)[
      name
    ]
  return {name: mean, f"{name}_low": ends.low, f"{name}_high": ends.high}


def cells(compared: pd.DataFrame) -> list[list[str]]:
  """Returns the rows of a comparison's table as cells, the titles first."""
  shown = [name for name in _COLUMNS if compared[name].notna().any()]
  lines = [["Rule", *(_COLUMNS[name].title for name in shown)]]
  for row in compared.to_dict("records"):
    lines.append([row[RULE], *(_cell(row, name) for name in shown)])
  return lines


def text(compared: pd.DataFrame) -> str:
  """Returns a comparison as a table for a terminal."""
  return layout.table(cells(compared))


def _cell(row: Mapping[str, Any], name: str) -> str:
  """Returns a mean and its interval, such as "1.50 [1.20, 1.80]"."""
  if math.isnan(row[name]):
    return ""
  form = _COLUMNS[name].form
  mean, low, high = (
    f"{row[f'{name}{end}']:{form}}" for end in ("", "_low", "_high")
  )
  return mean if math.isnan(row[f"{name}_low"]) else f"{mean} [{low}, {high}]"
