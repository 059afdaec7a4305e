"""Reads each client's scalars, and collects the scalars of a cohort.

A client's scalars travel as one row. So the client's id, signals and norm stay
together, in whichever order the clients report.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.kernels import norms, stacking
from tff_fair.summing.client_weighting import UNIFORM, ClientNumbers

_OR_WRAP = (
  ", or wrap client work of TFF's in tff_fair.client_works.with_signals."
)
_NO_BUILDER = (
  "TFF's builders (FedAvg, FedSGD, Mime, recon) cannot pass "
  "tff_fair.ClientSignals: take tff_fair.algorithms.build, or "
  "tff_fair.client_works.with_signals around client work."
)
_NUMBERS = (np.floating, np.integer)
_NUMERIC_SIGNALS = ("num_examples", *types.MEASURED_SIGNALS)
# Negative values of these signals are meaningless, and rules divide by them or
# take their logarithms. Losses may be negative.
_NEVER_NEGATIVE = (
  "accuracy",
  "learning_rate",
  "effective_steps",
  "gradient_norm",
)


class ScalarRows(NamedTuple):
  """The scalars of m clients, one row each."""

  client_id: tf.Tensor  # int64[m]; 0 for clients that report no id.
  columns: tf.Tensor  # float64[m, s]; `ScalarReader.columns` has their s names.
  num_excluded: tf.Tensor  # int32[], the number of excluded clients.


def concat_rows(first: ScalarRows, second: ScalarRows) -> ScalarRows:
  """Returns the rows of `first`, followed by those of `second`."""
  ids, columns = stacking.join_rows(first[:2], second[:2])
  return ScalarRows(ids, columns, first.num_excluded + second.num_excluded)


@dataclasses.dataclass(frozen=True)
class ScalarReader:
  """Reads the scalars that a rule needs from a client's weight and update."""

  rule: types.Rule
  # "num_examples", "uniform", or weights by client id.
  client_weighting: str | ClientNumbers
  # The numeric fields of a client's weight except the id; empty if the weight
  # is only a scalar, the number of examples.
  fields: tuple[str, ...]
  # Whether clients already report 0 examples for an update that is not finite,
  # so that the server skips this check.
  updates_checked: bool = False
  # The clients' reference losses f_k*: the rule gets f_k - f_k* as the loss.
  # `None` stands for zeros.
  loss_reference: ClientNumbers | None = None

  @classmethod
  def create(
    cls,
    rule: types.Rule,
    client_weighting: str | ClientNumbers,
    weight_type: tff.Type,
    *,
    updates_checked: bool = False,
    loss_reference: ClientNumbers | None = None,
  ) -> "ScalarReader":
    """Creates a reader for weights of `weight_type`.

    Raises `TypeError` if the weights lack a signal that the rule needs.
    """
    needed = ("num_examples", *rule.signals)
    if _is_scalar(weight_type, _NUMBERS):
      given = client_weighting, loss_reference
      if option := next(
        (g.option for g in given if isinstance(g, ClientNumbers)), None
      ):
        raise TypeError(
          f"{option} gives numbers by client id, but the update's "
          f"weight is {weight_type}, which has no id. Pass "
          f"tff_fair.ClientSignals{_OR_WRAP}"
        )
      found: tuple[str, ...] = ("num_examples",)
      fields: tuple[str, ...] = ()
    elif isinstance(weight_type, tff.StructType):
      by_name = dict(tff.structure.iter_elements(weight_type))
      if not _is_scalar(by_name.get("client_id"), (np.int64,)):
        raise TypeError(
          "Expected a weight with a field `client_id` of type int64, found "
          f"{weight_type}. Pass tff_fair.ClientSignals as the update's weight."
        )
      fields = tuple(
        name
        for name in _NUMERIC_SIGNALS
        if _is_scalar(by_name.get(name), _NUMBERS)
      )
      found = fields
    else:
      found, fields = (), ()
    if missing := ", ".join(name for name in needed if name not in found):
      raise TypeError(
        f"{type(rule).__name__} needs the signals {', '.join(needed)} as the "
        f"update's weight, but {missing} cannot be read from {weight_type}. "
        f"{_remedy(missing, found, fields)}"
      )
    return cls(rule, client_weighting, fields, updates_checked, loss_reference)

  @property
  def columns(self) -> tuple[str, ...]:
    """The names of the columns of `ScalarRows`."""
    columns = self.fields or ("num_examples",)
    if self.rule.geometry is types.Geometry.NORMS:
      columns += ("squared_norm",)
    return columns

  def empty(self) -> ScalarRows:
    """Returns `ScalarRows` without clients."""
    row = tf.TensorSpec([len(self.columns)], tf.float64)
    ids, columns = stacking.no_rows((stacking.CLIENT_ID_SPEC, row))
    return ScalarRows(ids, columns, tf.constant(0, tf.int32))

  def read(self, update: types.TensorStructure, weight: Any) -> ScalarRows:
    """Returns the row of one client, or no row if the client is excluded."""
    if self.fields:
      named = weight if isinstance(weight, Mapping) else weight._asdict()
      client_id = named["client_id"]
      values = [tf.cast(named[field], tf.float64) for field in self.fields]
    else:
      client_id = tf.constant(0, tf.int64)
      values = [tf.cast(weight, tf.float64)]
    num_examples = values[self.columns.index("num_examples")]
    if self.rule.geometry is types.Geometry.NORMS:
      values.append(norms.squared_norm(update))
    row = tf.stack(values)
    to_check = row if self.updates_checked else (row, update)
    counts = tf.reduce_all(
      [
        norms.all_finite(to_check),
        num_examples > 0,
        *(
          value >= 0
          for name, value in zip(self.columns, values, strict=True)
          if name in _NEVER_NEGATIVE
        ),
      ]
    )
    ids, columns = stacking.rows_if(counts, (client_id, row))
    return ScalarRows(ids, columns, 1 - tf.cast(counts, tf.int32))

  def signals(self, rows: ScalarRows) -> types.ClientSignals:
    """Returns the signals of the clients in `rows`, as vectors."""
    named = self._by_name(rows)
    return types.ClientSignals(
      client_id=rows.client_id,
      **{name: tf.cast(named[name], tf.float32) for name in _NUMERIC_SIGNALS},
    )

  def unordered_cohort(self, rows: ScalarRows) -> types.Cohort:
    """Returns the cohort in the order of `rows`, with unnormalized weights."""
    named = self._by_name(rows)
    weight = self._weight(rows.client_id, named["num_examples"])
    if self.loss_reference is not None:
      named["loss"] -= self.loss_reference.lookup(rows.client_id)
    return types.Cohort(client_id=rows.client_id, weight=weight, **named)

  def _by_name(self, rows: ScalarRows) -> dict[str, tf.Tensor]:
    columns = tf.unstack(rows.columns, axis=1)
    return dict(zip(self.columns, columns, strict=True))

  def _weight(self, client_id: tf.Tensor, num_examples: tf.Tensor) -> tf.Tensor:
    """Returns the clients' weights, not normalized, float64[clients]."""
    if isinstance(self.client_weighting, ClientNumbers):
      return self.client_weighting.lookup(client_id)
    if self.client_weighting == UNIFORM:
      return tf.ones_like(num_examples)
    return num_examples


def _is_scalar(type_spec: Any, kinds: tuple[type, ...]) -> bool:
  return (
    isinstance(type_spec, tff.TensorType)
    and len(type_spec.shape or ()) == 0
    and type_spec.shape is not None
    and any(np.issubdtype(type_spec.dtype, kind) for kind in kinds)
  )


def _remedy(missing: str, found: Sequence[str], fields: Sequence[str]) -> str:
  """Returns advice on how to supply the signals that a weight lacks.

  `found` are the signals in the weight. `fields` are the same, or empty if the
  weight is a scalar.
  """
  if missing == "learning_rate" and fields:
    return (
      "Pass learning_rate=0.1, the rate of the clients, to "
      "tff_fair.client_works.with_signals."
    )
  if found and not fields:
    return _NO_BUILDER
  return (
    f"Pass tff_fair.ClientSignals with {missing}, as the processes of "
    f"tff_fair.algorithms do{'.' if fields else _OR_WRAP}"
  )
