import math

import numpy as np
import pytest
from scipy import stats

from tests.experiments.comparing.made_results import clients, seeds
from tff_fair import metrics
from tff_fair.experiments.comparing import measures, paired
from tff_fair.experiments.seeds import Seeds

MEAN = measures.statistic("mean")


def random_seeds(num_seeds, num_clients, seed=0):
  generator = np.random.default_rng(seed)
  return [seeds(*generator.random((num_seeds, num_clients))) for _ in range(2)]


def t_interval(values):
  return stats.t.interval(
    0.95, len(values) - 1, np.mean(values), stats.sem(values)
  )


@pytest.mark.parametrize("name", measures.MEASURES)
def test_a_measure_of_drawn_clients_is_that_of_their_copies(name):
  generator = np.random.default_rng(1)
  one = clients(generator.random(7))
  counts = generator.multinomial(7, np.full(7, 1 / 7), size=20).astype(float)
  found = measures.statistic(name)(one, counts)
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
  for seed in method:  # Clients differ alike in all seeds.
    shared = np.linspace(-0.5, 0.5, 50)
    method[seed] = [clients(method[seed][0].score * 0.2 + 0.4 + shared * 0.8)]
  changes = np.array(
    [method[s][0].score - baseline[s][0].score for s in range(4)]
  )
  # Two-way random effects without replication: mean squares in closed form.
  by_client, by_seed = changes.mean(0), changes.mean(1)
  rest = changes - by_client - by_seed[:, None] + changes.mean()
  noise = (rest**2).sum() / (3 * 49)
  of_clients = max(0.0, by_client.var(ddof=1) - noise / 4) / 50
  of_seeds = by_seed.var(ddof=1) / 4
  variance = of_clients + of_seeds
  freedom = variance**2 / (of_clients**2 / 49 + of_seeds**2 / 3)
  reach = stats.t.ppf(0.975, freedom) * math.sqrt(variance)
  found = paired.difference(MEAN, method, baseline)
  assert found.high - found.estimate == pytest.approx(reach, rel=0.1)
  assert found.estimate - found.low == pytest.approx(reach, rel=0.1)


@pytest.mark.parametrize("name", ["mean", "std", "worst_10"])
def test_intervals_cover_the_truth_with_three_seeds(name):
  generator = np.random.default_rng(7)
  statistic = measures.statistic(name)

  def world(num_seeds, num_clients):
    base = generator.beta(5, 2, num_clients)
    gain = 0.03 * generator.standard_normal(num_clients)
    noise = generator.standard_normal((2, num_seeds, num_clients)) * 0.05
    noise += generator.standard_normal((2, num_seeds, 1)) * 0.02
    both = np.clip([base + gain + noise[0], base + noise[1]], 0, 1)
    return seeds(*both[0]), seeds(*both[1])

  method, baseline = world(1000, 500)
  everybody = np.ones(500)
  truth = np.mean(
    [
      statistic(method[s][0], everybody) - statistic(baseline[s][0], everybody)
      for s in method
    ]
  )
  found = [paired.difference(statistic, *world(3, 20)) for _ in range(200)]
  covered = np.mean([d.low <= truth <= d.high for d in found])
  # 95 % is meant; percentiles of resampled seeds may cover 75 % here.
  assert covered >= 0.89


def test_the_same_arguments_give_the_same_interval():
  method, baseline = random_seeds(3, 10)
  found = [paired.difference(MEAN, method, baseline) for _ in range(2)]
  assert found[0] == found[1]
  opposite = paired.difference(MEAN, baseline, method)
  assert opposite.low == pytest.approx(-found[0].high)
  assert opposite.p_value == pytest.approx(found[0].p_value)


def test_the_order_of_the_seeds_does_not_matter():
  method, baseline = random_seeds(3, 10)
  turned = dict(reversed(method.items()))
  assert paired.difference(MEAN, turned, baseline) == paired.difference(
    MEAN, method, baseline
  )


