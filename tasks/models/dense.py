"""Fully connected classifiers."""

import tensorflow as tf

from tasks.models import seeds


def mlp(
  input_shape: tuple[int, ...],
  hidden_units: tuple[int, ...],
  num_classes: int,
  seed: int,
) -> tf.keras.Model:
  """Fully connected network; without hidden layers, logistic regression.

  Args:
    input_shape: Shape of one example.
    hidden_units: Width of each hidden layer.
    num_classes: Number of logits.
    seed: Seed of the initial weights.

  Returns:
    An uncompiled model.
  """
  initializers = seeds.glorot_uniform(seed)
  return tf.keras.Sequential(
    [
      tf.keras.layers.Flatten(input_shape=input_shape),
      *(
        tf.keras.layers.Dense(
          units, "relu", kernel_initializer=next(initializers)
        )
        for units in hidden_units
      ),
      tf.keras.layers.Dense(num_classes, kernel_initializer=next(initializers)),
    ]
  )


def linear_double_softmax(
  input_shape: tuple[int, ...], num_classes: int, seed: int
) -> tf.keras.Model:
  """Linear model whose softmax output is taken for logits once more.

  A mistake, kept because published numbers come from it: Table 3 of Wang et
  al., "Federated Learning with Fair Averaging" (IJCAI 2021). The loss never
  falls below log(1 + (C - 1) / e) for C classes.

  Args:
    input_shape: Shape of one example.
    num_classes: Number of classes.
    seed: Seed of the initial weights.

  Returns:
    An uncompiled model whose outputs are probabilities; the loss of
    `classification.model_fn` applies its softmax to them.
  """
  return tf.keras.Sequential(
    [mlp(input_shape, (), num_classes, seed), _Probabilities()]
  )


def is_dense(model: tf.keras.Model) -> bool:
  """Returns whether a model is one of this module's."""
  kinds = (tf.keras.layers.Flatten, tf.keras.layers.Dense, _Probabilities)
  return all(
    is_dense(layer)
    if isinstance(layer, tf.keras.Sequential)
    else isinstance(layer, kinds)
    for layer in model.layers
  )


class _Probabilities(tf.keras.layers.Layer):
  """Softmax that Keras does not recognize.

  Keras' cross entropy looks for the softmax that made its input and goes back
  to what is before it; an operation in between hides it.
  """

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    return tf.identity(tf.nn.softmax(inputs))
