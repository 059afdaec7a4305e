"""Keeps this project's use of Keras from breaking users' layers.

Keras has one set of base classes for eager programs and one for `tf.Graph`, and
changes the bases of all layer classes whenever a layer is built in the other
mode. Earlier layers then raise "Your Layer or Model is in an invalid state".
TFF traces models in a `tf.Graph`, so `preserve` restores the bases afterwards.

The classes and counters used here are private parts of Keras, so
`requirements.txt` pins its version.
"""

import contextlib
from collections.abc import Iterator

import tensorflow as tf
from keras.src import backend
from keras.src.engine import base_layer_v1, training_v1

# Maps each base class for `tf.Graph` to its eager counterpart.
_EAGER = {
  base_layer_v1.Layer: tf.keras.layers.Layer,
  training_v1.Model: tf.keras.Model,
}


@contextlib.contextmanager
def preserve() -> Iterator[None]:
  """Restores layers' eager bases after a block that builds layers in a graph.

  Within a `tf.Graph`, nothing is restored: the graph's layers may be in use.
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
  """Names the layers of a block as if they were a program's first layers.

  The names of layers after the block do not depend on those in the block.
  """
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
  """Yields all direct and indirect subclasses of a class."""
  for found in kind.__subclasses__():
    yield found
    yield from _subclasses(found)
