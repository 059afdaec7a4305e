"""A secure sum of what clients tell about their training.

Secure sums add integers. Here floats are multiples of 2^-11 in [-2^20, 2^20),
so that whole numbers stay exact, and integers are held in [0, 2^20]. Numbers
beyond are cut off there: these sums are for those who watch, and decide no
result.
"""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.privacy import unused_assertions

BOUND = 2**20
_STEP = 2.0**-11
# TFF has 2^32 - 1 steps between the bounds.
_FLOATS = (-float(BOUND), -float(BOUND) + (2**32 - 1) * _STEP)
_INTEGERS = (0, BOUND)


def secure_sum(tally: tff.Value) -> tff.Value:
  """Returns the sum of the clients' values at the server, a structure.

  Args:
    tally: Numbers at the clients, a structure of floats and integers.
  """
  unused_assertions.keep_out_of_log()
  member = tally.type_signature.member
  specs = tff.types.type_to_tf_tensor_specs(member)

  @tff.tensorflow.computation(member)
  def widen(values: types.TensorStructure) -> types.TensorStructure:
    return tf.nest.map_structure(
      lambda x: tf.cast(x, tf.float64) if x.dtype.is_floating else x, values
    )

  wide_type = widen.type_signature.result

  @tff.tensorflow.computation(wide_type)
  def narrow(total: types.TensorStructure) -> types.TensorStructure:
    return tf.nest.map_structure(
      lambda spec, x: tf.cast(x, spec.dtype), specs, total
    )

  least, greatest = (_bounds(wide_type, end) for end in (0, 1))
  total = tff.aggregators.secure_quantized_sum(
    tff.federated_map(widen, tally), least, greatest
  )
  return tff.federated_map(narrow, total)


def _bounds(wide_type: tff.Type, end: int) -> object:
  """Returns a structure of the type with one end of its numbers' intervals."""
  if isinstance(wide_type, tff.StructType):
    elements = tff.structure.to_elements(wide_type)
    return tff.structure.Struct(
      [(name, _bounds(element, end)) for name, element in elements]
    )
  assert isinstance(wide_type, tff.TensorType)
  kind = np.dtype(wide_type.dtype).type
  is_float = np.issubdtype(kind, np.floating)
  return kind((_FLOATS if is_float else _INTEGERS)[end])
