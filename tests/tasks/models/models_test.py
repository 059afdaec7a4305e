import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tasks import models
from tests import source_tree
from tests.refusals import rejected

_CASES: list[tuple[str, dict[str, Any]]] = [
  ("digits", {}),
  ("emnist_character", {"synthetic": True, "model": "cnn_dropout"}),
]

# Prints the exact sums of the weights before and after a round.
_PROGRAM = """
import json, sys
import numpy as np, tensorflow_federated as tff
import tasks, tff_fair

tff_fair.runtime.use_local()
for name, options in json.loads(sys.argv[1]):
  task = tasks.load(name, seed=11, **options)
  process = tff.learning.algorithms.build_weighted_fed_avg(
    task.model_fn,
    client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.1),
  )
  state = process.initialize()
  after = process.next(state, [task.train_data(0)]).state
  for found in (state, after):
    weights = found.global_model_weights.trainable
    print(*(float(np.sum(w)).hex() for w in weights))
"""


@pytest.mark.slow
@pytest.mark.long
def test_runs_repeat_in_new_processes():
  first, second = (
    subprocess.run(
      [sys.executable, "-c", _PROGRAM, json.dumps(_CASES)],
      cwd=source_tree.ROOT,
      env={**source_tree.environment(), "TF_CPP_MIN_LOG_LEVEL": "3"},
      stdout=subprocess.PIPE,
      text=True,
      check=True,
      timeout=150,
    ).stdout.splitlines()
    for _ in range(2)
  )
  assert first == second
  for (name, options), initial, after in zip(
    _CASES, first[::2], first[1::2], strict=True
  ):
    model = tasks.load(name, seed=11, **options).model_fn()
    here = [float(np.sum(w)).hex() for w in model.trainable_variables]
    assert initial.split() == here
    assert initial != after


@pytest.mark.parametrize(
  ("model", "model_id"),
  [("cnn", "cnn"), ("cnn_dropout", "cnn_dropout"), ("mlp", "2nn")],
)
def test_emnist_models_are_those_of_the_baselines(model, model_id):
  # Keras clips probabilities below 1e-7, where the baselines' loss differs from
  # ours. Weights of this seed do not lead to such probabilities.
  tf.keras.utils.set_random_seed(0)
  baselines = tff.simulation.baselines
  baseline = baselines.emnist.create_character_recognition_task(
    baselines.ClientSpec(num_epochs=1, batch_size=10),
    model_id=model_id,
    only_digits=True,
    use_synthetic_data=True,
  ).model_fn()
  task = tasks.load("emnist_character", synthetic=True, model=model)
  ours = task.model_fn()
  weights = [w.numpy() for w in baseline.trainable_variables]
  assert [w.shape for w in ours.trainable_variables] == [
    w.shape for w in weights
  ]
  for variable, value in zip(ours.trainable_variables, weights, strict=True):
    # Errors show in logits that are larger than those of an untrained model.
    variable.assign(1.5 * value)
  for variable in baseline.trainable_variables:
    variable.assign(1.5 * variable)
  batch = next(iter(task.train_data(0)))
  found = ours.forward_pass(batch, training=False)
  expected = baseline.forward_pass(batch, training=False)
  np.testing.assert_allclose(
    tf.nn.softmax(found.predictions), expected.predictions, atol=1e-5
  )
  np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-4)


def test_initial_weights_are_glorot_uniform():
  kernel, bias, *_ = models.mlp((100,), (200,), 10, 0).get_weights()
  limit = np.sqrt(6 / 300)
  assert np.abs(kernel).max() <= limit
  np.testing.assert_allclose(kernel.std(), limit / np.sqrt(3), rtol=0.02)
  np.testing.assert_array_equal(bias, 0)


def test_initial_weights_are_those_of_pytorch():
  def build(seed=0, hidden_units=(200,)):
    return models.mlp((4, 25), hidden_units, 400, seed, "pytorch")

  weights = build().get_weights()
  limits = (0.1, 0.1, 200**-0.5, 200**-0.5)
  for values, limit in zip(weights, limits, strict=True):
    assert np.abs(values).max() <= limit
    np.testing.assert_allclose(values.std(), limit / np.sqrt(3), rtol=0.1)
    np.testing.assert_allclose(values.mean(), 0, atol=0.1 * limit)
  np.testing.assert_equal(weights, build().get_weights())
  # All weights and biases differ, between layers and between seeds.
  starts = {
    tuple(np.ravel(values)[:4] / np.abs(values).max())
    for seed in (0, 1)
    for values in build(seed, (200, 200)).get_weights()
  }
  assert len(starts) == 12
  linear, double = (
    build(0).get_weights()
    for build in (
      lambda seed: models.mlp((8,), (), 3, seed, "pytorch"),
      lambda seed: models.mlp_double_softmax((8,), (), 3, seed, "pytorch"),
    )
  )
  np.testing.assert_equal(linear, double)


@pytest.mark.parametrize(
  "name", ["linear", "linear_double_softmax", "mlp_double_softmax", "mlp_128"]
)
def test_image_classifiers_have_either(name):
  glorot, pytorch = (
    models.image_classifier(name, (4, 4, 1), 3, 0, kind)().get_weights()
    for kind in ("glorot", "pytorch")
  )
  assert not np.any(glorot[-1])
  assert np.all(pytorch[-1])


