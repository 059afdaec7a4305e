"""Tests of the parts of a run; train_test tests errors of single settings."""

import dataclasses
import itertools
import json
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tasks.models import initial_weights
from tests.experiments.training.small_run import (
  METHODS,
  SMALL,
  check_same,
  parts_of,
  train,
)
from tests.refusals import rejected
from tests.tasks import tabular_data
from tff_fair import experiments, finalizers, methods, rounds
from tff_fair.experiments import FieldError, RunSpec
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.training import build, learning_process, plan

pytestmark = pytest.mark.usefixtures("compiled_once", "unpainted")

# The second step from 0, if each gradient is 1, the learning rate 0.5 and the
# momentum m.
SECOND_STEPS = {
  "sgd": lambda _: -0.5,
  "momentum": lambda m: -0.5 * (1 + m),
  "nesterov": lambda m: -0.5 * (1 + m + m**2),
}


def second_step(optimizer):
  state = optimizer.initialize(tf.TensorSpec([], tf.float32))
  state, before = optimizer.next(state, tf.zeros([]), tf.ones([]))
  _, after = optimizer.next(state, before, tf.ones([]))
  return float(after - before)


@pytest.fixture
def built(monkeypatch):
  """Returns a function that returns the options that build a spec's process."""

  def process(spec):
    task = task_loading.load(spec)
    run_plan = plan.resolve(spec, task)
    arguments = learning_process.arguments(spec, task, run_plan)
    learning_process.build_uncached(spec, task, arguments)

  def options(spec, make=process):
    found = {}
    monkeypatch.setattr(
      "tff_fair.algorithms.build", lambda *_, **options: found.update(options)
    )
    make(spec)
    return found

  return options


@pytest.mark.parametrize("place", ["client", "server"])
@pytest.mark.parametrize(
  ("name", "momentum"),
  [
    ("sgd", None),
    *itertools.product(["momentum", "nesterov"], [None, 0.0, 0.5]),
  ],
)
def test_the_optimizer_and_the_momentum_of_settings(
  built, name, momentum, place
):
  settings = {"optimizer": name, "learning_rate": 0.5, "momentum": momentum}
  spec = RunSpec(**{f"{place}_{n}": value for n, value in settings.items()})
  assert second_step(built(spec)[f"{place}_optimizer"]) == pytest.approx(
    SECOND_STEPS[name](0.9 if momentum is None else momentum)
  )


def test_a_method_keeps_its_own_server_step_unless_one_is_given(built):
  assert "server_optimizer" not in built(SMALL)
  found = built(SMALL.replace(server_learning_rate=0.5))
  assert second_step(found["server_optimizer"]) == -0.5


def test_a_form_for_others_is_that_of_the_run_without_its_attackers(built):
  spec = SMALL.replace(
    attack="scaling",
    attack_strength=2.0,
    client_weighting="uniform",
    clients_per_round=None,
    unseen_clients=0.5,
    dp_noise=1.0,
    dp_clip=1.0,
  )
  of_run, of_form = built(spec), built(spec, build.process)
  assert of_run.pop("attack") is not None
  assert of_form.pop("attack") is None
  for found in (of_run, of_form):
    del found["client_optimizer"]
  assert of_form == of_run


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
    parts_of(RunSpec(hparams={"gamma": 2}))
  assert (raised.value.field, raised.value.key) == (field, key)
  assert raised.value.value == {"hparams": 2.0, "algorithm": "adafed"}.get(
    field
  )


class ComposedError(Exception):
  """Ends the build of a process, and holds the method's server step."""


@pytest.fixture(scope="module")
def task():
  return task_loading.load(SMALL)


@pytest.mark.parametrize("algorithm", METHODS)
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
    spec = SMALL.replace(
      algorithm=algorithm, server_learning_rate=given, **METHODS[algorithm]
    )
    with pytest.raises(ComposedError) as found:
      parts_of(spec)
    (process,) = found.value.args
    hparams = process.get_hparams(process.initialize())
    rates[given] = float(hparams["learning_rate"])
  own = methods.hyperparameters(algorithm).get("learning_rate")
  assert rates == pytest.approx({None: own.default if own else 1, 0.25: 0.25})


# Tests of initial weights from a trained model.

DENSE = tf.keras.layers.Dense
NORMALIZATION = tf.keras.layers.LayerNormalization


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """Trains a run, and writes its export beside it."""
  folder = tmp_path_factory.mktemp("trained")
  run = train(SMALL, folder / "run")
  experiments.export(run, folder / "exported.keras")
  return run


def clients_after(run, round_num):
  rows = run.client_evaluations
  rows = rows[rows["round"] == round_num]
  return rows.drop(columns="round").reset_index(drop=True)


