"""Tests of users' models: they start from equal weights; faults are refused."""

import functools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tasks import models
from tasks.models import catalog, dense, names, user_model
from tasks.task import element_spec
from tff_fair.declared import FieldError

LAYERS = tf.keras.layers


def sequential(*layers):
  return tf.keras.Sequential([LAYERS.Input([4]), *layers])


def fitting(function, num_classes=3, seed=5, spec=None):
  return user_model.build_fn(
    "mine.py:build", function, spec or element_spec([4]), num_classes, seed=seed
  )


def of_dense(*arguments, **options):
  return lambda: sequential(LAYERS.Dense(*arguments, **options))


def two_inputs():
  inputs = [LAYERS.Input([4]), LAYERS.Input([4])]
  return tf.keras.Model(inputs, LAYERS.Dense(3)(LAYERS.add(inputs)))


def not_finite(shape, dtype=None):
  return tf.fill(shape, tf.constant(math.nan, dtype or tf.float32))


class Penalized(LAYERS.Layer):  # type: ignore[name-defined]
  """A layer that penalizes its input."""

  def call(self, x):
    self.add_loss(tf.reduce_mean(x**2))
    return x


class OfOneOutput(tf.keras.Model):
  """A subclassed model that returns its output in a mapping."""

  def __init__(self):
    super().__init__()
    self.dense = LAYERS.Dense(3)

  def call(self, x):
    return {"logits": self.dense(x)}


def in_a_dict(layer):
  x = LAYERS.Input([4])
  return tf.keras.Model(x, {"logits": layer(x)})


class Branching(tf.keras.Model):
  """A model that branches over a tensor, and has no weights before a call."""

  def __init__(self):
    super().__init__()
    self.first = LAYERS.Dense(5)
    self.last = LAYERS.Dense(3)

  def call(self, x):
    x = self.first(x)
    if tf.reduce_sum(x) > 0:
      x = tf.nn.relu(x)
    return self.last(x)


BUILDERS: dict[str, Callable[..., tf.keras.Model]] = {
  "dense": lambda: sequential(LAYERS.Dense(6, "relu"), LAYERS.Dense(3)),
  "without a shape": lambda: tf.keras.Sequential(
    [LAYERS.Dense(6, "relu"), LAYERS.Dense(3)]
  ),
  "subclass": Branching,
  "normalized": lambda: sequential(
    LAYERS.LayerNormalization(), LAYERS.Dense(3)
  ),
  "penalty": of_dense(3, kernel_regularizer="l2"),
  "repeatable dropout": lambda seed: sequential(
    LAYERS.Dense(6), models.RepeatableDropout(0.5, seed=seed), LAYERS.Dense(3)
  ),
  "frozen": lambda: sequential(
    LAYERS.Dense(6, trainable=False), LAYERS.Dense(3)
  ),
  "numpy's draws": lambda: sequential(
    LAYERS.Dense(
      3,
      kernel_initializer=tf.keras.initializers.Constant(
        np.random.normal(size=[4, 3])
      ),
    )
  ),
}


WEIGHTS = [
  np.linspace(-1, 1, math.prod(shape), dtype=np.float32).reshape(shape)
  for shape in ([4, 6], [6], [6, 3], [3])
]


def trained():
  model = sequential(LAYERS.Dense(6, "relu"), LAYERS.Dense(3))
  model.set_weights(WEIGHTS)
  return model


def fitted(path):
  model = trained()
  model.compile("sgd", "mse")
  model.fit(np.ones([8, 4]), np.ones([8, 3]), verbose=0)
  model.save(path)
  return path


def with_trained_first_layer():
  return sequential(LAYERS.Dense(6, weights=WEIGHTS[:2]), LAYERS.Dense(3))


def with_normalization():
  model = sequential(
    LAYERS.Dense(5), LAYERS.BatchNormalization(), LAYERS.Dense(2)
  )
  model.set_weights([np.full(w.shape, 0.5) for w in model.get_weights()])
  model.trainable = False
  return model


FACTOR = 3.0


def on_a_frozen_model(frozen):
  x = inputs = tf.keras.Input([4])
  x = tf.nn.relu(frozen(x))
  x = LAYERS.Lambda(lambda x: FACTOR * x)(x)
  return tf.keras.Model(inputs, LAYERS.Dense(3)(x))


def trained_subclass():
  model = Branching()
  model(tf.zeros([1, 4]))
  values = np.random.default_rng(3)
  model.set_weights([values.normal(size=w.shape) for w in model.weights])
  return model


def saved_as(name):
  """Returns a function that saves a model in a folder, and returns a loader."""

  def loading(folder):
    path = fitted(str(folder / name))
    return lambda: tf.keras.models.load_model(path)

  return loading


