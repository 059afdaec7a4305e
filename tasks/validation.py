"""Holds out training examples for choosing settings."""

import dataclasses
import functools

import numpy as np

from tasks import cuts
from tasks.task import Task
from tff_fair.declared import FieldError

# Makes the draw independent of other random draws with the same seed.
_STREAM = int.from_bytes(b"vali")
_NUM_CACHED_CUTS = 1024


def with_validation(task: Task, fraction: float, seed: int) -> Task:
  """Returns a task in which a share of the training examples is held out.

  Each client's examples are drawn separately, stratified by class if each
  example has one class. A client with one example, or whose share rounds to
  zero, trains on all its examples. Statistics that a task computes before the
  draw, such as the means of columns, include the held-out examples.

  Args:
    task: The task.
    fraction: Share of each client's training examples, in [0, 1).
    seed: Seed of the draw.

  Returns:
    The task itself if the share is 0. Otherwise a task whose `validation` has
    the held-out examples, and whose `train` has the others.

  Raises:
    FieldError: If no client has an example to hold out.
  """
  if not fraction:
    return task
  sizes = task.train.num_examples
  number = np.minimum(
    np.rint(sizes * fraction).astype(np.int64), np.maximum(sizes - 1, 0)
  )
  if not number.any():
    raise FieldError(
      "validation_fraction",
      "sets aside no example of any client, the largest of which has "
      f"{sizes.max():,} train examples; expected a larger share, or 0.",
      value=fraction,
    )

  @functools.lru_cache(_NUM_CACHED_CUTS)
  def cut(client_id: int) -> tuple[np.ndarray, np.ndarray]:
    is_validation = np.zeros(sizes[client_id], bool)
    if number[client_id]:
      labels = task.train.load(client_id)[1] if task.has_class_labels else None
      rng = cuts.generator((seed, _STREAM, client_id))
      is_validation[
        draw(labels, len(is_validation), int(number[client_id]), rng)
      ] = True
    return np.flatnonzero(~is_validation), np.flatnonzero(is_validation)

  return dataclasses.replace(
    task,
    description=f"{task.description}; {_in_words(number)}",
    train=cuts.with_rows(task.train, lambda k: cut(k)[0], sizes - number),
    validation=cuts.with_rows(task.train, lambda k: cut(k)[1], number),
  )


def draw(
  labels: np.ndarray | None,
  num_examples: int,
  number: int,
  rng: np.random.Generator,
) -> np.ndarray:
  """Draws `number` of `num_examples` positions, all with equal probability.

  With `labels`, each class gets its share of `number`, rounded up or down.
  """
  order = rng.permutation(num_examples)
  if labels is not None:
    order = order[np.argsort(labels[order], kind="stable")]
  # Evenly spaced positions in an order by class are a stratified sample.
  offset = rng.integers(num_examples)
  return order[(np.arange(number) * num_examples + offset) // number]


def _in_words(number: np.ndarray) -> str:
  """Describes how many examples are held out, and at how many clients."""
  lacking = np.count_nonzero(number == 0)
  text = (
    f"{number.sum():,} of the train examples set aside for validation, at "
    f"{np.count_nonzero(number):,} clients"
  )
  if lacking:
    text += f"; {lacking:,} with too few train on all of theirs"
  return text
