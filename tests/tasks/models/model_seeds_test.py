"""Tests of models that differ only in their seeds."""

import dataclasses
import functools
import importlib
import inspect
import pkgutil

import numpy as np
import pytest
import tensorflow as tf

import tasks
from tasks import models
from tasks.models import initial_weights

pytestmark = pytest.mark.pure


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
    of_seed_0 = initial_weights.with_seed_0(
      dataclasses.replace(task, keras_model_fn=build)
    ).keras_model_fn
    assert isinstance(of_seed_0, functools.partial)
    found.append((of_seed_0.func, of_seed_0.args, of_seed_0.keywords))
    model = build()
    drawn = [w.ravel()[:3].tolist() for w in model.get_weights() if w.ndim > 1]
    starts += map(tuple, drawn)
    if weights is None:
      weights = model.get_weights()
      np.testing.assert_equal(build().get_weights(), weights)
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
  assert initial_weights.with_seed_0(task) is task


def _of_user(seed):
  return models.mlp((8, 8, 1), (), 10, seed)
