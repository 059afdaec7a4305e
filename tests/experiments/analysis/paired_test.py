import math

import numpy as np
import pytest
from scipy import stats

from tests.experiments.analysis.example_results import clients, seeds
from tff_fair import metrics
from tff_fair.experiments.analysis import (
  client_results,
  measures,
  paired,
  questions,
)
from tff_fair.experiments.spec.seeds import Seeds


def random_seeds(num_seeds, num_clients, seed=0):
  generator = np.random.default_rng(seed)
  return [seeds(*generator.random((num_seeds, num_clients))) for _ in range(2)]


def statistic_of(name):
  statistic = measures.MEASURES[name].statistic
  assert statistic is not None
  return statistic


MEAN = statistic_of("mean")
THESE = questions.THESE_CLIENTS


def t_interval(values):
  return stats.t.interval(
    0.95, len(values) - 1, np.mean(values), stats.sem(values)
  )


@pytest.mark.parametrize("name", measures.MEASURES)
def test_a_measure_of_drawn_clients_is_that_of_their_copies(name):
  generator = np.random.default_rng(1)
  one = clients(generator.random(7))
  counts = generator.multinomial(7, np.full(7, 1 / 7), size=20).astype(float)
  found = statistic_of(name)(one, counts)
  assert found.shape == (20,)
  for value, times in zip(found, counts.astype(int), strict=True):
    accuracy, loss, examples = (np.repeat(v, times) for v in one[1:4])
    errors, by_examples = (
      1 - accuracy,
      np.repeat(1 - accuracy, examples.astype(int)),
    )
    summary = metrics.fairness_summary(accuracy, examples)
    expected = {
      **{f"weighted_{name}": value for name, value in summary.items()},
      **metrics.fairness_summary(accuracy),
      "weighted": np.average(accuracy, weights=examples),
      "error": errors.mean(),
      "error_relative_std": errors.std() / errors.mean(),
      "weighted_error": by_examples.mean(),
      "weighted_error_relative_std": by_examples.std() / by_examples.mean(),
      "loss": loss.mean(),
      "loss_std": loss.std(),
      "loss_max": loss.max(),
    }
    assert value == pytest.approx(expected[name], abs=1e-12)


def test_the_mean_over_one_seed_is_a_paired_t_test():
  # The bootstrap of a mean has a variance in closed form.
  method, baseline = random_seeds(1, 40)
  found = paired.difference(MEAN, method, baseline)
  # With the question "these_clients", one seed gives no interval.
  assert is_unknown(paired.difference(MEAN, method, baseline, question=THESE))
  change = method[0][0].score - baseline[0][0].score
  expected = stats.ttest_1samp(change, 0)
  low, high = t_interval(change)
  assert found.estimate == pytest.approx(change.mean())
  assert (found.num_seeds, found.num_clients) == (1, 40)
  width = high - low
  assert found.low == pytest.approx(low, abs=0.05 * width)
  assert found.high == pytest.approx(high, abs=0.05 * width)
  assert found.p_value == pytest.approx(expected.pvalue, abs=0.05)


def test_one_client_leaves_a_paired_t_test_over_seeds():
  method, baseline = random_seeds(5, 1)
  change = [method[s][0].score[0] - baseline[s][0].score[0] for s in range(5)]
  expected = stats.ttest_1samp(change, 0)
  low, high = t_interval(change)
  found = paired.difference(MEAN, method, baseline)
  assert found.low == pytest.approx(low)
  assert found.high == pytest.approx(high)
  assert found.p_value == pytest.approx(expected.pvalue)


def test_both_parts_of_the_variance_are_those_of_an_analysis_of_variance():
  method, baseline = random_seeds(4, 50, seed=3)
  # Clients differ in the same way with all seeds.
  for seed in method:
    shared = np.linspace(-0.5, 0.5, 50)
    method[seed] = [clients(method[seed][0].score * 0.2 + 0.4 + shared * 0.8)]
  changes = np.array(
    [method[s][0].score - baseline[s][0].score for s in range(4)]
  )
  # Two-way random effects without replication have mean squares in closed form.
  by_client, by_seed = changes.mean(0), changes.mean(1)
  rest = changes - by_client - by_seed[:, None] + changes.mean()
  noise = (rest**2).sum() / (3 * 49)
  of_clients = max(0.0, by_client.var(ddof=1) - noise / 4) / 50
  of_seeds = by_seed.var(ddof=1) / 4
  # Howe's limits: each part is scaled by the t of its own degrees of freedom.
  of_seeds, of_clients = (
    stats.t.ppf(0.975, freedom) ** 2 * variance
    for freedom, variance in ((3, of_seeds), (49, of_clients))
  )
  reach = math.sqrt(of_clients + of_seeds)
  found = paired.difference(MEAN, method, baseline)
  assert found.high - found.estimate == pytest.approx(reach, rel=0.1)
  assert found.estimate - found.low == pytest.approx(reach, rel=0.1)


