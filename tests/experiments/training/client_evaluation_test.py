import dataclasses
import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tasks
import tff_fair
from tests.experiments.training.small_run import process_of
from tff_fair.experiments import RunSpec
from tff_fair.experiments.training import (
  client_data,
  client_evaluation,
  in_memory,
  scoring,
)

_CACHE = in_memory.ProgramCache()


@pytest.fixture(scope="module")
def process(task):
  return process_of(task, "fedavg")


@pytest.fixture(scope="module")
def state(task, process):
  """Returns a state with random weights."""
  generator = np.random.default_rng(0)
  weights = [
    generator.normal(size=variable.shape).astype(np.float32)
    for variable in task.model_fn().trainable_variables
  ]
  return process.set_model_weights(
    process.initialize(), tff.learning.models.ModelWeights(weights, [])
  )


def train_data(task):
  return client_data.ClientLoader(task.train, task.element_spec)


def parts_of(task, process=None, client_ids=None):
  """Returns the parts of a run that an evaluation of `client_ids` needs."""
  everyone = np.arange(task.num_clients)
  return types.SimpleNamespace(
    task=task,
    process=process,
    evaluated_ids=everyone if client_ids is None else np.array(client_ids),
    first_rounds=np.ones(task.num_clients, np.int64),
    attackers=(),
    scores=scoring.resolve(task, RunSpec()),
    cache=_CACHE,
  )


def evaluate(state, task, process, client_ids=None):
  test_data = client_data.ClientLoader(task.test, task.element_spec)
  parts = parts_of(task, process, client_ids)
  return client_evaluation.build_evaluation(parts, test_data)(state)


def expected_columns(task, state):
  """Returns the results of logistic regression by NumPy, a row per client."""
  kernel, bias = (
    np.asarray(layer, np.float64)
    for layer in state.global_model_weights.trainable
  )
  rows = []
  for client_id in range(task.num_clients):
    x, y = task.test.load(client_id)
    logits = np.float64(x) @ kernel + bias
    peak = logits.max(1, keepdims=True)
    log_sum = np.log(np.exp(logits - peak).sum(1)) + peak[:, 0]
    loss = np.mean(log_sum - logits[np.arange(len(y)), y])
    rows.append((client_id, len(y), loss, np.mean(logits.argmax(1) == y)))
  return dict(
    zip(
      ("client_id", "num_examples", "loss", "accuracy"),
      map(np.array, zip(*rows, strict=True)),
      strict=True,
    )
  )


@pytest.mark.parametrize(
  ("clients_per_call", "client_ids"),
  [(300, None), (6, None), (1, None), (2, [2]), (2, [0, 3, 6])],
)
def test_clients_are_evaluated_in_parts_of_any_size(
  task, process, state, clients_per_call, client_ids, monkeypatch
):
  monkeypatch.setattr(client_evaluation, "_CLIENTS_PER_CALL", clients_per_call)
  evaluation = evaluate(state, task, process, client_ids)
  chosen = slice(None) if client_ids is None else client_ids
  expected = {n: c[chosen] for n, c in expected_columns(task, state).items()}
  assert evaluation.clients.keys() == expected.keys()
  for name, column in expected.items():
    np.testing.assert_allclose(evaluation.clients[name], column, rtol=1e-5)

  summary = evaluation.summary
  assert summary["accuracy"] == pytest.approx(
    tff_fair.metrics.fairness_summary(expected["accuracy"]), abs=1e-6
  )
  sizes = expected["num_examples"]
  assert summary["accuracy_weighted"] == pytest.approx(
    np.average(expected["accuracy"], weights=sizes), abs=1e-6
  )
  loss = expected["loss"]
  assert summary["loss"] == pytest.approx(
    {
      "mean": loss.mean(),
      "std": loss.std(),
      "max": loss.max(),
      "weighted": np.average(loss, weights=sizes),
    },
    rel=1e-5,
  )


def test_losses_are_those_of_the_training_data(task, state):
  losses_of = client_evaluation.build_losses(parts_of(task), train_data(task))
  losses = losses_of(state, [1, 5])
  swapped = dataclasses.replace(task, test=task.train)
  expected = expected_columns(swapped, state)["loss"]
  np.testing.assert_allclose(losses, expected[[1, 5]], rtol=1e-5)


def test_personal_models_are_evaluated_beside_the_global_one(task, monkeypatch):
  monkeypatch.setattr(client_evaluation, "_CLIENTS_PER_CALL", 3)
  process = process_of(task, "ditto")
  state, taking_part = process.initialize(), [0, 3, 4]
  generator = np.random.default_rng(1)
  rows = generator.normal(size=[3, 650]).astype(np.float32)
  work = state.client_work
  table = type(work["personal"])(client_id=np.array(taking_part), weights=rows)
  state = state._replace(client_work=type(work)(work, personal=table))
  evaluation = evaluate(state, task, process)
  columns, shared = evaluation.clients, expected_columns(task, state)
  # Clients that have not taken part have no personal model yet.
  own = {name: shared[name].copy() for name in ("loss", "accuracy")}
  for client_id, row in zip(taking_part, rows, strict=True):
    weights = [row[:640].reshape(64, 10), row[640:]]
    model = tff.learning.models.ModelWeights(weights, [])
    of_client = expected_columns(
      task, state._replace(global_model_weights=model)
    )
    for name, column in own.items():
      column[client_id] = of_client[name][client_id]
  for name, column in own.items():
    np.testing.assert_allclose(columns[name], column, rtol=1e-5)
    np.testing.assert_allclose(
      columns[f"global_{name}"], shared[name], rtol=1e-5
    )
  summary: dict[str, Any] = dict(evaluation.summary)
  assert summary["loss"]["mean"] == pytest.approx(
    columns["loss"].mean(), rel=1e-5
  )
  assert summary["global"]["loss"]["mean"] == pytest.approx(
    shared["loss"].mean(), rel=1e-5
  )


def test_what_a_process_calls_its_model_is_evaluated(task, process, state):
  def doubled(of_state):
    weights = process.get_model_weights(of_state)
    return tf.nest.map_structure(lambda w: 2 * w, weights)

  other = types.SimpleNamespace(
    initialize=process.initialize, get_model_weights=doubled
  )
  losses = evaluate(state, task, other).clients["loss"]
  expected = state._replace(global_model_weights=doubled(state))
  np.testing.assert_allclose(
    losses, expected_columns(task, expected)["loss"], rtol=1e-5
  )


@pytest.mark.parametrize("split", ["train", "test"])
def test_damage_shows_before_training(task, split):
  read = []

  def load(client_id):
    read.append(client_id)
    if client_id == 6:
      raise tasks.DataError("damaged")
    return getattr(task, split).load(client_id)

  damaged = tasks.Split(num_examples=task.test.num_examples, load=load)
  with pytest.raises(tasks.DataError, match="damaged"):
    client_evaluation.check_data(dataclasses.replace(task, **{split: damaged}))
  assert read == list(range(7))


def test_a_huge_population_is_not_read_at_once(task):
  def load(client_id):
    raise tasks.DataError(f"read {client_id}")

  huge = tasks.Split(num_examples=np.ones(10**6, np.int64), load=load)
  client_evaluation.check_data(
    dataclasses.replace(task, client_names=range(10**6), train=huge, test=huge)
  )
