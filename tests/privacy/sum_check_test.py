"""Tests that factories that return no sum are refused, also if nested."""

from typing import Any

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


# `aggregators/wrappers_test.py` tests each of TFF's factories by itself.
SUMS: dict[str, Any] = {
  "clipped": lambda: tff.aggregators.clipping_factory(
    ADAPTIVE, tff.aggregators.SumFactory()
  ),
  "median": aggregators.TrimmedSumFactory,
  "private, over one": lambda: PRIVATE.gaussian_fixed(0.0, 1.0, 100.0),
}
NO_SUMS: dict[str, Any] = {
  "mean of a secure sum": lambda: MEAN(tff.aggregators.SecureSumFactory(8.0)),
  "clipped mean": lambda: tff.aggregators.clipping_factory(1.0, MEAN()),
  "zeroed and clipped mean": lambda: tff.aggregators.zeroing_factory(
    ADAPTIVE, tff.aggregators.clipping_factory(ADAPTIVE, MEAN())
  ),
  "measured mean": lambda: measured(MEAN()),
  "concatenated mean": lambda: tff.aggregators.concat_factory(MEAN()),
  "adaptive private mean": lambda: PRIVATE.gaussian_adaptive(0.5, 8.0),
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
  with rejected("sum_factory"):
    privacy.check_sums(factory)


def test_what_is_no_factory_is_refused():
  with pytest.raises(TypeError, match=r"AggregationFactory.* int"):
    privacy.check_sums(3)
