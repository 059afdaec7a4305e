import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tff_fair.experiments.analysis import federations, paired
from tff_fair.experiments.analysis.federations import Result
from tff_fair.experiments.analysis.paired import Difference, Part
from tff_fair.experiments.presenting import fair_bench
from tff_fair.experiments.spec.scores import ACCURACY, BY_NAME, RMSE

pytestmark = pytest.mark.pure


def _rows(validation, test, score="accuracy"):
  """Returns rows of validation and test scores, both [settings, clients]."""
  shape = np.shape(validation)
  setting, client = np.indices(shape)
  return pd.DataFrame(
    {
      "setting": setting.ravel(),
      "client": [f"c{k}" for k in client.ravel()],
      "client_id": client.ravel(),
      "num_examples": 10,
      "model_seed": 0,
      score: np.ravel(test),
      f"validation_{score}": np.ravel(validation),
    }
  )


def test_each_criterion_chooses_on_validation_rows_alone():
  validation = [[0.9, 0.9, 0.1], [0.5, 0.5, 0.5], [0.9, 0.9, 0.2]]
  rows = _rows(validation, [[0, 0, 1], [1, 1, 1], [0.3, 0.4, 0.5]])
  assert federations.choose(rows, ACCURACY, "mean") == 2
  assert federations.choose(rows, ACCURACY, "worst_10") == 1
  chosen = federations.chosen_rows(rows, ACCURACY)
  assert chosen["setting_mean"].tolist() == [2] * 3
  assert chosen["score_mean"].tolist() == [0.3, 0.4, 0.5]
  assert chosen["score_worst_10"].tolist() == [1, 1, 1]


def test_scores_are_means_over_the_model_seeds_of_the_chosen_setting():
  rows = _rows([[0.9, 0.9], [0.5, 0.5]], [[0.1, 0.2], [0.3, 0.4]])
  again = rows[rows["setting"] == 0].assign(
    model_seed=1, accuracy=[0.5, np.nan], validation_accuracy=0.0
  )
  chosen = federations.chosen_rows(pd.concat([rows, again]), ACCURACY)
  assert chosen["setting_mean"].tolist() == [0, 0]
  assert chosen["client"].tolist() == ["c0", "c1"]
  np.testing.assert_allclose(chosen["score_mean"], [0.3, np.nan])


def test_of_errors_the_smaller_is_chosen_and_one_without_an_end_never():
  errors = [[np.nan, 1.0], [3.0, 1.0], [2.0, 2.0], [np.inf, 0.0]]
  rows = _rows(errors, np.zeros([4, 2]), "rmse")
  assert federations.choose(rows, RMSE, "mean") == 1  # Setting 2 is tied.
  assert federations.choose(rows, RMSE, "worst_10") == 2
  nothing = _rows([[np.nan, 1.0], [np.inf, 1.0]], np.zeros([2, 2]), "rmse")
  assert federations.choose(nothing, RMSE, "mean") == 0


def test_clients_without_a_score_do_not_choose():
  auc = BY_NAME["auc"]
  rows = _rows([[0.9, np.nan], [0.5, 0.5]], np.ones([2, 2]), "auc")
  assert federations.choose(rows, auc, "mean") == 0


def _results(gains, *, num_clients=6, seeds=3, score="accuracy", noise=0.01):
  """Returns results of FedAvg, and of methods that exceed it by `gains`."""
  rng = np.random.default_rng(0)
  level = rng.uniform(0.3, 0.6, [seeds, num_clients])
  parts = []
  for method, gain in {"fedavg": 0.0, **gains}.items():
    values = level + gain + noise * rng.normal(size=level.shape)
    seed, client = np.indices(level.shape)
    parts.append(
      pd.DataFrame(
        {
          "federation": "made_up",
          "score": score,
          "method": method,
          "seed": seed.ravel(),
          "client": [f"c{k}" for k in client.ravel()],
          "num_examples": 10,
          "score_mean": values.ravel(),
          "score_worst_10": values.ravel(),
        }
      )
    )
  return pd.concat(parts, ignore_index=True)


