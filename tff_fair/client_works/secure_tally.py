"""A secure sum of what clients tell about their training.

Secure sums add integers: floats become integers of 32 bits in the interval
[-BOUND, BOUND], and integers are held in [0, BOUND]. Numbers beyond are cut off
there, since these sums are for those who watch and decide no result.
"""

import numpy as np
import tensorflow_federated as tff

from tff_fair.privacy import unused_assertions

BOUND = 2**20


def secure_sum(tally: tff.Value) -> tff.Value:
  """Returns the sum of the clients' values at the server, a structure.

  Args:
    tally: Numbers at the clients, a structure of floats and integers.
  """
  unused_assertions.keep_out_of_log()
  member = tally.type_signature.member
  least, greatest = (_bounds(member, end) for end in (-BOUND, BOUND))
  return tff.aggregators.secure_quantized_sum(tally, least, greatest)


def _bounds(member: tff.Type, end: int) -> object:
  """Returns a structure of the type with one end of its numbers' intervals."""
  if isinstance(member, tff.StructType):
    elements = tff.structure.to_elements(member)
    return tff.structure.Struct(
      [(name, _bounds(element, end)) for name, element in elements]
    )
  assert isinstance(member, tff.TensorType)
  kind = np.dtype(member.dtype).type
  return kind(end if np.issubdtype(kind, np.floating) else max(end, 0))
