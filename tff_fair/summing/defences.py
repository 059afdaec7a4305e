"""Defends the server against unusual updates, in one of four ways.

  zeroing:       an update whose largest entry exceeds a bound becomes zero
  clipping:      an update whose norm exceeds a bound is scaled to the bound
  trimmed_mean:  the sum of the scaled updates c_k Delta_k leaves out the least
                 and the greatest values of each coordinate
  median:        the sum takes the median of each coordinate

Zeroing and clipping happen before a rule sees the update, so they work with
every rule and every kind of aggregation. Their bounds are TFF's adaptive ones
(`tff.learning.robust_aggregator`; Andrew et al., "Differentially Private
Learning with Adaptive Clipping", NeurIPS 2021). Trimmed mean and median replace
the sum, and so need two-phase aggregation. They keep a few clients from moving
a coordinate far (Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust
Distributed Learning: Towards Optimal Statistical Rates", ICML 2018). Of m
values x_1 <= ... <= x_m of a coordinate, the trimmed sum is

  m / (m - 2 t) (x_(t+1) + ... + x_(m-t)),   t = floor(share m);

for a share of 1/2, it is m times the median. Without outliers, the trimmed sum
is close to the plain sum.
"""

import collections
import dataclasses
import math
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared
from tff_fair.kernels import norms, stacking
from tff_fair.runtime import mergeable_aggregate
from tff_fair.summing import single_aggregate

ZEROING, CLIPPING = "zeroing", "clipping"
TRIMMED_MEAN, MEDIAN = "trimmed_mean", "median"
KINDS = (ZEROING, CLIPPING, TRIMMED_MEAN, MEDIAN)

_Estimate = tff.aggregators.PrivateQuantileEstimationProcess


@dataclasses.dataclass(frozen=True, kw_only=True)
class Defence:
  """The server's defence against unusual updates.

  Attributes:
    kind: "zeroing", "clipping", "trimmed_mean" or "median".
    trimmed_share: For "trimmed_mean", the share of each coordinate's values to
      leave out at the low end, and again at the high end, in (0, 1/2).
  """

  kind: str
  trimmed_share: float = 0.2

  def __post_init__(self) -> None:
    """Raises `TypeError` or `FieldError` for an invalid attribute."""
    declared.check_choice("defence", self.kind, KINDS)
    declared.check_number(
      "trimmed_share",
      self.trimmed_share,
      minimum=0,
      maximum=0.5,
      exclude_minimum=True,
      exclude_maximum=True,
    )

  @property
  def sum_factory(self) -> tff.aggregators.UnweightedAggregationFactory | None:
    """The factory that replaces the sum; `None` keeps the plain sum."""
    if self.kind == MEDIAN:
      return TrimmedSumFactory()
    if self.kind == TRIMMED_MEAN:
      return TrimmedSumFactory(self.trimmed_share)
    return None

  def wrap(
    self,
    process: tff.templates.AggregationProcess,
    value_type: tff.Type,
    weight_type: tff.Type,
  ) -> tff.templates.AggregationProcess:
    """Adds clipping or zeroing to a process, if `kind` is one of these two.

    The new process also measures the bound and the number of updates beyond it:
    `clipping_norm` and `clipped_count`, or `zeroing_norm` and `zeroed_count`.
    """
    inner = _ProcessFactory(process)
    if self.kind == CLIPPING:
      # Both bounds have the settings of `tff.learning.robust_aggregator`.
      bound = _Estimate.no_noise(
        initial_estimate=1.0, target_quantile=0.8, learning_rate=0.2
      )
      factory = tff.aggregators.clipping_factory(bound, inner)
    elif self.kind == ZEROING:
      bound = _Estimate.no_noise(
        initial_estimate=10.0,
        target_quantile=0.98,
        learning_rate=math.log(10.0),
        multiplier=2.0,
        increment=1.0,
      )
      factory = tff.aggregators.zeroing_factory(bound, inner)
    else:
      return process
    return _with_flat_measurements(
      factory.create(value_type, weight_type), value_type, weight_type
    )


