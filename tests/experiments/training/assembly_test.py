"""Tests of the parts of a run; errors of single settings: train_test."""

import typing

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.experiments import assembled
from tff_fair import finalizers, methods, rounds
from tff_fair.experiments import FieldError, RunSpec, settings
from tff_fair.experiments.training import (
  learning_process,
  task_loading,
)

# The second step under gradients of one, from 0, with learning rate 0.5, for a
# momentum of m.
SECOND_STEPS = {
  "sgd": lambda _: -0.5,
  "momentum": lambda m: -0.5 * (1 + m),
  "nesterov": lambda m: -0.5 * (1 + m + m**2),
}
SMALL = RunSpec(
  task_options={"num_clients": 6, "model": "logistic_regression"},
  algorithm="fedavg",
)


def second_step(optimizer):
  state = optimizer.initialize(tf.TensorSpec([], tf.float32))
  state, before = optimizer.next(state, tf.zeros([]), tf.ones([]))
  _, after = optimizer.next(state, before, tf.ones([]))
  return float(after - before)


@pytest.fixture
def built(monkeypatch):
  """Returns the options that the builder of a run's process gets."""

  def options(spec):
    found = {}
    monkeypatch.setattr(
      "tff_fair.algorithms.build",
      lambda *_, **options: found.update(options),
    )
    task = task_loading.load(spec)
    arguments = learning_process.arguments(spec, task, "streaming", None)
    learning_process.build_now(spec, task, arguments)
    return found

  return options


@pytest.mark.parametrize("place", ["client", "server"])
@pytest.mark.parametrize("name", SECOND_STEPS)
def test_the_optimizer_that_a_setting_names(built, name, place):
  spec = RunSpec(**{f"{place}_optimizer": name, f"{place}_learning_rate": 0.5})
  found = built(spec)[f"{place}_optimizer"]
  assert second_step(found) == pytest.approx(SECOND_STEPS[name](0.9))


@pytest.mark.parametrize("place", ["client", "server"])
@pytest.mark.parametrize("name", ["momentum", "nesterov"])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_momentum_that_is_given(built, momentum, name, place):
  spec = RunSpec(
    **{
      f"{place}_optimizer": name,
      f"{place}_learning_rate": 0.5,
      f"{place}_momentum": momentum,
    }
  )
  assert second_step(built(spec)[f"{place}_optimizer"]) == pytest.approx(
    SECOND_STEPS[name](momentum)
  )


def test_the_decay_of_the_server(built):
  names = ("server_learning_rate_decay", "server_learning_rate_decay_kind")
  found = built(SMALL)
  assert [found[name] for name in names] == [None, "exponential"]
  given = dict(zip(names, (0.5, "inverse_time"), strict=True))
  found = built(SMALL.replace(**given))
  assert [found[name] for name in names] == [0.5, "inverse_time"]


def test_a_method_keeps_its_own_server_step_unless_one_is_given(built):
  assert "server_optimizer" not in built(SMALL)
  found = built(SMALL.replace(server_learning_rate=0.5))
  assert second_step(found["server_optimizer"]) == -0.5


def test_every_optimizer_can_be_built(built):
  names = typing.get_args(settings.OptimizerName)
  assert len(names) > len(SECOND_STEPS)
  for name in names:
    found = built(RunSpec(client_optimizer=name, server_optimizer=name))
    for kind in ("client_optimizer", "server_optimizer"):
      assert isinstance(found[kind], tff.learning.optimizers.Optimizer)


def test_the_seed_is_that_of_all_draws(built):
  found = built(SMALL.replace(seed=7, local_epochs="1-3", proximal_mu=0.5))
  assert found["shuffle_seed"] == found["local_epochs_seed"] == 7
  assert found["local_epochs"] == (1, 3)
  assert found["local_steps"] is None
  assert found["proximal_mu"] == 0.5
  found = built(SMALL.replace(seed=7, local_steps="2-5"))
  assert (found["local_epochs"], found["local_steps"]) == (1, (2, 5))
  others = built(SMALL.replace(seed=7, data_seed=0, model_seed=0))
  assert others["shuffle_seed"] == 7


@pytest.mark.parametrize(
  ("option", "field", "key"),
  [
    ("gamma", "hparams", "gamma"),
    ("learning_rate_decay", "client_learning_rate_decay", None),
    ("server_optimizer", "server_optimizer", None),
    ("num_clients", "algorithm", None),
    (None, "algorithm", None),
  ],
)
def test_an_error_of_a_builder_is_one_of_the_setting_behind_it(
  monkeypatch, option, field, key
):
  error = ValueError("expected 1")
  if option is not None:
    error = FieldError(option, "expected 1")

  def fail(*args, **kwargs):
    del args, kwargs
    raise error

  monkeypatch.setattr("tff_fair.algorithms.build", fail)
  with pytest.raises(FieldError, match="expected 1") as raised:
    assembled.parts_of(RunSpec(hparams={"gamma": 2}))
  assert (raised.value.field, raised.value.key) == (field, key)
  assert raised.value.value == {"hparams": 2.0, "algorithm": "adafed"}.get(
    field
  )


class ComposedError(Exception):
  """Holds the server step that a method has composed."""


@pytest.fixture(scope="module")
def task():
  return task_loading.load(SMALL)


@pytest.mark.parametrize("algorithm", methods.names())
def test_the_learning_rate_of_the_server_reaches_every_method(
  algorithm, task, monkeypatch
):
  weights_type = tff.to_type(
    tff.learning.models.ModelWeights([tff.TensorType(np.float32, [2])], [])
  )

  def compose(*_, server_optimizer=None, finalizer=None, **others):
    del others
    optimizer = rounds.server_optimizer_or_default(server_optimizer)
    raise ComposedError(
      finalizer(weights_type, None)
      if finalizer
      else finalizers.build_apply_direction(optimizer, weights_type, None)
    )

  monkeypatch.setattr(rounds, "compose", compose)
  monkeypatch.setattr(task_loading, "load", lambda *_: task)
  rates = {}
  for given in (None, 0.25):
    spec = SMALL.replace(algorithm=algorithm, server_learning_rate=given)
    with pytest.raises(ComposedError) as found:
      assembled.parts_of(spec)
    (process,) = found.value.args
    hparams = process.get_hparams(process.initialize())
    rates[given] = float(hparams["learning_rate"])
  own = methods.hyperparameters(algorithm).get("learning_rate")
  assert rates == pytest.approx({None: own.default if own else 1, 0.25: 0.25})
