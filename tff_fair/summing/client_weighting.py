"""Reads the numbers that callers pass for clients: weights or reference losses.

The normalized weights are a rule's p_k. A rule gets each client's loss minus
the client's reference loss.
"""

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from tff_fair import declared

# "num_examples", "uniform", or one number per client: a mapping by client id,
# or a sequence that starts with client 0.
ClientWeighting: TypeAlias = str | Mapping[int, float] | Sequence[float]

NUM_EXAMPLES, UNIFORM = "num_examples", "uniform"


class ClientNumbers(NamedTuple):
  """One number per client, set by `option`, in ascending order of the ids."""

  option: str
  ids: tuple[int, ...]
  numbers: tuple[float, ...]

  def lookup(self, client_id: tf.Tensor) -> tf.Tensor:
    """Returns m clients' numbers, float64[m]; fails if a client has none."""
    ids = tf.constant(self.ids, tf.int64)
    place = tf.minimum(tf.searchsorted(ids, client_id), len(self.ids) - 1)
    is_known = tf.equal(tf.gather(ids, place), client_id)
    unknown = tf.boolean_mask(client_id, tf.logical_not(is_known))
    check = tf.debugging.Assert(
      tf.reduce_all(is_known),
      [f"{self.option} has no number for these clients of the round:", unknown],
      summarize=5,
    )
    with tf.control_dependencies([check]):
      return tf.gather(tf.constant(self.numbers, tf.float64), place)


def read_client_weighting(given: ClientWeighting) -> str | ClientNumbers:
  """Checks the option `client_weighting`; converts numbers to `ClientNumbers`.

  Raises `TypeError` if the weighting is neither a string nor one number per
  client, and `FieldError` if a value is wrong.
  """
  name = "client_weighting"
  if isinstance(given, str):
    declared.check_choice(name, given, (NUM_EXAMPLES, UNIFORM))
    return given
  if not isinstance(given, Mapping | Sequence | np.ndarray):
    raise TypeError(
      f"Expected {name} to be {NUM_EXAMPLES!r}, {UNIFORM!r}, a mapping of "
      f"client ids to weights, or the weights of the clients from id 0 on; "
      f"found {type(given).__name__}: {given!r}."
    )
  found = _read_numbers(name, given)
  for client_id, weight in zip(found.ids, found.numbers, strict=True):
    if weight <= 0:
      raise declared.FieldError(
        name,
        f"has the weight {weight!r} of client {client_id}, expected a number "
        "above 0. Leave out a client that should not count.",
      )
  return found


def read_loss_reference(
  given: Mapping[int, float] | None,
) -> ClientNumbers | None:
  """Checks and returns the option `loss_reference`, f_k* by client id.

  `None` means no references. Raises `TypeError` if `given` is not a mapping of
  client ids to numbers, and `FieldError` if the mapping is empty or a number is
  not finite.
  """
  if given is None:
    return None
  if not isinstance(given, Mapping):
    raise TypeError(
      "Expected loss_reference to be a mapping of client ids to losses, found "
      f"{type(given).__name__}: {given!r}."
    )
  return _read_numbers("loss_reference", given)


def _read_numbers(option: str, given: Any) -> ClientNumbers:
  """Checks and returns an option's numbers.

  `given` maps client ids to numbers, or has the numbers of clients 0, 1, ...
  """
  by_id: dict[Any, Any] = dict(
    given.items() if isinstance(given, Mapping) else enumerate(given)
  )
  if not by_id:
    raise declared.FieldError(option, "has no numbers; give each client one.")
  for client_id, number in by_id.items():
    if not isinstance(client_id, numbers.Integral):
      raise TypeError(
        f"Expected the keys of {option} to be client ids, which are integers; "
        f"found {client_id!r}."
      )
    if not isinstance(number, numbers.Real) or not math.isfinite(number):
      raise declared.FieldError(
        option,
        f"has {number!r} of client {client_id}, expected a finite number.",
      )
  ids = sorted(map(int, by_id))
  return ClientNumbers(option, tuple(ids), tuple(float(by_id[k]) for k in ids))