def test_the_same_results_in_any_order_give_the_same_interval():
  method, baseline = random_seeds(3, 10)
  found = paired.difference(MEAN, method, baseline)
  assert paired.difference(MEAN, method, baseline) == found
  turned = dict(reversed(method.items()))
  assert paired.difference(MEAN, turned, baseline) == found
  opposite = paired.difference(MEAN, baseline, method)
  assert opposite.low == pytest.approx(-found.high)
  assert opposite.p_value == pytest.approx(found.p_value)


def is_unknown(found):
  return all(map(math.isnan, (found.low, found.high, found.p_value)))


@pytest.mark.parametrize("num_seeds", [1, 3])
@pytest.mark.parametrize("values", [[0.2, 0.5, 0.9], [1.0] * 3])
def test_equal_results_are_not_evidence(num_seeds, values):
  same = seeds(*[values] * num_seeds)
  for name in measures.MEASURES:
    found = paired.difference(statistic_of(name), same, same)
    assert found.estimate == 0
    assert is_unknown(found)


def rounded(correct, num_examples=12):
  """Returns accuracies in float32, as in an evaluation."""
  return np.asarray(correct, np.float32) / np.float32(num_examples)


@pytest.mark.parametrize(
  ("method", "baseline"),
  [
    (seeds([0.6]), seeds([0.5])),  # One client, one seed.
    # Two seeds that happen to agree are little evidence.
    (seeds([0.6] * 3, [0.6] * 3), seeds([0.5] * 3, [0.5] * 3)),
    (seeds(rounded([11]), rounded([7])), seeds(rounded([7]), rounded([3]))),
  ],
)
def test_a_difference_without_spread_is_not_sure(method, baseline):
  found = paired.difference(MEAN, method, baseline)
  assert found.estimate == pytest.approx(
    method[0][0].score[0] - baseline[0][0].score[0]
  )
  assert is_unknown(found)


def test_seeds_on_one_value_of_a_grid_leave_the_clients_variance():
  # Three clients with 12 examples each. With each seed, the method has 4 more
  # of the 36 right than the baseline.
  method = seeds(rounded([9, 6, 11]), rounded([8, 8, 7]))
  baseline = seeds(rounded([5, 7, 10]), rounded([4, 6, 9]))
  changes = np.array([[4, -1, 1], [4, 2, -2]]) / 12
  found = paired.difference(MEAN, method, baseline)
  assert found.estimate == pytest.approx(4 / 36)
  # The clients' part is the variance of their mean within a seed, divided by
  # the number of seeds. The seeds' part is only the rounding of float32.
  floor = changes.var(1, ddof=1).mean() / 3 / 2
  assert found.standard_error**2 == pytest.approx(floor, rel=0.1)
  assert found.parts[-1].degrees_of_freedom == 2
  expected = 2 * stats.t.sf(found.estimate / found.standard_error, 2)
  assert found.p_value == pytest.approx(expected)
  assert found.low < 0 < found.high
  # With the question "these_clients", two seeds that agree are not evidence.
  assert is_unknown(paired.difference(MEAN, method, baseline, question=THESE))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_float32_rounding_is_no_variance(scale):
  # With both seeds, the only client's accuracy differs by 1/8, up to rounding.
  eps = np.finfo(np.float32).eps
  method = seeds([0.625 * scale], [0.625 * scale * (1 + eps)])
  baseline = seeds([0.5 * scale], [0.5 * scale])
  assert is_unknown(paired.difference(MEAN, method, baseline))
  # A difference beyond rounding counts, in any unit.
  method = seeds([0.625 * scale], [0.625 * scale * (1 + 1e-4)])
  assert paired.difference(MEAN, method, baseline).low > 0


