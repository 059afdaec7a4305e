"""The input and the outputs that the model of a task has."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tasks.task import ElementSpec


class Shapes(NamedTuple):
  """Shapes of one example, without the batch.

  Attributes:
    x: Of the input; None where a size differs between batches.
    x_dtype: Type of the input.
    outputs: Of the outputs.
    are_two_classes: Whether labels are one of two classes, of which one output
      tells, too.
  """

  x: tuple[int | None, ...]
  x_dtype: tf.DType
  outputs: tuple[int | None, ...]
  are_two_classes: bool = False

  def __str__(self) -> str:
    """Returns both in words."""
    return (
      f"x {as_text(self.x, self.x_dtype)} and outputs "
      f"{as_text(self.outputs, tf.float32)}"
    )


def of_task(element_spec: ElementSpec, num_classes: int | None) -> Shapes:
  """Returns the shapes of a task's models.

  Args:
    element_spec: Specs of `(x, y)`.
    num_classes: As `Task` has it. Class numbers are integers, with logits for
      each; float labels hold a number for each class at once. Without classes,
      there is an output for each number of a label.
  """
  x, y = element_spec
  outputs: tuple[int | None, ...] = (num_classes or 1,)
  are_classes = num_classes is not None and y.dtype.is_integer
  if num_classes is None:
    outputs = tuple(y.shape[1:]) or outputs
  elif are_classes:
    outputs = (*y.shape[1:], num_classes)
  return Shapes(
    tuple(x.shape[1:]),
    x.dtype,
    outputs,
    are_two_classes=are_classes and outputs == (2,),
  )


def as_text(shape: Sequence[int | None], dtype: tf.DType) -> str:
  """Returns a batch in words, as "float32[n, 64]"."""
  sizes = ["n", *("?" if size is None else str(size) for size in shape)]
  return f"{tf.as_dtype(dtype).name}[{', '.join(sizes)}]"
