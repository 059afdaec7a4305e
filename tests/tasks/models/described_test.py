"""Tests of models as plain values."""

import dataclasses
import functools
import importlib
import inspect
import json
import os
import pkgutil

import numpy as np
import pytest
import tensorflow as tf

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


MODELS = {
  models.mlp: ((2,), (3,), 2),
  models.mlp_double_softmax: ((2,), (3,), 2),
  models.fedavg_cnn: (3,),
  models.dropout_cnn: (3,),
  models.resnet18: ((8, 8, 1), 3),
  models.vgg11: ((32, 32, 1), 3),
  models.bag_of_words_regression: (5, 3),
  models.character_lstm: (6,),
  models.word_lstm: (6,),
  models.sentence_lstm: (6, 2),
}


def test_every_model_of_a_seed_is_tried():
  modules = [
    importlib.import_module(f"{models.__name__}.{module.name}")
    for module in pkgutil.iter_modules(models.__path__)
  ]
  with_seed: set[object] = {
    function
    for module in modules
    for _, function in inspect.getmembers(module, inspect.isfunction)
    if function.__annotations__.get("return") is tf.keras.Model
    and "seed" in inspect.signature(function).parameters
  }
  assert with_seed == {*MODELS}


@pytest.mark.parametrize("function", MODELS)
def test_a_seed_that_is_left_out_decides_initial_weights_alone(function):
  task = tasks.load("digits")
  found, outputs, starts, weights, x = [], [], [], None, None
  for seed in (1, 2):
    build = functools.partial(function, *MODELS[function], seed=seed)
    described_as = described.of_seed_0(
      dataclasses.replace(task, keras_model_fn=build)
    ).keras_model_fn
    found.append(described.describe(described_as))
    model = build()
    drawn = [w.ravel()[:3].tolist() for w in model.get_weights() if w.ndim > 1]
    starts += map(tuple, drawn)
    if weights is None:
      weights = model.get_weights()
      shape = [2, *(size or 4 for size in model.input_shape[1:])]
      x = np.random.default_rng(3).integers(0, 5, shape)
    model.set_weights(weights)
    outputs.append(model(x.astype(model.input.dtype.as_numpy_dtype), True))
  assert len({*starts}) == len(starts)  # No two layers or seeds begin alike.
  draws_alike = np.array_equal(*outputs)
  assert draws_alike == (function is not models.dropout_cnn)
  assert (found[0] == found[1]) == draws_alike


def test_the_seed_of_a_users_model_stays():
  task = tasks.load("digits")
  build = functools.partial(_of_user, seed=3)
  task = dataclasses.replace(task, keras_model_fn=build)
  assert described.of_seed_0(task) is task


def _of_user(seed):
  return models.mlp((8, 8, 1), (), 10, seed)


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