def test_a_federation_is_compared_as_its_seeds_and_clients_say():
  results = _results({"better": 0.2, "same": 0.0, "worse": -0.2})
  found = federations.compare(
    results, columns=["mean"], question="these_clients"
  )
  assert [r.verdict for r in found] == ["gain", "neither", "loss"]
  wide = results.pivot_table(
    index=["method", "seed"], columns="client", values="score_worst_10"
  ).mean(axis=1)
  p_values = []
  for result in found:
    changes = (wide[result.method] - wide["fedavg"]).to_numpy()
    assert result.difference.estimate == pytest.approx(100 * changes.mean())
    assert result.gain == pytest.approx(100 * changes.mean())
    p_values.append(stats.ttest_1samp(changes, 0).pvalue)
  order = np.argsort(p_values)
  holm = np.maximum.accumulate(np.array(p_values)[order] * [3, 2, 1])
  assert [found[k].p_holm for k in order] == pytest.approx(
    np.minimum(holm, 1), rel=1e-6
  )


def test_one_seed_shows_no_gain_or_loss():
  results = _results({"better": 0.2})
  (found,) = federations.compare(results, columns=["mean"])
  assert found.verdict == "gain"
  one = results[results["seed"] == 0]
  (found,) = federations.compare(one, columns=["mean"])
  assert found.verdict == "neither"
  assert found.p_holm < 0.05


def test_of_errors_less_is_a_gain():
  results = _results({"other": -0.2}, score="rmse")
  (found,) = federations.compare(results, columns=["worst_10"])
  assert found.difference.estimate == pytest.approx(-0.2, abs=0.02)
  assert found.gain == -found.difference.estimate


def test_the_better_fedavg_is_the_baseline_of_each_measure():
  equal = federations.EQUAL_WEIGHTS
  results = _results({equal: 0.1, "other": 0.3})
  found = federations.compare(
    results, federations.BETTER_FEDAVG, columns=["mean"]
  )
  assert {r.method for r in found} == {"fedavg", "other"}
  gains = {r.method: r.gain for r in found}
  assert gains["other"] == pytest.approx(20, abs=1.5)
  assert gains["fedavg"] == pytest.approx(-10, abs=1.5)


def _result(gain, *, federation="f", method="m", p_value=1.0):
  difference = Difference(gain, (Part(1.0, 2.0),), 3, 6)
  return Result(
    federation, method, "worst_10", "rmse", 50.0, difference, p_value, gain
  )


@pytest.mark.parametrize("size", [2, 6, 14, 30])
def test_signed_ranks_are_those_of_scipy(size):
  gains = np.random.default_rng(size).normal(0.4, 1, size)
  method = "exact" if size <= 16 else "approx"
  expected = stats.wilcoxon(gains, zero_method="pratt", method=method)
  assert federations.signed_rank_p(gains) == pytest.approx(expected.pvalue)


def test_of_ties_and_zeros_all_signs_are_counted():
  # The ranks are 1, 2.5, 2.5 and 4; the rank of 0 is dropped. Of the eight sums
  # of +-2.5, +-2.5 and +-4, two are as far from 0 as 2.5 + 2.5 + 4 = 9.
  assert federations.signed_rank_p([0.0, 1.0, 1.0, 3.0]) == 2 / 8
  # 2.5 + 2.5 - 4 = 1 is the smallest possible sum.
  assert federations.signed_rank_p([0.0, 1.0, 1.0, -3.0]) == 6 / 8 + 2 / 8


def test_signed_ranks_need_two_federations_and_a_difference():
  assert np.isnan(federations.signed_rank_p([1.0]))
  assert federations.signed_rank_p([0.0, 0.0, 0.0]) == 1.0
  # All five have the same sign, as in 2 of the 2^5 sign patterns.
  assert federations.signed_rank_p([1, 2, 3, 4, 5]) == 2 / 2**5


