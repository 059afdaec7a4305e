"""Tests that users' models with one output for two classes get two logits."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tasks.models import layers, user_model
from tasks.models.exportable import describe
from tasks.task import element_spec
from tff_fair.declared import FieldError

LAYERS = tf.keras.layers
INPUT = LAYERS.Input([4])
SEED = 3


def fitting(build, **options):
  spec = options.pop("spec", element_spec([4]))
  return user_model.build_fn(
    "mine.py:build", build, spec, 2, seed=SEED, **options
  )


def functional(activation="sigmoid"):
  x = tf.keras.Input([4])
  return tf.keras.Model(
    x, LAYERS.Dense(1, activation)(LAYERS.Dense(5, "relu")(x))
  )


def compiled():
  model = functional()
  model.compile("sgd", "binary_crossentropy")
  return model


SAME = functional()


class Late(tf.keras.Model):
  """A model whose sigmoid is not in a layer."""

  def __init__(self):
    super().__init__()
    self.last = LAYERS.Dense(1)

  def call(self, x):
    return tf.nn.sigmoid(self.last(x))


BUILDERS: dict[str, Callable[[], tf.keras.Model]] = {
  "sigmoid": lambda: tf.keras.Sequential([INPUT, LAYERS.Dense(1, "sigmoid")]),
  "without a shape": lambda: tf.keras.Sequential(
    [LAYERS.Dense(6, "relu"), LAYERS.Dense(1, "sigmoid")]
  ),
  "activation": lambda: tf.keras.Sequential(
    [INPUT, LAYERS.Dense(1), LAYERS.Activation("sigmoid")]
  ),
  "logit": lambda: functional(None),
  "functional": functional,
  "nested": lambda: tf.keras.Sequential([LAYERS.Flatten(), functional()]),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_loss_and_gradients_are_those_of_binary_cross_entropy(name):
  model = fitting(BUILDERS[name])()
  with layers.seeded(SEED):
    users = BUILDERS[name]()
    users(tf.keras.Input([4]))
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=(9, 4)).astype(np.float32), np.arange(9) % 2
  entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  binary = tf.keras.losses.BinaryCrossentropy(from_logits=name == "logit")
  with tf.GradientTape(persistent=True) as tape:
    found = entropy(y, model(x))
    wanted = binary(y[:, np.newaxis], users(x))
  np.testing.assert_allclose(found, wanted, rtol=1e-5)
  assert len(model.trainable_weights) == len(users.trainable_weights)
  for gradients in zip(
    tape.gradient(found, model.trainable_weights),
    tape.gradient(wanted, users.trainable_weights),
    strict=True,
  ):
    np.testing.assert_allclose(*gradients, rtol=1e-3, atol=1e-6)
  describe(model, "trained")  # The model can be exported.


def test_a_trained_model_keeps_its_weights():
  trained = [w + 1 for w in functional().get_weights()]

  def build():
    model = compiled()
    model.set_weights(trained)
    return model

  made = fitting(build)
  for _ in range(2):
    for weight, value in zip(made().trainable_weights, trained, strict=True):
      np.testing.assert_array_equal(weight, value)


@pytest.mark.parametrize(
  ("build", "named"),
  [
    (lambda: tf.keras.Sequential([INPUT, LAYERS.Dense(1, "tanh")]), "One outp"),
    (Late, "One output is enough if the last layer"),
    (
      lambda: tf.keras.Sequential([LAYERS.Input([5]), LAYERS.Dense(1)]),
      r"x float32\[n, 5\]",
    ),
    (compiled, "compiled; leave compile"),
    (lambda: SAME, "same model"),
  ],
)
def test_what_may_be_no_logit_is_refused(build, named):
  with pytest.raises(FieldError, match=named):
    fitting(build)


def test_two_labels_at_once_are_no_two_classes():
  spec = (tf.TensorSpec([None, 4]), tf.TensorSpec([None, 2]))
  with pytest.raises(FieldError, match=r"float32\[n, 1\]"):
    fitting(BUILDERS["sigmoid"], spec=spec)