def weights_file(folder):
  def load():
    model = BUILDERS["dense"]()
    model.load_weights(path)
    return model

  path = str(folder / "model.weights.h5")
  trained().save_weights(path)
  return load


# Maps a name to the number of the first weights that no initializer makes, and
# to a function that takes a folder and returns the model's builder.
TRAINED: dict[str, tuple[int, Callable[..., Callable[[], tf.keras.Model]]]] = {
  "set weights": (4, lambda _: trained),
  "a layer's weights": (2, lambda _: with_trained_first_layer),
  "a frozen model within": (
    8,
    lambda _: functools.partial(on_a_frozen_model, with_normalization()),
  ),
  "a subclass": (4, lambda _: trained_subclass),
  "a file of weights": (4, weights_file),
  "a .keras file": (4, saved_as("model.keras")),
  "a .h5 file": (4, saved_as("model.h5")),
  "a SavedModel": (4, saved_as("folder")),
}


def small_task(build):
  x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
  y = np.arange(8, dtype=np.int32) % 3
  half = tasks.Split(num_examples=np.array([8, 8]), load=lambda k: (x + k, y))
  return tasks.Task(
    name="small",
    description="",
    client_names=("a", "b"),
    train=half,
    test=half,
    element_spec=element_spec([4]),
    num_classes=3,
    keras_model_fn=build,
    objective=models.class_objective(),
  )


def in_the_worker(task):
  """Returns the weights of a model that TFF's worker process builds."""

  @tff.tensorflow.computation
  def weights():
    model = task.model_fn()
    return tff.learning.models.ModelWeights.from_model(model)

  return weights()


def assert_same_weights(found, plain):
  for half in ("trainable", "non_trainable"):
    for weight, value in zip(
      getattr(found, half), getattr(plain, f"{half}_weights"), strict=True
    ):
      np.testing.assert_array_equal(weight, value.numpy())


@pytest.mark.parametrize("name", BUILDERS)
def test_weights_are_the_same_in_all_forms_and_in_the_worker(name):
  task = small_task(fitting(BUILDERS[name]))
  plain = task.keras_model_fn()
  again = tff.learning.models.ModelWeights.from_model(task.model_fn())
  for found in (in_the_worker(task), again):
    assert_same_weights(found, plain)


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_model_has_its_weights_everywhere(name, tmp_path):
  num_given, make = TRAINED[name]
  function = make(tmp_path)
  direct = function()
  given = [weight.numpy() for weight in direct.weights][:num_given]
  made = fitting(function)
  task = small_task(made)
  plain = task.keras_model_fn()
  for weight, value in zip(plain.weights[:num_given], given, strict=True):
    np.testing.assert_array_equal(weight, value)
  assert [w.trainable for w in plain.weights] == [
    w.trainable for w in direct.weights
  ]
  assert_same_weights(in_the_worker(task), plain)
  if isinstance(task.model, tff.learning.models.FunctionalModel):
    weights = tff.learning.models.ModelWeights(*task.model.initial_weights)
    assert_same_weights(weights, plain)


def test_the_seed_decides_weights_beside_those_that_are_trained():
  made = fitting(with_trained_first_layer)
  first, other = made(), made.with_seed(6)()
  for place, weight in enumerate(WEIGHTS[:2]):
    np.testing.assert_array_equal(first.weights[place], weight)
    np.testing.assert_array_equal(other.weights[place], weight)
  assert (first.weights[2].numpy() != other.weights[2].numpy()).any()
  assert made.with_seed(5).digest == made.digest != made.with_seed(6).digest
  assert fitting(BUILDERS["dense"]).digest is None


def test_the_seed_decides_weights_and_no_other_draws():
  def kernel(seed):
    return fitting(BUILDERS["dense"], seed=seed)().weights[0].numpy()

  random.seed(1)
  np.random.seed(1)
  expected = random.random(), np.random.random()
  random.seed(1)
  np.random.seed(1)
  first = kernel(5)
  assert (random.random(), np.random.random()) == expected
  np.testing.assert_array_equal(kernel(5), first)
  assert (kernel(6) != first).any()
  assert (kernel(2**40) != first).any()


def test_only_plain_dense_models_are_functional():
  for name in ("dense", "without a shape"):
    assert dense.is_dense(BUILDERS[name]())
  for name in ("subclass", "normalized", "penalty", "frozen"):
    assert not dense.is_dense(BUILDERS[name]())
  for layers in (
    [LAYERS.Dense(3, LAYERS.PReLU())],
    [LAYERS.Dense(3, activity_regularizer="l1")],
    [LAYERS.Dense(3, kernel_constraint="non_neg")],
    [type("Dense2", (LAYERS.Dense,), {})(3)],
    [LAYERS.Dense(3, dtype="float64")],
  ):
    assert not dense.is_dense(sequential(*layers))
  assert dense.is_dense(sequential(LAYERS.Dense(3, lambda x: x + 1)))


