"""Keeps what we build with Keras apart from what a user has built.

Keras has one set of layer classes for eager programs and one for `tf.Graph`,
and changes the bases of `tf.keras.layers.Dense` and all others whenever a layer
is built in the other place. Layers from before then raise "Your Layer or Model
is in an invalid state". TFF traces models in a `tf.Graph`, so whatever traces
one restores the bases afterwards.

Keras keeps all of this private; `requirements.txt` holds the version.
"""

import contextlib
from collections.abc import Iterator

import tensorflow as tf
from keras.src import backend
from keras.src.engine import base_layer_v1, training_v1

# The classes of a `tf.Graph`, and those of eager programs in their place.
_EAGER = {
  base_layer_v1.Layer: tf.keras.layers.Layer,
  training_v1.Model: tf.keras.Model,
}


@contextlib.contextmanager
def restored() -> Iterator[None]:
  """Lets a block, or a function, build in graphs; eager layers work afterwards.

  Within a `tf.Graph` it changes nothing: its layers may still be called.
  """
  try:
    yield
  finally:
    if tf.compat.v1.executing_eagerly_outside_functions():
      for of_graph in _EAGER:
        for layer in list(_subclasses(of_graph)):
          bases = tuple(_EAGER.get(base, base) for base in layer.__bases__)
          if bases != layer.__bases__:
            layer.__bases__ = bases


@contextlib.contextmanager
def fresh_names() -> Iterator[None]:
  """Names layers in a block as a new program does, and later ones as before."""
  counts = dict(backend.PER_GRAPH_OBJECT_NAME_UIDS)
  names = set(backend.OBSERVED_NAMES)
  tf.keras.backend.reset_uids()
  try:
    yield
  finally:
    tf.keras.backend.reset_uids()
    backend.PER_GRAPH_OBJECT_NAME_UIDS.update(counts)
    backend.OBSERVED_NAMES.update(names)


def _subclasses(kind: type) -> Iterator[type]:
  """Yields the classes below one, at any depth."""
  for found in kind.__subclasses__():
    yield found
    yield from _subclasses(found)
