"""What a client counts for beside the others, before a method looks at it."""

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from tff_fair import declared

# "num_examples", "uniform", or numbers: by client id, or of the clients from
# id 0 on.
ClientWeighting: TypeAlias = str | Mapping[int, float] | Sequence[float]

NUM_EXAMPLES, UNIFORM = "num_examples", "uniform"

_UNKNOWN = "client_weighting has no weight for these clients of the round:"


class GivenWeights(NamedTuple):
  """Numbers that a program gave.

  Attributes:
    ids: Clients, ascending.
    weights: Their weights, above 0.
  """

  ids: tuple[int, ...]
  weights: tuple[float, ...]

  def of(self, client_id: tf.Tensor) -> tf.Tensor:
    """Returns the weights of clients, float64[m]; fails for unknown ones.

    Args:
      client_id: int64[m].
    """
    ids = tf.constant(self.ids, tf.int64)
    place = tf.minimum(tf.searchsorted(ids, client_id), len(self.ids) - 1)
    is_known = tf.equal(tf.gather(ids, place), client_id)
    unknown = tf.boolean_mask(client_id, tf.logical_not(is_known))
    check = tf.debugging.Assert(
      tf.reduce_all(is_known), [_UNKNOWN, unknown], summarize=5
    )
    with tf.control_dependencies([check]):
      return tf.gather(tf.constant(self.weights, tf.float64), place)


def read_client_weighting(given: ClientWeighting) -> str | GivenWeights:
  """Returns what a program gave, checked.

  Raises:
    TypeError: If it is neither a text nor numbers of clients.
    FieldError: If the text is unknown, there are no numbers, or one of them is
      not above 0 and finite.
  """
  name = "client_weighting"
  if isinstance(given, str):
    declared.check_choice(name, given, (NUM_EXAMPLES, UNIFORM))
    return given
  if isinstance(given, GivenWeights):
    return given
  if not isinstance(given, Mapping | Sequence | np.ndarray):
    raise TypeError(
      f"Expected {name} to be {NUM_EXAMPLES!r}, {UNIFORM!r}, a mapping of "
      f"client ids to weights, or the weights of the clients from id 0 on; "
      f"found {type(given).__name__}: {given!r}."
    )
  by_id: dict[Any, Any] = dict(
    given.items() if isinstance(given, Mapping) else enumerate(given)
  )
  if not by_id:
    raise declared.FieldError(name, "has no weights; give each client one.")
  for client_id, weight in by_id.items():
    if not isinstance(client_id, numbers.Integral):
      raise TypeError(
        f"Expected the keys of {name} to be client ids, which are integers; "
        f"found {client_id!r}."
      )
    is_number = isinstance(weight, numbers.Real)
    if not is_number or not 0 < weight < math.inf:
      raise declared.FieldError(
        name,
        f"has the weight {weight!r} of client {client_id}, expected a number "
        "above 0. Leave a client out that is not to count.",
      )
  ids = sorted(map(int, by_id))
  return GivenWeights(tuple(ids), tuple(float(by_id[k]) for k in ids))
