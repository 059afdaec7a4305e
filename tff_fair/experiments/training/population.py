"""The clients of a task: their data as processes take it, and evaluation."""

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tasks
import tff_fair
from tff_fair.experiments.training import loop, rounds

# Building a dataset takes as long as a client's share of a small round.
_NUM_CACHED_DATASETS = 256
# What one call takes to the worker at a time: 300 clients of EMNIST are 20 MB.
_CLIENTS_PER_CALL = 300
# Beyond this, reading all data takes minutes, and few clients will take part.
_MOST_CLIENTS_TO_CHECK = 5000

Ids = Sequence[int] | np.ndarray
ClientData = Callable[[Ids], list[tf.data.Dataset]]


def client_data(dataset_of: Callable[[int], tf.data.Dataset]) -> ClientData:
  """Returns a function from client ids to their data as processes take it.

  Args:
    dataset_of: Returns the dataset of a client, such as `Task.train_data`.
  """

  @functools.lru_cache(maxsize=_NUM_CACHED_DATASETS)
  def dataset(client_id: int) -> tf.data.Dataset:
    return tff_fair.client_dataset(client_id, dataset_of(client_id))

  return lambda client_ids: [dataset(client_id) for client_id in client_ids]


def check_data(task: tasks.Task) -> None:
  """Reads the data of all clients, so that damage shows before training.

  Of a very large population nobody is read: their data is checked when used.

  Raises:
    tasks.DataError: If the data of a client cannot be used.
  """
  if task.num_clients <= _MOST_CLIENTS_TO_CHECK:
    for client_id in range(task.num_clients):
      task.train.load(client_id)
      task.test.load(client_id)


def has_personal_models(
  process: tff.learning.templates.LearningProcess,
) -> bool:
  """Returns whether a process trains a model for each client, too."""
  state_type = process.initialize.type_signature.result.member
  return hasattr(state_type.client_work, "personal")


def build_losses(
  task: tasks.Task, train_data: ClientData
) -> Callable[[rounds.State, Ids], np.ndarray]:
  """Returns a function from a state and clients to losses of its global model.

  Args:
    task: The model.
    train_data: The clients' data.

  Returns:
    A function from a state of a process and client ids, in ascending order, to
    the mean losses over their training examples, float32[m].
  """
  evaluate = tff_fair.evaluation.build_client_evaluation(task.model)

  def losses(state: rounds.State, client_ids: Ids) -> np.ndarray:
    model = (state.global_model_weights,)
    parts = _parts(client_ids, _CLIENTS_PER_CALL)
    return _columns(evaluate, model, train_data, parts)["loss"]

  return losses


def build_evaluation(
  task: tasks.Task,
  process: tff.learning.templates.LearningProcess,
  *,
  client_ids: Ids | None = None,
  attackers: Sequence[int] = (),
  clients_per_call: int = _CLIENTS_PER_CALL,
) -> Callable[[rounds.State], loop.Evaluation]:
  """Returns a function that evaluates a state on clients' test data.

  Args:
    task: The clients and the model.
    process: The learning process.
    client_ids: The clients to evaluate, in ascending order; `None` takes all.
    attackers: The clients that attack; if there are any, one that is evaluated
      must be none of them.
    clients_per_call: A large population is evaluated in parts of this size.

  Returns:
    A function from a state of the process to an evaluation with the columns
    `client_id`, `num_examples`, `loss` and `accuracy`. Where the process trains
    personal models, these are what is evaluated; the global model is there too,
    as the columns `global_loss` and `global_accuracy` and the group `global` of
    the summary. Where some clients attack, the group `honest` of the summary is
    about the others alone.
  """
  evaluate_global = tff_fair.evaluation.build_client_evaluation(task.model)
  evaluate_personal = has_personal_models(process) and (
    tff_fair.evaluation.build_personal_evaluation(task.model)
  )
  test_data = client_data(task.test_data)
  if client_ids is None:
    client_ids = range(task.num_clients)
  parts = _parts(client_ids, clients_per_call)
  summary = functools.partial(_summary, attackers=attackers)

  def evaluate(state: rounds.State) -> loop.Evaluation:
    weights = process.get_model_weights(state)
    found = _columns(evaluate_global, (weights,), test_data, parts)
    if not evaluate_personal:
      return loop.Evaluation(summary(found), found)
    table = state.client_work["personal"]
    personal = _columns(evaluate_personal, (weights, table), test_data, parts)
    return loop.Evaluation(
      {**summary(personal), "global": summarize(found)},
      {
        **personal,
        "global_loss": found["loss"],
        "global_accuracy": found["accuracy"],
      },
    )

  return evaluate


def _summary(
  columns: Mapping[str, np.ndarray], attackers: Sequence[int]
) -> loop.Summary:
  """Summarizes an evaluation, over honest clients too if others attack."""
  if not attackers:
    return summarize(columns)
  is_honest = ~np.isin(columns["client_id"], attackers)
  honest = {name: column[is_honest] for name, column in columns.items()}
  return {**summarize(columns), "honest": summarize(honest)}


def _parts(client_ids: Ids, clients_per_call: int) -> list[np.ndarray]:
  return np.array_split(client_ids, -(-len(client_ids) // clients_per_call))


def _columns(
  evaluate_clients: tff.Computation,
  model: Sequence[object],
  data: ClientData,
  parts: Sequence[np.ndarray],
) -> dict[str, np.ndarray]:
  """Returns the rows of clients, evaluated in parts, as columns."""
  rows = [evaluate_clients(*model, data(part)) for part in parts]
  return {
    name: np.concatenate([row[name] for row in rows])
    for name in ("client_id", "num_examples", "loss", "accuracy")
  }


def summarize(columns: Mapping[str, np.ndarray]) -> loop.Summary:
  """Summarizes an evaluation over the clients.

  Args:
    columns: `num_examples`, `loss` and `accuracy`, one entry per client.

  Returns:
    `accuracy`, see `tff_fair.metrics.fairness_summary`; `accuracy_weighted`, by
    examples; and `loss`: `mean`, `std`, `max`, and `weighted` by examples.
  """
  loss = columns["loss"].astype(np.float64)
  num_examples = columns["num_examples"]
  return {
    "accuracy": tff_fair.metrics.fairness_summary(columns["accuracy"]),
    "accuracy_weighted": float(
      np.average(columns["accuracy"], weights=num_examples)
    ),
    "loss": {
      "mean": float(loss.mean()),
      "std": float(loss.std()),
      "max": float(loss.max()),
      "weighted": float(np.average(loss, weights=num_examples)),
    },
  }
