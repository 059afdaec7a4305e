"""Factories that return no sum are refused, wherever they hide."""

import pytest
import tensorflow_federated as tff

from tests.refusals import rejected
from tff_fair import aggregators, privacy

ADAPTIVE = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
  initial_estimate=1.0, target_quantile=0.5, learning_rate=1.0
)
PRIVATE = tff.aggregators.DifferentiallyPrivateFactory
MEAN = tff.aggregators.UnweightedMeanFactory


def measured(inner):
  return tff.aggregators.add_measurements(
    inner, server_measurement_fn=lambda result: {"result": result}
  )


SUMS = {
  "sum": tff.aggregators.SumFactory,
  "secure": lambda: tff.aggregators.SecureSumFactory(8.0),
  "compressed": tff.aggregators.EncodedSumFactory.quantize_above_threshold,
  "rotated": tff.aggregators.HadamardTransformFactory,
  "clipped": lambda: tff.aggregators.clipping_factory(
    ADAPTIVE, tff.aggregators.SumFactory()
  ),
  "measured": lambda: measured(tff.aggregators.SumFactory()),
  "median": aggregators.TrimmedSumFactory,
  "private, over one": lambda: PRIVATE.gaussian_fixed(0.0, 1.0, 100.0),
}
NO_SUMS = {
  "mean": MEAN,
  "mean of a secure sum": lambda: MEAN(tff.aggregators.SecureSumFactory(8.0)),
  "clipped mean": lambda: tff.aggregators.clipping_factory(1.0, MEAN()),
  "zeroed and clipped mean": lambda: tff.aggregators.zeroing_factory(
    ADAPTIVE, tff.aggregators.clipping_factory(ADAPTIVE, MEAN())
  ),
  "measured mean": lambda: measured(MEAN()),
  "concatenated mean": lambda: tff.aggregators.concat_factory(MEAN()),
  "private mean": lambda: PRIVATE.gaussian_fixed(0.5, 8.0, 1.0),
  "adaptive private mean": lambda: PRIVATE.gaussian_adaptive(0.5, 8.0),
  "learning's private mean": lambda: tff.learning.dp_aggregator(0.5, 8.0),
  "learning's compressed mean": lambda: tff.learning.compression_aggregator(
    weighted=False
  ),
  "learning's robust mean": lambda: tff.learning.robust_aggregator(
    weighted=False
  ),
  "weighted mean": tff.aggregators.MeanFactory,
  "learning's weighted mean": tff.learning.robust_aggregator,
  "learning's weighted compression": tff.learning.compression_aggregator,
  "one of ours": aggregators.FedAvgFactory,
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_accepted(name):
  privacy.check_sums(SUMS[name]())


@pytest.mark.parametrize("name", NO_SUMS)
def test_what_is_no_sum_is_refused_in_one_line(name):
  factory = NO_SUMS[name]()
  for build in (
    lambda: privacy.check_sums(factory),
    lambda: aggregators.TermFactory(sum_factory=factory),
  ):
    with rejected("sum_factory"):
      build()


def test_what_is_no_factory_is_refused():
  with pytest.raises(TypeError, match=r"AggregationFactory.* int"):
    privacy.check_sums(3)
