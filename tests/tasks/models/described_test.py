"""Tests of models as plain values."""

import functools
import json
import os

import numpy as np
import pytest

import tasks
from tasks import models
from tasks.models import described

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
  ("name", "options"),
  [
    ("digits", {}),
    ("digits", {"model": "logistic_regression"}),
    ("synthetic", {"num_clients": 3}),
  ],
)
def test_a_described_model_is_the_same(name, options):
  task = tasks.load(name, seed=3, **options)
  text = json.dumps(described.describe(task.keras_model_fn))
  build = described.build(json.loads(text))
  for mine, theirs in zip(
    build().get_weights(), task.keras_model_fn().get_weights(), strict=True
  ):
    assert mine.tobytes() == theirs.tobytes()
  objective = described.build(
    json.loads(json.dumps(described.describe(task.objective)))
  )
  assert objective.model_fn is task.objective.model_fn
  assert objective.activation == task.objective.activation


def test_arguments_keep_their_types():
  model = functools.partial(
    models.mlp, (2, 3), [4], 2, seed=1, initial_weights="glorot"
  )
  found = described.build(json.loads(json.dumps(described.describe(model))))
  assert found.func is models.mlp
  assert found.args == ((2, 3), [4], 2)
  assert found.keywords == model.keywords
  objective = models.next_token_objective(not_counted=(0, 1))
  found = described.build(described.describe(objective))
  assert found.model_fn.keywords == {"not_counted": (0, 1)}


@pytest.mark.parametrize(
  "value",
  [
    os.system,
    lambda: None,
    functools.partial(os.system, "true"),
    functools.partial(models.mlp, np.zeros(2)),
    tasks.load,
    described,
  ],
)
def test_others_have_no_description(value):
  with pytest.raises(TypeError):
    described.describe(value)


@pytest.mark.parametrize(
  "description",
  [
    {"function": "os:system"},
    {"function": "tasks.models.described:importlib"},
    {"function": "tasks.models.described:Objective"},
    {"function": "tasks.models.described:build.__globals__"},
    {"function": "tasks.models.nowhere:mlp"},
    {"function": "tasks.registry:load", "arguments": ["x"], "keywords": {}},
    {"other": 1},
    [1],
  ],
)
def test_a_description_runs_nothing_else(description):
  with pytest.raises(ValueError, match=r"no function|no model"):
    described.build(description)