def test_over_federations_each_counts_once_in_its_spread():
  results, spreads = [], {}
  rng = np.random.default_rng(2)
  for k in range(8):
    scale, gain = rng.uniform(1, 9), rng.normal(1, 1)
    spreads[f"f{k}"] = scale
    p_value = 0.01 if k < 3 else 0.2
    results += [
      _result(gain * scale, federation=f"f{k}", p_value=p_value),
      _result(-scale, federation=f"f{k}", method="n", p_value=0.01),
    ]
  first, second = federations.summarize_methods(results, spreads)
  gains = [r.gain / spreads[r.federation] for r in results if r.method == "m"]
  assert first.median == pytest.approx(np.median(gains))
  assert (second.gains, second.losses) == (0, 8)
  assert first.gains + first.losses == 3
  p_values = [first.p_value, second.p_value]
  factors = np.array(paired.holm_factors(p_values))
  assert [first.p_holm, second.p_holm] == pytest.approx(factors * p_values)


@pytest.mark.parametrize("error", [np.nan, np.inf, 1e9])
def test_a_method_whose_error_is_huge_or_not_finite_has_diverged(error):
  results = _results({"m": 0.0, "n": 0.1}, score="rmse")
  is_first = (results["method"] == "m") & (results["seed"] == 0)
  results.loc[is_first, "score_worst_10"] = error
  found = federations.compare(results, columns=["worst_10"])
  assert [r.verdict for r in found] == ["diverged", "loss"]
  both = [*found, *(r._replace(federation="g") for r in found)]
  spreads = dict.fromkeys(["made_up", "g"], 1.0)
  first, _ = federations.summarize_methods(both, spreads)
  assert (first.diverged, first.losses) == (2, 0)
  assert first.median < -1e6
  assert first.p_value == 0.5
  table = fair_bench.method_table([first])
  assert "| m | 2 | 0 | 0 | 0 | 2 |" in table


def test_a_worst_accuracy_of_0_is_not_a_divergence():
  results = _results({"m": 0.2})
  results["score_worst_10"] -= results["score_worst_10"].min()
  (found,) = federations.compare(results, columns=["worst_10"])
  assert found.verdict == "gain"


@pytest.mark.parametrize("error", [np.nan, np.inf])
def test_a_baseline_that_diverged_is_none(error):
  results = _results({federations.EQUAL_WEIGHTS: 0.0, "m": 0.1}, score="rmse")
  results.loc[results["method"] == "fedavg", "score_worst_10"] = error
  assert federations.compare(results, columns=["worst_10"]) == []
  found = federations.compare(
    results, federations.BETTER_FEDAVG, columns=["worst_10"]
  )
  assert [r.verdict for r in found] == ["diverged", "loss"]
  assert np.isfinite(federations.spreads(results)["made_up"])


def test_without_a_fedavg_nothing_is_compared():
  results = _results({"m": 0.1})
  others = results[results["method"] != "fedavg"]
  assert federations.compare(others, federations.BETTER_FEDAVG) == []


def test_a_square_that_overflows_is_not_an_error():
  results = _results({"m": 0.1}, score="rmse")
  results.loc[results["method"] == "m", "score_worst_10"] *= 1e200
  (found,) = federations.compare(results, columns=["worst_10"])
  assert found.verdict == "diverged"


def test_spreads_are_those_of_the_baselines_clients():
  results = _results({"other": 0.2})
  of_fedavg = results[results["method"] == "fedavg"]
  by_seed = of_fedavg.pivot_table(
    index="seed", columns="client", values="score_worst_10"
  )
  expected = 100 * by_seed.to_numpy().std(axis=1).mean()
  assert federations.spreads(results)["made_up"] == pytest.approx(expected)