def test_a_penalty_counts_in_the_loss():
  task = small_task(fitting(BUILDERS["penalty"]))
  model, plain = task.model_fn(), task.keras_model_fn()
  batch = task.train.load(0)
  found = model.forward_pass(batch, training=True).loss
  entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  expected = entropy(batch[1], plain(batch[0])) + 0.01 * tf.reduce_sum(
    plain.weights[0] ** 2
  )
  np.testing.assert_allclose(found, expected, rtol=1e-5)


def compiled():
  model = BUILDERS["dense"]()
  model.compile("sgd", "mse")
  return model


def failing():
  raise RuntimeError("no\nluck")


@functools.cache
def same():
  return BUILDERS["dense"]()


def drawn_anew():
  model = BUILDERS["dense"]()
  draws = np.random.default_rng()  # Without a seed.
  model.set_weights([draws.normal(size=w.shape) for w in model.weights])
  return model


@pytest.mark.parametrize(
  ("function", "expected"),
  [
    (lambda: 3, "expected a tf.keras.Model, found int"),
    (compiled, "is compiled; leave compile"),
    (same, "returns the same model each time"),
    (failing, "user_model_test.py, line [0-9]+ raises RuntimeError: no luck"),
    (lambda x: x, "has the argument x; .* input_shape, num_classes, seed"),
    (
      lambda: tf.keras.Sequential([LAYERS.Dense(3, input_shape=(5,))]),
      r"the task has x float32\[n, 4\] and outputs float32\[n, 3\]; the model "
      r"has x float32\[n, 5\] and outputs float32\[n, 3\]",
    ),
    (
      of_dense(7),
      r"the model has x float32\[n, 4\] and outputs float32\[n, 7\]",
    ),
    (
      lambda: tf.keras.Sequential([LAYERS.Conv2D(3, 3)]),
      r"outputs float32\[n, 3\]; the model takes no such x: ",
    ),
    (of_dense(3, dtype="float64"), r"outputs float64\[n, 3\]"),
    (
      lambda: tf.keras.Sequential(
        [
          LAYERS.Dense(3, dtype="float64", input_shape=(4,)),
          LAYERS.Lambda(lambda x: tf.cast(x, tf.float32)),
        ]
      ),
      "kernel:0 is float64; expected float32",
    ),
    (
      lambda: sequential(LAYERS.BatchNormalization(), LAYERS.Dense(3)),
      "moving_mean:0 changes while .* with GroupNormalization or LayerN",
    ),
    (
      lambda: sequential(
        LAYERS.Dense(50), LAYERS.Dropout(0.5), LAYERS.Dense(3)
      ),
      "differ from one call to the next.*RepeatableDropout",
    ),
    *(
      (
        lambda layer=layer: sequential(
          LAYERS.Reshape([2, 2]), layer(), LAYERS.Flatten(), LAYERS.Dense(3)
        ),
        advice,
      )
      for layer, advice in (
        (lambda: LAYERS.GaussianNoise(1.0), r"RepeatableNoise\(stddev, seed"),
        (lambda: LAYERS.AlphaDropout(0.5), r"RepeatableAlphaDropout\(rate, s"),
        (
          lambda: LAYERS.SpatialDropout1D(0.5),
          "SpatialDropout1D.*spatial=True",
        ),
        (
          lambda: LAYERS.LSTM(9, recurrent_dropout=0.5),
          r"leave dropout and recurrent_dropout of lstm\w* \(LSTM\) out",
        ),
        (
          lambda: LAYERS.Bidirectional(LAYERS.GRU(9, dropout=0.5)),
          r"\(GRU\) out, and put tasks.models.RepeatableDropout",
        ),
      )
    ),
    (of_dense(3, activity_regularizer="l2"), "activity_regularizer or add_l"),
    (
      lambda: sequential(LAYERS.ActivityRegularization(0.1), LAYERS.Dense(3)),
      "activity_regularizer or add_l",
    ),
    (
      lambda: sequential(Penalized(), LAYERS.Dense(3)),
      "activity_regularizer or add_l",
    ),
    (of_dense(3, "softmax"), "are probabilities"),
    (of_dense(3, trainable=False), "has nothing to train"),
    (
      lambda: sequential(LAYERS.Lambda(lambda x: x[:, :3])),
      "has nothing to train",
    ),
    (of_dense(3, kernel_constraint="non_neg"), "kernel:0 has a constraint"),
    (
      of_dense(
        3,
        kernel_initializer=lambda shape, dtype=None: tf.random.normal(
          shape, dtype=dtype or tf.float32
        ),
      ),
      "initial values of .*kernel:0 differ each time the model",
    ),
    (drawn_anew, "kernel:0 differ each .* a seed or, .* the same weights"),
    (
      two_inputs,
      r"the model has x float32\[n, 4\] and float32\[n, 4\] and outputs",
    ),
    (
      of_dense(3, kernel_initializer=not_finite),
      "kernel:0 has initial values that are not finite",
    ),
  ],
)
def test_models_that_clients_cannot_train(function, expected):
  with pytest.raises(FieldError, match=expected) as caught:
    fitting(function)
  assert str(caught.value).startswith("mine.py:build: ")
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  "function", [OfOneOutput, lambda: in_a_dict(LAYERS.Dense(3))]
)
def test_a_dict_of_one_output_is_that_output(function):
  build = fitting(function)
  x = np.ones([2, 4], np.float32)
  model, plain = build(), fitting(of_dense(3))()
  assert [w.shape for w in model.weights] == [w.shape for w in plain.weights]
  model.set_weights(plain.get_weights())
  np.testing.assert_array_equal(model(x), plain(x))
  np.testing.assert_array_equal(
    build().get_weights()[0], build().get_weights()[0]
  )