def test_nothing_is_known_of_one_client_in_one_seed():
  found = paired.difference(MEAN, seeds([0.5]), seeds([0.4]))
  assert found.estimate == pytest.approx(0.1)
  assert all(math.isnan(v) for v in (found.low, found.high, found.p_value))


@pytest.mark.parametrize("num_seeds", [1, 3])
def test_ties_are_sure(num_seeds):
  same = seeds(*[[0.2, 0.5, 0.9]] * num_seeds)
  for name in measures.MEASURES:
    found = paired.difference(measures.statistic(name), same, same)
    assert (found.estimate, found.low, found.high) == (0, 0, 0)
    assert found.p_value == 1


def test_a_difference_without_spread_is_not_sure():
  # Two seeds that happen to agree say little.
  low, high = seeds([0.5] * 3, [0.5] * 3), seeds([0.6] * 3, [0.6] * 3)
  found = paired.difference(MEAN, high, low)
  assert found.estimate == pytest.approx(0.1)
  assert math.isnan(found.p_value)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_losses_that_are_no_numbers_give_no_interval(bad):
  method = {0: [clients([0.5, 0.6], losses=[bad, 1.0])]}
  baseline = seeds([0.5, 0.4])
  for name in ("loss", "loss_std", "loss_max"):
    found = paired.difference(measures.statistic(name), method, baseline)
    assert not math.isfinite(found.estimate)
    assert math.isnan(found.low)
    assert math.isnan(found.p_value)
  # Their accuracies count all the same.
  assert paired.difference(MEAN, method, baseline).estimate == pytest.approx(
    0.1
  )


def test_common_seeds_and_clients_count():
  method = {
    0: [clients([0.9, 0.5, 0.7], ids=[1, 2, 5])],
    1: [clients([0.1])],
    2: [clients([0.3, 0.3], ids=[7, 8])],
  }
  baseline = {
    0: [clients([0.4, 0.5, 0.1], ids=[2, 5, 9])],
    2: [clients([0.3], ids=[6])],
    3: [clients([0.1])],
  }
  found = paired.difference(MEAN, method, baseline)
  assert found.estimate == pytest.approx(((0.5 - 0.4) + (0.7 - 0.5)) / 2)
  assert (found.num_seeds, found.num_clients) == (1, 2)


def test_without_common_seeds_there_is_no_difference():
  first, second = Seeds(0, 0, 0), Seeds(1, 1, 1)
  method, baseline = {first: [clients([0.5])]}, {second: [clients([0.4])]}
  found = paired.difference(MEAN, method, baseline)
  assert math.isnan(found.estimate)
  assert (found.num_seeds, found.num_clients) == (0, 0)


def test_seeds_with_other_clients_share_no_variance():
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
  known = paired.remembering(counted)
  for method in methods:
    found = paired.difference(known, method, baseline)
    assert found == paired.difference(MEAN, method, baseline)
  # Once for the draws and once for the observed values, of each; the latter
  # have weights of their own in each comparison.
  drawn = 3 * (len(methods) + 1)
  assert len(calls) == drawn + 2 * 3 * len(methods)


def test_differences_are_scaled():
  found = paired.difference(MEAN, *random_seeds(2, 5))
  scaled = found.scaled(100)
  assert scaled.high == pytest.approx(100 * found.high)
  assert scaled.p_value == found.p_value


@pytest.mark.parametrize(
  ("p_values", "corrected"),
  [
    ([], []),
    ([0.04], [0.04]),
    # Holm's own steps: 3 x 0.01, 2 x 0.02, 1 x 0.03, never falling.
    ([0.03, 0.01, 0.02], [0.04, 0.03, 0.04]),
    ([0.5, 0.6], [1.0, 1.0]),
    ([math.nan, 0.02, 0.03], [math.nan, 0.04, 0.04]),
    ([math.nan], [math.nan]),
    ([0.0, 0.0], [0.0, 0.0]),
  ],
)
def test_holm(p_values, corrected):
  assert paired.holm(p_values) == pytest.approx(corrected, nan_ok=True)
