"""Tests of a spread's sampling noise, in runs, texts and comparisons."""

import math

import numpy as np
import pytest

from tests.experiments import run_folders
from tff_fair import experiments, metrics
from tff_fair.experiments.analysis import sampling_noise
from tff_fair.experiments.presenting.report import task_runs, verdict_section
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.texts import fairness_table, sentences

# Clients have ten test examples each, as in the handmade runs.
ACCURACIES = (0.2, 0.9, 0.8, 1.0, 0.7)
SHARE = (
  0.8 * np.mean([a * (1 - a) / 9 for a in ACCURACIES]) / np.var(ACCURACIES)
)


def test_the_noise_of_a_run_is_that_of_the_metrics():
  noise = sampling_noise.of_scores(np.float32(ACCURACIES), [10] * 5)
  found = metrics.sampling_noise(ACCURACIES, [10] * 5)
  assert noise == pytest.approx(
    {
      "std": found.std,
      "true_std": found.true_std,
      "share": SHARE,
      "median_examples": 10,
    }
  )


@pytest.mark.parametrize(
  ("accuracies", "num_examples"),
  [
    ([0.5, 0.512], [10, 10]),  # Accuracies of words in 10 sentences.
    ([0.5, math.nan], [10, 10]),
    ([3.0, 2.0], [10, 10]),  # Errors, not accuracies.
    ([0.5, 0.5], [10, 10]),  # Without a spread.
    ([0.0, 1.0], [1, 1]),
  ],
)
def test_unknown_noise_is_none(accuracies, num_examples):
  assert sampling_noise.of_scores(accuracies, num_examples) is None


def test_the_sentence_has_the_spread_its_noise_and_the_examples():
  noise = {"std": 0.023, "true_std": 0.078}
  for std, share, examples, facts in (
    (0.081, 0.08, 12, ("8.10", "2.30", "12 examples ", "8 %")),
    (0.081, 0.001, 10_000.5, ("10,000.5 examples", "under 1 %")),
    (0.02, 1.0, 1, ("2.00 is no more", "1 example ", "2.30")),
  ):
    noise |= {"share": share, "median_examples": examples}
    sentence = sentences.noise(std, noise)
    assert all(fact in sentence for fact in facts), sentence


def test_the_fairness_table_tells_it_where_the_run_has_it():
  summary = {
    "rounds": 1,
    "num_clients": 5,
    "test_accuracy": metrics.fairness_summary(ACCURACIES),
  }
  table = fairness_table.describe(summary)
  noise = sampling_noise.of_scores(ACCURACIES, [10] * 5)
  told = fairness_table.describe({**summary, summaries.NOISE: noise})
  assert told.startswith(f"{table}\n\nOf the std of 27.86, about ")
  assert max(map(len, told.splitlines())) <= 80
  assert fairness_table.describe({**summary, summaries.NOISE: None}) == table


@pytest.fixture
def runs(tmp_path):
  seeds = [ACCURACIES] * 2
  return run_folders.make_methods(tmp_path, {"fedavg": seeds, "adafed": seeds})


def test_compare_has_a_column_without_marks(runs):
  frame = experiments.compare(
    runs, baseline="fedavg", columns=["mean", "noise_share"]
  )
  assert frame["noise_share"].tolist() == [round(100 * SHARE, 1)] * 2
  assert "noise_share_difference" not in frame
  assert "mean_difference" in frame
  assert not any("Noise" in note for note in frame.attrs["notes"])


def test_reports_have_it_beside_the_std(runs):
  (task,) = task_runs.arrange(
    [experiments.open_run(path) for path in sorted(runs.iterdir())]
  )
  text = verdict_section.build(task).markup(task)
  heads = [">Std<", ">Noise share<", ">Worst 10"]
  places = [text.index(head) for head in heads]
  assert places == sorted(places)
  assert "Noise share: how much of the variance" in text
