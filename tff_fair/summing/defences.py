"""Defences: what the server does against updates that are out of the ordinary.

  zeroing:       an update whose largest entry is beyond a bound becomes zero
  clipping:      an update whose norm is beyond a bound is shortened to it
  trimmed_mean:  the sum of the scaled updates c_k Delta_k leaves out the least
                 and the greatest values of each coordinate
  median:        it takes the median of each coordinate

Zeroing and clipping come before a rule sees the update, so that they go with
every rule and every way to sum. Their bounds are TFF's adaptive ones
(`tff.learning.robust_aggregator`; Andrew et al., "Differentially Private
Learning with Adaptive Clipping", NeurIPS 2021). The other two take the place of
the sum, and so need the two-phase way.
"""

import collections
import dataclasses
import math
from typing import Any

import tensorflow_federated as tff

from tff_fair import declared
from tff_fair.summing import outputs, trimmed_sum

ZEROING, CLIPPING = "zeroing", "clipping"
TRIMMED_MEAN, MEDIAN = "trimmed_mean", "median"
KINDS = (ZEROING, CLIPPING, TRIMMED_MEAN, MEDIAN)

_Estimate = tff.aggregators.PrivateQuantileEstimationProcess


@dataclasses.dataclass(frozen=True, kw_only=True)
class Defence:
  """What the server does against updates that are out of the ordinary.

  Attributes:
    kind: "zeroing", "clipping", "trimmed_mean" or "median".
    trimmed_share: For "trimmed_mean", the share of the cohort whose values are
      left out at each end of each coordinate, in (0, 1/2).
  """

  kind: str
  trimmed_share: float = 0.2

  def __post_init__(self) -> None:
    """Checks the defence.

    Raises:
      TypeError: If an attribute has the wrong type.
      FieldError: If it has a wrong value.
    """
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
    """Sums the scaled updates; `None` if that is the plain sum."""
    if self.kind == MEDIAN:
      return trimmed_sum.TrimmedSumFactory()
    if self.kind == TRIMMED_MEAN:
      return trimmed_sum.TrimmedSumFactory(self.trimmed_share)
    return None

  def around(
    self,
    process: tff.templates.AggregationProcess,
    value_type: tff.Type,
    weight_type: tff.Type,
  ) -> tff.templates.AggregationProcess:
    """Returns a process with the bound of the defence, if it has one.

    Args:
      process: Sums updates.
      value_type: The type of a client's update.
      weight_type: The type of its weight.

    Returns:
      A process with the measurements of `process`, and the bound and the number
      of updates beyond it: `clipping_norm` and `clipped_count`, or
      `zeroing_norm` and `zeroed_count`.
    """
    inner = _Existing(process)
    if self.kind == CLIPPING:
      # The settings of `tff.learning.robust_aggregator`.
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


class _Existing(tff.aggregators.WeightedAggregationFactory):
  """Gives a process that is there already to a factory that wants a factory."""

  def __init__(self, process: tff.templates.AggregationProcess) -> None:
    self._process = process

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    del value_type, weight_type  # The process is of these.
    return self._process


def _with_flat_measurements(
  process: tff.templates.AggregationProcess,
  value_type: tff.Type,
  weight_type: tff.Type,
) -> tff.templates.AggregationProcess:
  """Returns a process that reports the inner measurements beside its own."""

  @tff.tensorflow.computation(
    process.next.type_signature.result.measurements.member
  )
  def flatten(measurements: Any) -> Any:
    inner, *own = measurements.items()
    return collections.OrderedDict([*inner[1].items(), *own])

  return outputs.converted(
    process,
    value_type,
    weight_type,
    lambda output: tff.templates.MeasuredProcessOutput(
      output.state,
      output.result,
      tff.federated_map(flatten, output.measurements),
    ),
  )
