"""A user's models with one output for two classes, as models with logits.

One output z of a sigmoid is the logit of the second class. Beside the logit 0
of the first one, softmax cross entropy is binary cross entropy:

  log(1 + exp(z)) - y z
"""

import tensorflow as tf

from tasks.models import seeds, shapes

# A sequential model, and one of layers from inputs to outputs.
_GRAPHS = (tf.keras.Sequential, tf.keras.Sequential.__base__)
_LAST = (tf.keras.layers.Dense, tf.keras.layers.Activation)
_NAME = "two_classes"


def with_two_logits(
  model: tf.keras.Model, wanted: shapes.Shapes, seed: int
) -> tf.keras.Model:
  """Returns a model with a logit for each class, if the model has one output.

  Its last layer loses its sigmoid: the loss of classes has one.

  Args:
    model: As a user's function returns it.
    wanted: The shapes of a task of two classes.
    seed: Seed of what is drawn where the model is built.

  Returns:
    The model, with one more layer that is not trained; `model` itself if it has
    other outputs, takes no such x, or may end in something else.
  """
  last = model
  while type(last) in _GRAPHS and last.layers:
    last = last.layers[-1]
  if type(last) not in _LAST or last.activation not in (
    tf.keras.activations.sigmoid,
    tf.keras.activations.linear,
  ):
    return model
  try:
    with seeds.seeded(seed):
      outputs = model(tf.keras.Input(wanted.x, dtype=wanted.x_dtype))
  # The checks of models tell the reason.
  except Exception:
    return model
  if not tf.is_tensor(outputs) or outputs.shape.as_list() != [None, 1]:
    return model
  last.activation = tf.keras.activations.linear
  two_classes = tf.keras.layers.Dense(
    2,
    use_bias=False,
    trainable=False,
    kernel_initializer=tf.keras.initializers.Constant([[0.0, 1.0]]),
    name=_NAME,
  )
  return tf.keras.Sequential([model, two_classes])


def of_user(model: tf.keras.Model) -> tf.keras.Model:
  """Returns a model as the user's function returned it."""
  layers = model.layers
  return layers[0] if layers and layers[-1].name == _NAME else model
