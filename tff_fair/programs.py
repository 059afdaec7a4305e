"""Adapts clients' data and metrics to programs of `tff.learning.programs`.

These programs cannot use TFF's own `tff.program.DatasetDataSource`:
`train_model` copies it, and TensorFlow's datasets cannot be copied. Programs
that tune with Vizier accept only numbers as measurements, but the metrics of
this project's processes include vectors.
"""

import collections
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared
from tff_fair.runtime import phases


class _Iterator(tff.program.FederatedDataSourceIterator):
  """Draws a program's cohorts; only the number of the round is saved."""

  datasets: ClassVar[Sequence[tf.data.Dataset]]
  seed: ClassVar[int]
  data_type: ClassVar[tff.FederatedType]

  def __init__(self, round_num: int = 0) -> None:
    self._round_num = round_num
    # How often a cohort was drawn for each round. Copies share these counts, so
    # a program that discards a round and repeats it draws another cohort.
    self._draws: collections.Counter[int] = collections.Counter()

  @classmethod
  def from_bytes(cls, buffer: bytes) -> Self:
    return cls(json.loads(buffer))

  def to_bytes(self) -> bytes:
    return json.dumps(self._round_num).encode()

  def __deepcopy__(self, memo: Mapping[int, Any]) -> Self:
    del memo
    copied = type(self)(self._round_num)
    copied._draws = self._draws
    return copied

  @property
  def federated_type(self) -> tff.FederatedType:
    return self.data_type

  def select(self, k: int | None = None) -> list[tf.data.Dataset]:
    size = len(self.datasets)
    k = size if k is None else k
    declared.check_integer("k", k, minimum=1)
    if k > size:
      raise declared.FieldError(
        "k", f"Expected at most {size} clients in a round, found k={k}."
      )
    draw = self._draws[self._round_num]
    rng = np.random.default_rng((self.seed, self._round_num, draw))
    self._draws[self._round_num] += 1
    self._round_num += 1
    return [self.datasets[n] for n in rng.choice(size, k, replace=False)]


class ClientDataSource(tff.program.FederatedDataSource):
  """Provides a program with clients' data; a seed determines each cohort.

  A resumed program draws the same clients as an uninterrupted one.
  """

  def __init__(
    self, datasets: Sequence[tf.data.Dataset], seed: int = 0
  ) -> None:
    """Initializes the source.

    Args:
      datasets: Each client's data, from `tff_fair.client_dataset` or in the
        form that the process takes. The elements may differ only in size.
      seed: Determines each cohort, together with the number of earlier rounds.

    Raises:
      TypeError: If `datasets` are not datasets, or differ in their elements.
      FieldError: If `datasets` is empty or `seed` is negative; a `ValueError`.
    """
    declared.check_integer("seed", seed, minimum=0)
    if not datasets:
      raise declared.FieldError("datasets", "Expected a dataset, found none.")
    spec = None
    for place, dataset in enumerate(datasets):
      if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
          f"Expected `datasets[{place}]` to be a tf.data.Dataset, found "
          f"{type(dataset).__name__}. Make one of a client's examples with "
          "tff_fair.client_dataset(client_id, examples)."
        )
      found = dataset.element_spec
      try:
        spec = found if spec is None else _join(spec, found)
      except (TypeError, ValueError) as error:
        raise TypeError(
          "Expected all `datasets` to have elements of one kind, found "
          f"{datasets[0].element_spec} and, in `datasets[{place}]`, {found}. "
          "Cast, or batch, all in the same way."
        ) from error
    element_type = tff.types.tensorflow_to_type(spec)
    # TFF restores an iterator by its class and the saved bytes, so each source
    # needs a class that holds its datasets and seed.
    self._iterator_class: type[_Iterator] = type(
      "ClientDataIterator",
      (_Iterator,),
      {
        "datasets": datasets,
        "seed": seed,
        "data_type": tff.FederatedType(
          tff.SequenceType(element_type), tff.CLIENTS
        ),
      },
    )

  @property
  def federated_type(self) -> tff.FederatedType:
    """The type of a cohort's data."""
    return self._iterator_class.data_type

  def iterator(self) -> tff.program.FederatedDataSourceIterator:
    """Returns an iterator over the cohorts of a program's rounds."""
    return self._iterator_class()


def _join(first: Any, second: Any) -> Any:
  """Returns the common spec of two datasets' elements, which may vary in size.

  Raises `TypeError` or `ValueError` if anything else differs.
  """

  def join(one: tf.TensorSpec, other: tf.TensorSpec) -> tf.TensorSpec:
    joined = one.most_specific_common_supertype([other])
    if joined is None:
      raise TypeError
    return joined

  return tf.nest.map_structure(join, first, second)


def scalar_metrics(
  process: tff.learning.templates.LearningProcess,
) -> tff.learning.templates.LearningProcess:
  """Returns a process that reports only scalar metrics.

  `tff.learning.programs.train_model_with_vizier` turns the metrics of a round
  into measurements. It fails for vectors, such as the clients' coefficients,
  and loses all measurements of the round. With this function it works:

      train_process_factory=lambda trial: scalar_metrics(process)

  Args:
    process: The process.

  Returns:
    A process with the same state and rounds, whose metrics are only integers
    and floats of shape []. Its rounds have no phases that workers can share.
  """
  next_type = process.next.type_signature

  @tff.tensorflow.computation(next_type.result.metrics.member)
  def scalars(metrics: Any) -> Any:
    return _scalars(metrics)

  @tff.federated_computation(next_type.parameter)
  def next_fn(arguments: Any) -> tff.learning.templates.LearningProcessOutput:
    output = process.next(arguments)
    return tff.learning.templates.LearningProcessOutput(
      output.state, tff.federated_map(scalars, output.metrics)
    )

  return phases.with_next(process, next_fn)


def _scalars(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
  """Returns the scalar numbers of nested metrics, nested in the same way."""
  found: dict[str, Any] = collections.OrderedDict()
  for name, value in metrics.items():
    if isinstance(value, Mapping):
      if within := _scalars(value):
        found[name] = within
    elif (
      tf.is_tensor(value)
      and value.shape.rank == 0
      and (value.dtype.is_floating or value.dtype.is_integer)
    ):
      found[name] = value
  return found
