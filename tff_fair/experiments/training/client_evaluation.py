"""Evaluates a run's model on its clients' data; checks the data beforehand."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

import tasks
from tasks.models import initial_weights
from tff_fair import evaluation
from tff_fair.client_works import output_ranges, score_sums
from tff_fair.declared import FieldError
from tff_fair.experiments.runs import tables
from tff_fair.experiments.spec.scores import ACCURACY, Score, summarize_extra
from tff_fair.experiments.training import (
  build,
  client_data,
  learning_process,
  loop,
  rounds,
  sampling,
  scoring,
)
from tff_fair.experiments.training.round_progress import track_work
from tff_fair.experiments.training.round_state import (
  VALIDATION,
  RoundEvaluation,
  Summary,
)
from tff_fair.metrics import class_scores

# The most clients whose data one call reads; 300 clients of EMNIST are 20 MB.
_CLIENTS_PER_CALL = 300
# The most histogram bins that one call returns (64 MB).
_MOST_BINS = 2**23


def check_data(task: tasks.Task) -> None:
  """Reads all clients' data, so that damage shows before training.

  With very many clients, it reads nothing, as reading would take minutes.
  """
  if task.num_clients <= scoring.MOST_CLIENTS_TO_READ:
    for client_id in range(task.num_clients):
      task.train.load(client_id)
      task.test.load(client_id)


def build_losses(
  parts: build.RunParts, train_data: client_data.ClientDatasets
) -> Callable[[rounds.State, client_data.Ids], np.ndarray]:
  """Returns a function from a state and client ids to clients' mean losses."""
  evaluate = _compile_evaluation(evaluation.build_client_evaluation, parts)

  def losses(state: rounds.State, client_ids: client_data.Ids) -> np.ndarray:
    model = (state.global_model_weights,)
    calls = _calls(client_ids, _CLIENTS_PER_CALL)
    return _evaluate_in_calls(evaluate, model, train_data, calls)["loss"]

  return losses


def build_evaluation(
  parts: build.RunParts,
  test_data: client_data.ClientDatasets,
  validation_data: client_data.ClientDatasets | None = None,
) -> loop.EvaluateFn:
  """Returns a function that evaluates a state on test and validation data."""
  score, sums = parts.scores.score, parts.scores.sums
  outputs = scoring.output_kind(parts.task, score)
  evaluation_on = functools.partial(
    _build_part_evaluation,
    parts,
    _compile_evaluation(
      evaluation.build_client_evaluation, parts, sums, outputs
    ),
    _compile_evaluation(
      evaluation.build_personal_evaluation, parts, sums, outputs
    )
    if learning_process.has_personal_models(parts.process)
    else None,
  )
  on_test = evaluation_on(test_data, parts.evaluated_ids, "test")
  if validation_data is None or parts.task.validation is None:
    return on_test
  has_rows = parts.task.validation.num_examples[parts.evaluated_ids] > 0
  on_validation = evaluation_on(
    validation_data, parts.evaluated_ids[has_rows], "validation"
  )
  names = ("num_examples", "loss", score.name, *score.extra_scores)

  def evaluate(state: rounds.State) -> RoundEvaluation:
    tested, validated = on_test(state), on_validation(state)
    columns = {}
    for name in names:
      column = np.full(len(has_rows), None, object)
      column[has_rows] = validated.clients[name]
      columns[f"{tables.VALIDATION}{name}"] = column
    return RoundEvaluation(
      {**tested.summary, VALIDATION: validated.summary},
      {**tested.clients, **columns},
      score,
    )

  return evaluate


def _build_part_evaluation(
  parts: build.RunParts,
  evaluate_global: tff.Computation,
  evaluate_personal: tff.Computation | None,
  data: client_data.ClientDatasets,
  client_ids: np.ndarray,
  part: str,
) -> loop.EvaluateFn:
  """Returns a function that evaluates a state on test or on validation data."""
  score = parts.scores.score
  outputs = scoring.output_kind(parts.task, score)
  calls = _calls(client_ids, _max_clients_per_call(parts.scores.sums))
  marks = sampling.participation_columns(parts.first_rounds[client_ids])
  with_score = scoring.build(parts.task, data.label_variance, parts.scores)
  summary = functools.partial(
    _summary,
    attackers=parts.attackers if part == "test" else (),
    score=score,
    part=part,
  )

  def of_outputs(columns: scoring.Columns) -> dict[str, Any]:
    if part != "test":
      return {}
    return scoring.summarize_outputs(
      _drop_unseen({**columns, **marks}), outputs
    )

  name = "evaluation" if part == "test" else f"evaluation on {part} data"
  passes = 1 if evaluate_personal is None else 2

  @track_work(name, len(client_ids), passes)
  def evaluate(state: rounds.State) -> RoundEvaluation:
    weights = parts.process.get_model_weights(state)
    columns = _evaluate_in_calls(evaluate_global, (weights,), data, calls)
    found = with_score(columns) | marks
    if evaluate_personal is None:
      return RoundEvaluation(
        {**summary(found), **of_outputs(columns)}, found, score
      )
    table = state.client_work["personal"]
    columns = _evaluate_in_calls(
      evaluate_personal, (weights, table), data, calls
    )
    personal = with_score(columns) | marks
    results = ("loss", score.name, *score.extra_scores)
    return RoundEvaluation(
      {
        **summary(personal),
        **of_outputs(columns),
        "global": summarize(_drop_unseen(found), score, part),
      },
      {**personal, **{f"global_{name}": found[name] for name in results}},
      score,
    )

  return evaluate