def test_a_probability_in_a_dict_is_one_of_two_classes():
  build = fitting(lambda: in_a_dict(LAYERS.Dense(1, "sigmoid")), num_classes=2)
  assert build()(np.ones([2, 4], np.float32)).shape == (2, 2)


def test_a_frozen_batch_normalization_keeps_nothing():
  fitting(
    lambda: sequential(
      LAYERS.BatchNormalization(trainable=False), LAYERS.Dense(3)
    )
  )


def test_a_function_takes_what_it_names():
  seen = {}

  def build(num_classes, seed, width=7, *, input_shape):
    seen.update(num_classes=num_classes, seed=seed, input_shape=input_shape)
    return sequential(LAYERS.Dense(width), LAYERS.Dense(num_classes or 1))

  fitting(build, seed=9)
  assert seen == {"num_classes": 3, "seed": 9, "input_shape": (4,)}
  number = element_spec([4], y_dtype="float32")
  model = fitting(build, num_classes=None, spec=number)()
  assert seen["num_classes"] is None
  assert model.output_shape == (None, 1)


# Tests of the models that users choose by name.


@pytest.mark.parametrize("name", sorted(set(names.ALL) - {"cnn_leaf"}))
def test_a_name_fits_images_of_28_pixels(name):
  side = 32 if name == "vgg11" else 28
  wanted = catalog.required_shapes(element_spec([side, side, 1]), 10)
  with tf.Graph().as_default():  # Draws no initial weights.
    model = catalog.build_fn(name, wanted, 0)()
  assert model.output_shape == (None, 10)


@pytest.mark.parametrize(
  ("name", "x", "y", "expected"),
  [
    ("cnn", [64], {}, r"has x float32\[n, 64\] .* takes x float32\[n, height"),
    ("cnn_dropout", [32, 32, 1], {}, r"takes x float32\[n, 28, 28, 1\]"),
    ("vgg11", [28, 28, 1], {}, "32 x 32 pixels or more"),
    ("mlp", [None], {}, r"has x float32\[n, \?\]"),
    ("mlp", [5], {"y_shape": [5]}, r"outputs float32\[n, 5, 10\]; the model"),
    ("mlp_double_softmax", [5], {"y_dtype": "float32"}, "are numbers"),
  ],
)
def test_a_name_that_does_not_fit(name, x, y, expected):
  with pytest.raises(ValueError, match=expected):
    catalog.build_fn(name, catalog.required_shapes(element_spec(x, **y), 10), 0)


def test_a_number_has_one_output():
  spec = element_spec([5], y_dtype="float32")
  model = catalog.build_fn("mlp_64", catalog.required_shapes(spec, None), 0)()
  assert model.output_shape == (None, 1)
  many = element_spec([5], y_shape=[7], y_dtype="float32")
  assert catalog.required_shapes(many, 7).outputs == (7,)


def weights(task):
  return task.keras_model_fn().get_weights()


def test_a_name_means_the_same_in_every_task():
  digits = tasks.load("digits", seed=3)
  for name, hidden in (("mlp", [200, 200]), ("mlp_64", [64]), ("linear", [])):
    found = weights(tasks.with_model(digits, name, seed=3))
    assert [len(bias) for bias in found[1::2]] == [*hidden, 10]
  with pytest.raises(FieldError, match=r"digit.* linear, .* vgg11"):
    tasks.with_model(digits, "digit", seed=0)