def test_the_step_of_a_grid_is_in_the_standard_error():
  changes = np.array([1, 1, 1, 1, 2]) / 6
  ((variance, freedom),) = paired.variance_parts(changes, None, 1, 1e-7)
  expected = (changes.var(ddof=1) + 1 / 6**2 / 6) / 5
  assert variance == pytest.approx(expected)
  assert freedom == 4
  # If all values differ, they are not on a grid.
  apart = changes + np.arange(5) / 50
  ((variance, _),) = paired.variance_parts(apart, None, 1, 1e-7)
  assert math.sqrt(variance) == pytest.approx(stats.sem(apart))


def test_each_part_of_the_variance_has_its_own_degrees_of_freedom():
  changes = np.array([-1.0, 1.0, 3.0])
  covariance = np.full((3, 3), 5.0)
  parts = paired.variance_parts(changes, covariance, 21, 1e-7)
  np.testing.assert_allclose(parts, [(4 / 3, 2), (5.0, 20)])
  found = paired.Difference(12.0, parts, 3, 21)
  for factor in (1, 2):
    level = 0.05 / factor
    squares = [stats.t.isf(level / 2, f) ** 2 * v for v, f in parts]
    ends = 12 + math.sqrt(sum(squares)) * np.array([-1, 1])
    corrected = found.corrected(factor)
    np.testing.assert_allclose([corrected.low, corrected.high], ends)
  # An interval at the level of the p-value ends at 0.
  touching = found.corrected(0.05 / found.p_value)
  assert touching.low == pytest.approx(0, abs=1e-6)
  one = paired.Difference(12.0, parts[:1], 3, 21)
  expected = 2 * stats.t.sf(12 / math.sqrt(4 / 3), 2)
  assert one.p_value == pytest.approx(expected)
  assert found.p_value > expected


def vehicle():
  """Returns three seeds of 21 clients, who all gain from the method.

  The worst 10 % are three clients. The mean of their gains is 19.5, 26.1 and
  20.0 points with the three seeds, but their single gains differ widely.
  """
  generator = np.random.default_rng(0)
  baseline = generator.uniform(0.9, 0.95, (3, 21))
  baseline[:, :3] = 0.25, 0.4, 0.45
  gain = generator.uniform(0.001, 0.04, (3, 21))
  gain[:, :3] = np.outer([0.195, 0.261, 0.2], [2.55, 0.3, 0.15])
  return seeds(*(baseline + gain)), seeds(*baseline)


def test_these_clients_have_an_interval_of_the_seeds():
  method, baseline = vehicle()
  worst = statistic_of("worst_10")
  changes = [
    float(worst(method[s][0], np.ones(21)) - worst(baseline[s][0], np.ones(21)))
    for s in range(3)
  ]
  assert np.round(changes, 3).tolist() == [0.195, 0.261, 0.2]
  these, others = (
    paired.difference(worst, method, baseline, question=question)
    for question in questions.NAMES
  )
  low, high = t_interval(changes)
  assert (these.low, these.high) == pytest.approx((low, high))
  assert these.p_value == pytest.approx(stats.ttest_1samp(changes, 0).pvalue)
  assert these.p_value < 0.05
  assert (others.num_seeds, others.num_clients) == (3, 21)
  # If the clients' part had 2 degrees of freedom too, the interval would be
  # wider.
  single = others.standard_error * stats.t.ppf(0.975, 2)
  assert these.high - low < others.high - others.low < 2 * single


@pytest.mark.parametrize(
  ("name", "most"),
  [("mean", 1), ("min", 1), ("std", 0.5), ("jain", 1), ("angle", 90)],
)
def test_intervals_end_at_what_is_possible(name, most):
  measure = measures.MEASURES[name]
  assert measure.span == most
  method, baseline = (
    seeds([0.1, 0.9], [0.5, 0.4]),
    seeds([0.9, 0.2], [0.2, 0.3]),
  )
  found = paired.difference(
    statistic_of(name), method, baseline, span=measure.span
  )
  assert -most <= found.low <= found.estimate <= found.high <= most
  scaled = found.scaled(measure.scale)
  assert scaled.high == pytest.approx(found.high * measure.scale)
  assert scaled.p_value == pytest.approx(found.p_value)
  assert math.isinf(measures.MEASURES["loss"].span)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_losses_that_are_no_numbers_give_no_interval(bad):
  method = {0: [clients([0.5, 0.6], losses=[bad, 1.0])]}
  baseline = seeds([0.5, 0.4])
  for name in ("loss", "loss_std", "loss_max"):
    found = paired.difference(statistic_of(name), method, baseline)
    assert not math.isfinite(found.estimate)
    assert math.isnan(found.low)
    assert math.isnan(found.p_value)
  # The difference of accuracies is still known.
  assert paired.difference(MEAN, method, baseline).estimate == pytest.approx(
    0.1
  )