def _compile_evaluation(
  form: Callable[..., tff.Computation],
  parts: build.RunParts,
  sums: score_sums.SumsRequest | None = None,
  outputs: output_ranges.Outputs | None = None,
) -> tff.Computation:
  """Returns the evaluation that `form` builds, from the cache if possible."""
  # Any seed will do: the evaluation takes the model's weights as arguments.
  task = initial_weights.with_seed_0(parts.task)
  return parts.cache.computations(
    (form.__name__, task.model_parts, sums, outputs),
    lambda: {"evaluate": form(task.model, sums=sums, outputs=outputs)},
  )["evaluate"]


def _max_clients_per_call(sums: score_sums.SumsRequest | None) -> int:
  """Returns the largest number of clients that one call may evaluate."""
  if sums is None or not sums.with_histogram or sums.num_classes is None:
    return _CLIENTS_PER_CALL
  most = _MOST_BINS // (sums.num_classes * class_scores.NUM_BINS)
  return min(max(1, most), _CLIENTS_PER_CALL)


def _summary(
  columns: Mapping[str, np.ndarray],
  attackers: Sequence[int],
  score: Score,
  part: str,
) -> Summary:
  """Summarizes an evaluation; with attackers, also over honest clients only."""
  columns = _drop_unseen(columns)
  found = summarize(columns, score, part)
  if not attackers:
    return found
  is_honest = ~np.isin(columns["client_id"], attackers)
  honest = {name: column[is_honest] for name, column in columns.items()}
  return {**found, "honest": summarize(honest, score, part)}


def _drop_unseen(columns: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
  if tables.UNSEEN not in columns:
    return columns
  is_seen = ~columns[tables.UNSEEN]
  return {name: column[is_seen] for name, column in columns.items()}


def _calls(
  client_ids: client_data.Ids, clients_per_call: int
) -> list[np.ndarray]:
  """Splits clients into calls, so that the data of each call fits in memory."""
  return np.array_split(client_ids, -(-len(client_ids) // clients_per_call))


def _evaluate_in_calls(
  evaluate_clients: tff.Computation,
  model: Sequence[object],
  data: client_data.ClientDatasets,
  calls: Sequence[np.ndarray],
) -> dict[str, np.ndarray]:
  """Evaluates clients in several calls; returns columns over all clients."""
  rows = []
  for client_ids, following in itertools.zip_longest(calls, calls[1:]):
    of_call = data(client_ids)
    if following is not None:
      data.prepare(following)
    rows.append(evaluate_clients(*model, of_call))
  return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def summarize(
  columns: Mapping[str, np.ndarray], score: Score = ACCURACY, part: str = "test"
) -> Summary:
  """Returns statistics of scores and losses over the clients, by name."""
  loss = columns["loss"].astype(np.float64)
  num_examples = columns["num_examples"]
  values = columns[score.name].astype(np.float64)
  known = ~np.isnan(values) if score.needs else np.full(values.shape, True)
  if not known.any():
    raise FieldError(
      "score",
      f"no client's {part} data have {score.needs}, which it needs; choose "
      "another score.",
      value=score.name,
    )
  statistics = score.summarize(values[known])
  if score.needs:
    statistics["left_out"] = float((~known).sum())
  with np.errstate(invalid="ignore"):  # Losses may be infinite.
    loss_std = float(loss.std())
  return {
    score.name: statistics,
    f"{score.name}_weighted": float(
      np.average(values[known], weights=num_examples[known])
    ),
    **{
      name: summarize_extra(columns[name].astype(np.float64))
      for name in score.extra_scores
    },
    "loss": {
      "mean": float(loss.mean()),
      "std": loss_std,
      "max": float(loss.max()),
      "weighted": float(np.average(loss, weights=num_examples)),
    },
  }
