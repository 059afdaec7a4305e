"""A client's data, as the learning processes take it."""

import tensorflow as tf


def client_dataset(
  client_id: int, examples: tf.data.Dataset
) -> tf.data.Dataset:
  """Returns what a process takes as the data of one client.

  Args:
    client_id: The client's id, the same in every round; fits an int64.
    examples: Batches of the client's examples, each an `(x, y)` tuple or a dict
      with the keys "x" and "y", as the model's `input_spec` has it. With
      `batch_size` given to `tff_fair.algorithms.build`, a batch may hold all of
      the client's examples.

  Returns:
    A dataset of `(client_id, batch)`, client_id an int64 scalar. One that has
    no batch has no id either: the process leaves it out of the round.

  Raises:
    TypeError: If `examples` is not a `tf.data.Dataset`, or `client_id` not an
      integer.
    ValueError: If `client_id` does not fit an int64.
  """
  if not isinstance(examples, tf.data.Dataset):
    raise TypeError(
      "Expected `examples` to be a tf.data.Dataset of batches, found "
      f"{type(examples).__name__}. Build one with "
      "tf.data.Dataset.from_tensors((x, y))."
    )
  try:
    identifier = client_id.__index__()
  except AttributeError as error:
    raise TypeError(
      "Expected `client_id` to be an integer, found "
      f"{type(client_id).__name__}: {client_id!r}. Number the clients, "
      "for instance by their place in the sorted list of their names."
    ) from error
  if not -(2**63) <= identifier < 2**63:
    raise ValueError(
      f"Expected `client_id` to fit an int64, found {identifier}. Number the "
      "clients, for instance by their place in the sorted list of their names."
    )
  ids = tf.data.Dataset.from_tensors(tf.constant(identifier, tf.int64)).repeat()
  return tf.data.Dataset.zip((ids, examples))