class _ProcessFactory(tff.aggregators.WeightedAggregationFactory):
  """Passes a finished process to TFF's factories, which wrap only factories."""

  def __init__(self, process: tff.templates.AggregationProcess) -> None:
    self._process = process

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    del value_type, weight_type  # The process has these types already.
    return self._process


def _with_flat_measurements(
  process: tff.templates.AggregationProcess,
  value_type: tff.Type,
  weight_type: tff.Type,
) -> tff.templates.AggregationProcess:
  """Moves the inner process's measurements to the level of the outer ones."""

  @tff.tensorflow.computation(
    process.next.type_signature.result.measurements.member
  )
  def flatten(measurements: Any) -> Any:
    inner, *own = measurements.items()
    return collections.OrderedDict([*inner[1].items(), *own])

  return single_aggregate.with_converted_output(
    process,
    value_type,
    weight_type,
    lambda output: tff.templates.MeasuredProcessOutput(
      output.state,
      output.result,
      tff.federated_map(flatten, output.measurements),
    ),
  )


class TrimmedSumFactory(tff.aggregators.UnweightedAggregationFactory):
  """Sums values, leaving out each coordinate's least and greatest entries.

  The process has the type

    (<()@SERVER, {V}@CLIENTS> -> <state=()@SERVER, result=V@SERVER,
                                  measurements=()@SERVER>)

  where V is a structure of floats of known shapes. A client whose value is all
  zeros does not change a plain sum, so it is excluded here. So is a client
  whose value is not finite. The server sees and stores each client's value.
  """

  def __init__(self, share: float = 0.5) -> None:
    """Initializes the factory.

    Args:
      share: The share of each coordinate's values to leave out at the low end,
        and again at the high end, in (0, 1/2]; with 1/2, only the median stays.

    Raises:
      FieldError: If the share is out of range.
    """
    declared.check_number(
      "share", share, minimum=0, maximum=0.5, exclude_minimum=True
    )
    self._share = share

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Creates a process for values of a type; see the class."""
    specs = tff.types.type_to_tf_tensor_specs(value_type)
    row_spec = stacking.row_spec(specs)
    as_row = tff.tensorflow.computation(_counted_rows, value_type)
    collect = mergeable_aggregate.build(
      as_row.type_signature.result,
      zero=lambda: stacking.empty_stack(row_spec),
      accumulate=stacking.push,
      merge=stacking.merge,
      report=lambda stack: stacking.unflatten_update(
        trimmed_sum(stacking.rows(stack), self._share), specs
      ),
    )

    @tff.federated_computation
    def initialize() -> tff.Value:
      return tff.federated_value((), tff.SERVER)

    @tff.federated_computation(
      initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
    )
    def next_fn(
      state: tff.Value, value: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      return tff.templates.MeasuredProcessOutput(
        state,
        collect(tff.federated_map(as_row, value)),
        tff.federated_value((), tff.SERVER),
      )

    return tff.templates.AggregationProcess(initialize, next_fn)


def trimmed_sum(rows: tf.Tensor, share: float) -> tf.Tensor:
  """Returns the trimmed sum of each column of float[m, d], as float[d].

  `share` is in (0, 1/2]; m may be 0, which gives zeros.
  """
  count = tf.shape(rows)[0]
  share_of_rows = tf.cast(
    tf.floor(tf.constant(share, tf.float64) * tf.cast(count, tf.float64)),
    tf.int32,
  )
  # The median always stays: one value if m is odd, two values if m is even.
  cut = tf.maximum(tf.minimum(share_of_rows, (count - 1) // 2), 0)
  kept = tf.cast(tf.sort(rows, axis=0)[cut : count - cut], tf.float64)
  factor = tf.math.divide_no_nan(
    tf.cast(count, tf.float64), tf.cast(count - 2 * cut, tf.float64)
  )
  return tf.cast(factor * tf.reduce_sum(kept, axis=0), rows.dtype)


def _counted_rows(value: object) -> tf.Tensor:
  """Returns a value as one row, or as no row if it is zero or not finite."""
  row = stacking.flatten_update(value)
  counts = tf.logical_and(
    norms.all_finite(row), tf.reduce_any(tf.not_equal(row, 0))
  )
  return row[: tf.cast(counts, tf.int32)]
