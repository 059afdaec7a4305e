"""A sum in which no few clients can move a coordinate far.

Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning:
Towards Optimal Statistical Rates" (ICML 2018). Of m values x_1 <= ... <= x_m of
a coordinate,

  m / (m - 2 t) (x_(t+1) + ... + x_(m-t)),   t = floor(share m),

and m times the median for a share of 1/2. Without outliers it is about the sum.
"""

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared
from tff_fair.kernels import finiteness, stacking
from tff_fair.runtime import collecting


class TrimmedSumFactory(tff.aggregators.UnweightedAggregationFactory):
  """Sums values without the least and the greatest of each coordinate.

  The process has the type

    (<()@SERVER, {V}@CLIENTS> -> <state=()@SERVER, result=V@SERVER,
                                  measurements=()@SERVER>)

  where V is a structure of floats of known shapes. Values that are zero
  throughout, or not finite, have no say: in a plain sum the former change
  nothing, and the latter everything. It costs m * d memory at the server,
  which sees each value.
  """

  def __init__(self, share: float = 0.5) -> None:
    """Initializes the factory.

    Args:
      share: The share of the values that is left out at each end, in (0, 1/2];
        1/2 takes the median.

    Raises:
      FieldError: If the share is out of range.
    """
    declared.check_number("share", share, minimum=0, maximum=0.5)
    if share == 0:
      raise declared.FieldError("share", "Expected share in (0, 0.5], found 0.")
    self._share = share

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Creates a process for values of a type; see the class."""
    specs = tff.types.type_to_tf_tensor_specs(value_type)
    row_spec = stacking.row_spec(specs)
    as_row = tff.tensorflow.computation(_rows_with_a_say, value_type)
    collect = collecting.build_collect(
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
  """Returns the trimmed sum of each column.

  Args:
    rows: float[m, d], finite; m may be 0.
    share: In (0, 1/2].

  Returns:
    float[d], of the dtype of `rows`; zero without rows.
  """
  count = tf.shape(rows)[0]
  share_of_rows = tf.cast(
    tf.floor(tf.constant(share, tf.float64) * tf.cast(count, tf.float64)),
    tf.int32,
  )
  # The median of an odd number is one value, that of an even number two.
  cut = tf.maximum(tf.minimum(share_of_rows, (count - 1) // 2), 0)
  kept = tf.cast(tf.sort(rows, axis=0)[cut : count - cut], tf.float64)
  factor = tf.math.divide_no_nan(
    tf.cast(count, tf.float64), tf.cast(count - 2 * cut, tf.float64)
  )
  return tf.cast(factor * tf.reduce_sum(kept, axis=0), rows.dtype)


def _rows_with_a_say(value: object) -> tf.Tensor:
  """Returns a value as one row, [1, d], or none, [0, d]."""
  row = stacking.flatten_update(value)
  has_a_say = tf.logical_and(
    finiteness.all_finite(row), tf.reduce_any(tf.not_equal(row, 0))
  )
  return row[: tf.cast(has_a_say, tf.int32)]