def test_a_run_begins_with_the_weights_of_another(trained, tmp_path):
  spec = SMALL.replace(
    initial_run=str(trained.path), seed=1, data_seed=0, total_rounds=1
  )
  run = train(spec, tmp_path / "run")
  assert clients_after(run, 0).equals(clients_after(trained, 3))
  assert not clients_after(run, 1).equals(clients_after(trained, 3))
  # The exported file, whose model has a softmax, gives the same weights.
  exported = trained.path.with_name("exported.keras")
  task = build.with_initial_weights(
    SMALL.replace(initial_model=str(exported)),
    tasks.load("digits", **SMALL.task_options),
  )
  config_file = run.path / "config.json"
  config = json.loads(config_file.read_text())
  digest = config["initial_weights"]["sha256"]
  assert digest == initial_weights.digest(task.keras_model_fn)
  assert run.settings["initial_weights"] == digest[:8]
  assert "initial_weights" not in trained.config
  assert experiments.RunSpec.from_toml(spec.to_toml()) == spec
  # This is as if the other run had trained more rounds meanwhile.
  config["initial_weights"]["sha256"] = "0" * 64
  config_file.write_text(json.dumps(config))
  with pytest.raises(experiments.RunError, match="initial"):
    train(spec.replace(total_rounds=2), run.path)


def with_frozen_layer():
  return tf.keras.Sequential(
    [tf.keras.layers.Input([64]), NORMALIZATION(trainable=False), DENSE(10)]
  )


@pytest.fixture(scope="module")
def frozen():
  loaded = tasks.load("digits", **SMALL.task_options)
  return dataclasses.replace(loaded, keras_model_fn=with_frozen_layer)


def test_layers_that_are_frozen_have_their_weights(
  frozen, tmp_path, monkeypatch
):
  expected = [
    np.full(weight.shape, place, np.float32)
    for place, weight in enumerate(with_frozen_layer().weights, 1)
  ]
  model = with_frozen_layer()
  model.set_weights(expected)
  model.save(tmp_path / "model.keras")
  # A run stores trained weights before frozen weights.
  run = types.SimpleNamespace(
    is_finished=True, weights=lambda: [*expected[2:], *expected[:2]]
  )
  monkeypatch.setattr(discovery, "open_run", lambda _: run)
  for named in (
    {"initial_model": str(tmp_path / "model.keras")},
    {"initial_run": "run"},
  ):
    begun = build.with_initial_weights(SMALL.replace(**named), frozen)
    check_same(begun.keras_model_fn().weights, expected)


def test_weights_that_a_model_cannot_have(trained, frozen, tmp_path):
  def begin(**settings):
    return build.with_initial_weights(SMALL.replace(**settings), frozen)

  def saved(name, *layers):
    model = tf.keras.Sequential([tf.keras.layers.Input([64]), *layers])
    model.save(tmp_path / name)
    return {"initial_model": str(tmp_path / name)}

  unfinished = tmp_path / "unfinished"
  shutil.copytree(trained.path, unfinished)
  (unfinished / "summary.json").unlink()
  (tmp_path / "text.keras").write_text("no model")
  nan = tf.keras.initializers.Constant(np.nan)
  for named, expected in (
    ({"initial_model": str(tmp_path / "none.keras")}, "no such file"),
    ({"initial_model": str(tmp_path / "text.keras")}, "cannot be loaded"),
    (saved("2.keras", DENSE(10)), "has 2 arrays .* has 4"),
    (
      saved("9.keras", NORMALIZATION(), DENSE(9)),
      r"array 3 of its weights has the shape \[64, 9\], .*\[64, 10\]",
    ),
    (
      saved("nan.keras", NORMALIZATION(), DENSE(10, bias_initializer=nan)),
      "not finite",
    ),
    ({"initial_run": str(trained.path)}, "has 2 arrays .* has 4"),
    ({"initial_run": str(tmp_path)}, "is a folder of runs"),
    ({"initial_run": str(unfinished)}, "is not finished"),
  ):
    with pytest.raises(FieldError, match=expected) as caught:
      begin(**named)
    assert [caught.value.field] == list(named)
    assert "\n" not in str(caught.value)
  with pytest.raises(FieldError, match="model"):
    begin(initial_model="model.keras", initial_run="run")
  assert begin() is frozen


# Tests of clients' weights that come with the data.


@pytest.fixture
def weighted(tmp_path):
  weight = np.array([2, 0.5, 7.5])[np.arange(30) % 3]
  tabular_data.write_arrays(tmp_path, client_weight=weight)
  return RunSpec(
    task="arrays",
    task_options={"file": str(tmp_path / "examples.npz")},
    algorithm="fedavg",
    client_weighting="column",
    clients_per_round=3,
    total_rounds=1,
    batch_size=4,
  )


def test_the_builder_gets_the_weights_in_the_data(weighted, built):
  assert built(weighted)["client_weighting"] == (0.5, 2.0, 7.5)


def test_data_without_weights(weighted, tmp_path):
  tabular_data.write_arrays(tmp_path)
  with rejected("client_weighting"):
    train(weighted, tmp_path / "run")