def test_seeds_with_other_clients_share_no_variance():
  nothing = paired.difference(MEAN, {of_seed(0): [clients([0.5])]}, {})
  assert math.isnan(nothing.estimate)
  assert (nothing.num_seeds, nothing.num_clients) == (0, 0)
  generator = np.random.default_rng(4)
  ids = [np.arange(20), np.arange(20, 40)]
  method, baseline = (
    {s: [clients(generator.random(20), ids=ids[s])] for s in range(2)}
    for _ in range(2)
  )
  found = paired.difference(MEAN, method, baseline)
  assert found.num_clients == 40
  assert found.low < found.estimate < found.high


def test_evaluations_are_averaged():
  method = {0: [clients([0.5, 0.7]), clients([0.7, 0.7])]}
  baseline = {0: [clients([0.2, 0.2]), clients([0.4, 0.4])]}
  found = paired.difference(MEAN, method, baseline)
  assert found.estimate == pytest.approx(0.65 - 0.3)


def test_a_measure_that_remembers_gives_the_same():
  calls = []

  def counted(one, weights):
    calls.append(one)
    return MEAN(one, weights)

  baseline, *methods = (random_seeds(3, 10, seed)[0] for seed in range(4))
  known = paired.memoize(counted)
  for method in methods:
    found = paired.difference(known, method, baseline)
    assert found == paired.difference(MEAN, method, baseline)
  # With drawn weights of clients, a value is computed once for each method and
  # seed; with the weights of a comparison, once for each comparison.
  drawn = 3 * (len(methods) + 1)
  assert len(calls) == drawn + 2 * 3 * len(methods)


@pytest.mark.parametrize(
  ("p_values", "factors"),
  [
    ([], []),
    ([0.04], [1]),
    # Holm's p-values are 3 x 0.01, 2 x 0.02 and 1 x 0.03, which is raised to
    # 0.04.
    ([0.03, 0.01, 0.02], [4 / 3, 3, 2]),
    ([0.5, 0.6], [2, 5 / 3]),
    # A comparison without a p-value counts as one comparison, too.
    ([math.nan, 0.02, 0.03], [1, 3, 2]),
    ([math.nan], [1]),
    ([0.0, 0.0], [2, 1]),
  ],
)
def test_holm(p_values, factors):
  assert paired.holm_factors(p_values) == pytest.approx(factors)


# Tests of the seeds and clients that two methods share.


def of_seed(seed):
  return Seeds(seed, seed, seed)


def test_pairs_have_the_seeds_and_clients_that_all_evaluations_have():
  method = {
    of_seed(2): [clients([0.3, 0.3], ids=[7, 8])],
    of_seed(0): [
      clients([0.9, 0.5, 0.7], ids=[1, 2, 5]),
      clients([0.1], ids=[5]),
    ],
    of_seed(1): [clients([0.1])],
  }
  baseline = {
    of_seed(2): [clients([0.2, 0.1], ids=[8, 9])],
    of_seed(0): [clients([0.4, 0.5], ids=[2, 5])],
    of_seed(3): [clients([0.1])],
  }
  first, second = client_results.pairs(method, baseline)
  assert (first.ids.tolist(), second.ids.tolist()) == ([5], [8])
  assert [e.score.tolist() for e in first.method] == [[0.7], [0.1]]
  assert [e.score.tolist() for e in second.baseline] == [[0.2]]
  values = first.values(lambda e, w: (w * e.score).sum(-1), np.ones((3, 1)))
  np.testing.assert_allclose(values, [[0.4] * 3, [0.5] * 3])


def test_seeds_without_any_of_some_clients_are_left_out():
  method = {
    of_seed(0): [clients([0.1, 0.2])],
    of_seed(1): [clients([0.3], ids=[9])],
  }
  found = client_results.subset(method, [1])
  assert [e.score.tolist() for e in found[of_seed(0)]] == [[0.2]]
  assert found.keys() == {of_seed(0)}
  # Results with all clients remain the same object, for the caches of measures.
  first = of_seed(0)
  assert client_results.subset(method, [0, 1])[first][0] is method[first][0]
