"""TFF's factories around and inside ours: each cell of docs/tff.md's table."""

import collections
import functools
import re
from typing import Any

import numpy as np
import pytest
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from tests import source_tree
from tests.refusals import rejected
from tests.summing import rounds
from tff_fair import aggregators

pytestmark = pytest.mark.usefixtures("secure_sums")

stock = tff.aggregators
UPDATE = tff.to_type(
  collections.OrderedDict(
    kernel=tff.TensorType(np.float32, [2, 3]),
    bias=tff.TensorType(np.float32, [3]),
  )
)
NORM = 100.0  # Longer than any client's update.
MEANS = (
  "dp_aggregator",
  "robust_aggregator",
  "compression_aggregator",
  "secure_aggregator",
  "ddp_secure_aggregator",
)


def measured(inner):
  return stock.add_measurements(
    inner, server_measurement_fn=lambda total: {"result": total}
  )


def private(inner):
  query = tfp.GaussianSumQuery(l2_norm_clip=NORM, stddev=0.0)
  return stock.DifferentiallyPrivateFactory(query, inner)


def of_learning(name, *args):
  return getattr(tff.learning, name)(*args, weighted=False)


# TFF's wrappers by their names in the table, as functions of the inner factory;
# `None` if a wrapper takes no inner factory.
AROUND: dict[str, Any] = {
  "clipping_factory": lambda inner: stock.clipping_factory(NORM, inner),
  "zeroing_factory": lambda inner: stock.zeroing_factory(NORM, inner),
  "add_measurements": measured,
  "concat_factory": stock.concat_factory,
  "HadamardTransformFactory": stock.HadamardTransformFactory,
  "DiscreteFourierTransformFactory": stock.DiscreteFourierTransformFactory,
  "EncodedSumFactory": None,
  "SecureSumFactory": None,
  "SumFactory": None,
  "SecureModularSumFactory": None,
  "UnweightedReservoirSamplingFactory": None,
  "MeanFactory": stock.MeanFactory,
  "UnweightedMeanFactory": stock.UnweightedMeanFactory,
  "DifferentiallyPrivateFactory": private,
  "as_weighted_aggregator": stock.as_weighted_aggregator,
  **dict.fromkeys(MEANS),
}
# TFF's factories by name, to pass as `sum_factory`.
INSIDE: dict[str, Any] = {
  "EncodedSumFactory": stock.EncodedSumFactory.quantize_above_threshold,
  "SecureSumFactory": lambda: stock.SecureSumFactory(64.0),
  "SumFactory": stock.SumFactory,
  "SecureModularSumFactory": lambda: stock.SecureModularSumFactory(8),
  "UnweightedReservoirSamplingFactory": lambda: (
    stock.UnweightedReservoirSamplingFactory(3)
  ),
  "MeanFactory": stock.MeanFactory,
  "UnweightedMeanFactory": stock.UnweightedMeanFactory,
  "DifferentiallyPrivateFactory": lambda: (
    stock.DifferentiallyPrivateFactory.gaussian_fixed(0.0, 4, NORM)
  ),
  "dp_aggregator": lambda: tff.learning.dp_aggregator(0.0, 4),
  "ddp_secure_aggregator": lambda: tff.learning.ddp_secure_aggregator(0.3, 4),
  **{
    name: lambda name=name: of_learning(name)
    for name in ("robust_aggregator", "compression_aggregator")
  },
  "secure_aggregator": lambda: of_learning("secure_aggregator"),
}


def table():
  """Returns the cells "around" and "inside" of the table, by TFF's names."""
  text = (source_tree.ROOT / "docs" / "tff.md").read_text()
  section = text.split("\n## Wrappers of TFF\n")[1].split("\n## ")[0]
  rows = {}
  for line in section.splitlines():
    if line.startswith("| `"):
      names, around, inside, _ = line.strip("|").split("|")
      cells = around.strip(), inside.strip()
      rows |= dict.fromkeys(re.findall(r"`(?:\w+\.)*(\w+)`", names), cells)
  return rows


ROWS = table()


def clients():
  rng = np.random.default_rng(0)
  return [
    rounds.Client(
      rng.normal(size=9), loss=1 + k, num_examples=k + 1, client_id=k
    )
    for k in range(4)
  ]


def structured(update):
  kernel, bias = np.split(np.float32(update), [6])
  return collections.OrderedDict(kernel=kernel.reshape(2, 3), bias=bias)


def assert_a_round_is_that_of_numpy(factory):
  process = rounds.create(factory, UPDATE)
  cohort = clients()
  output = process.next(
    process.initialize(),
    [structured(c.update) for c in cohort],
    [c.signals() for c in cohort],
  )
  weights = np.array([c.num_examples * np.exp(c.loss) for c in cohort])
  expected = weights / weights.sum() @ [c.update for c in cohort]
  np.testing.assert_allclose(
    np.concatenate([np.ravel(v) for v in output.result.values()]),
    expected,
    atol=1e-5,
  )


def test_the_table_has_all_factories():
  assert {*ROWS} == {*AROUND}
  assert {cell for cells in ROWS.values() for cell in cells} == {"yes", "no"}


@pytest.mark.parametrize("name", [n for n, build in AROUND.items() if build])
def test_a_wrapper_around_ours_does_what_the_table_says(name):
  build = AROUND[name]
  ours = aggregators.TermFactory(t=1.0)
  if ROWS[name][0] == "yes":
    assert_a_round_is_that_of_numpy(build(ours))
  else:
    with pytest.raises(TypeError, match=r"UnweightedAggregationFactory.*Term"):
      build(ours)


def test_the_table_says_no_where_a_wrapper_takes_no_factory():
  assert all(ROWS[name][0] == "no" for name, b in AROUND.items() if b is None)


@pytest.mark.parametrize("name", AROUND)
def test_a_factory_inside_ours_does_what_the_table_says(name):
  around_sum = functools.partial(
    AROUND[name] or pytest.fail, stock.SumFactory()
  )
  inner = INSIDE.get(name, around_sum)()
  if ROWS[name][1] == "yes":
    assert_a_round_is_that_of_numpy(
      aggregators.TermFactory(t=1.0, sum_factory=inner)
    )
    return
  with rejected("sum_factory"):
    aggregators.TermFactory(t=1.0, sum_factory=inner)


def test_a_rule_of_the_updates_themselves_has_no_sum():
  with rejected("sum_factory", "clipping_factory"):
    aggregators.AdaFedFactory(sum_factory=stock.SumFactory())