def test_convolutional_networks_have_one_kind_of_initial_weights():
  with rejected("initial_weights"):
    models.image_classifier("cnn", (28, 28, 1), 10, 0, "pytorch")


def test_a_mask_depends_on_input_and_seed_alone():
  def mask(inputs, seed):
    dropout = models.RepeatableDropout(0.5, seed=seed)
    return dropout(inputs, training=True).numpy() == 0

  inputs = np.random.default_rng(0).random([50, 200], np.float32) + 1
  first = mask(inputs, 0)
  tf.random.set_seed(123)
  np.testing.assert_array_equal(mask(inputs, 0), first)
  for other in (mask(inputs, 1), mask(inputs * np.float32(1.001), 0)):
    assert 0.4 < np.mean(other == first) < 0.6


@pytest.mark.parametrize(
  ("build", "num_weights"),
  [
    (lambda: models.fedavg_cnn(10, 0), 1_663_370),
    (lambda: models.fedavg_cnn(10, 0, input_shape=(32, 32, 3)), 2_156_490),
    (lambda: models.fedavg_cnn(62, 0, dense_units=2048), 6_603_710),
    (lambda: models.resnet18((32, 32, 3), 10, 0), 11_173_962),
    (lambda: models.resnet18((96, 96, 3), 14, 0), 11_183_694),
    (lambda: models.vgg11((32, 32, 3), 10, 0), 9_225_610),
  ],
)
def test_image_models(build, num_weights):
  model = build()
  assert model.count_params() == num_weights
  # Variables such as moving averages would mix clients' data.
  assert model.non_trainable_variables == []
  # With group normalization, an example's output does not depend on its batch.
  images = tf.random.stateless_uniform([3, *model.input_shape[1:]], [0, 1])
  outputs = model(images).numpy()
  assert np.isfinite(outputs).all()
  assert outputs.std() > 1e-3
  np.testing.assert_allclose(model(images[:1]), outputs[:1], atol=1e-4)


@pytest.mark.parametrize("hidden_units", [(), (6, 5)])
@pytest.mark.parametrize("in_graph", [True, False])
def test_double_softmax_is_not_undone_by_keras(in_graph, hidden_units):
  spec = (tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([None], tf.int32))
  model = models.class_objective().model_fn(
    lambda: models.mlp_double_softmax((4,), hidden_units, 3, 0), spec
  )()
  x = 3 * tf.random.stateless_normal([5, 4], [0, 1])
  y = tf.constant([0, 1, 2, 0, 1])
  forward = tf.function(model.forward_pass) if in_graph else model.forward_pass
  output = forward((x, y), training=True)
  *hidden, kernel, bias = model.trainable_variables
  assert len(hidden) == 2 * len(hidden_units)
  features = x
  for weights, shift in zip(hidden[::2], hidden[1::2], strict=True):
    features = tf.nn.relu(features @ weights + shift)
  probabilities = tf.nn.softmax(features @ kernel + bias).numpy()
  np.testing.assert_allclose(output.predictions, probabilities, rtol=1e-5)
  again = np.exp(probabilities)
  again /= again.sum(axis=1, keepdims=True)
  expected = -np.log(again[np.arange(5), y]).mean()
  np.testing.assert_allclose(output.loss, expected, rtol=1e-5)


@pytest.mark.parametrize(
  "build",
  [
    lambda seed: models.RepeatableDropout(0.4, seed=seed),
    lambda seed: models.RepeatableDropout(0.4, seed=seed, spatial=True),
    lambda seed: models.RepeatableAlphaDropout(0.4, seed=seed),
    lambda seed: models.RepeatableNoise(0.4, seed=seed),
  ],
)
def test_layers_that_draw_repeat_and_keep_the_moments(build):
  x = np.random.default_rng(0).normal(0, 1, [64, 5, 30]).astype(np.float32)
  layer = build(3)
  assert layer(x) is not None
  np.testing.assert_array_equal(layer(x, training=False), x)
  drawn = layer(x, training=True).numpy()
  np.testing.assert_allclose(
    tf.function(lambda x: layer(x, training=True))(x), drawn, rtol=1e-5
  )
  assert not np.array_equal(build(4)(x, training=True), drawn)
  assert abs(drawn.mean()) < 0.1
  expected = {"RepeatableDropout": 1 / 0.6, "RepeatableNoise": 1.16}
  assert drawn.var() == pytest.approx(
    expected.get(type(layer).__name__, 1.0), rel=0.1
  )
  if isinstance(layer, models.RepeatableDropout):
    # Spatial dropout drops a whole channel of an example.
    is_whole = {*(drawn == 0).mean(1).ravel()} == {0, 1}
    assert is_whole == layer._spatial
  model = tf.keras.Sequential([tf.keras.Input([5, 30]), layer])
  np.testing.assert_array_equal(model(x), x)
  of_keras = layer.exportable()
  assert type(of_keras).__module__.startswith("keras.")
  np.testing.assert_array_equal(of_keras(x), x)
