"""Tests of the score of the most frequent class, against scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

from tff_fair.experiments.analysis import majority
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.spec.scores import ACCURACY, BY_NAME
from tff_fair.experiments.texts import sentences

pytestmark = pytest.mark.pure

_TRAIN = np.repeat(["no", "yes"], [455, 45])


def _clients(accuracies, sizes, num_yes):
  return pd.DataFrame(
    {
      "n": sizes,
      "test_accuracy": accuracies,
      majority.COLUMN: 1 - np.array(num_yes) / sizes,
    }
  )


def _summary(clients, score=ACCURACY, counts=(455, 45), **others):
  found = majority.compare(
    clients, score, np.array(counts), ["no", "yes"], "n", "test_"
  )
  return {"score": score.name, summaries.MAJORITY: found, **others}


def test_the_reference_is_that_of_a_classifier_that_knows_no_inputs():
  sizes, num_yes = [50, 30, 20], [5, 2, 4]
  labels = [
    np.repeat(["no", "yes"], [n - m, m])
    for n, m in zip(sizes, num_yes, strict=True)
  ]
  dummy = DummyClassifier().fit(np.zeros([500, 1]), _TRAIN)
  shares = [dummy.score(np.zeros([len(y), 1]), y) for y in labels]
  found = _summary(_clients([0.8, 0.9, 0.7], sizes, num_yes))[
    summaries.MAJORITY
  ]
  assert (found["class"], found["share"]) == ("no", 0.91)
  assert found["rare_class"] == "yes"
  assert found["mean"] == pytest.approx(np.mean(shares))
  assert found["weighted"] == pytest.approx(1 - 11 / 100)
  assert found["difference"] == pytest.approx(0.8 - np.mean(shares))
  assert (found["not_better"], found["num_clients"]) == (3, 3)
  assert not found["is_better"]


@pytest.mark.parametrize(
  ("accuracies", "is_told", "wheres"),
  [
    ([0.88, 0.87, 0.89, 0.90], True, "on average and at 4 of 4 clients"),
    ([0.99, 0.98, 0.99, 0.93], True, "at 1 of 4 clients"),
    ([0.99, 0.98, 0.99, 0.99], False, ""),
  ],
)
def test_a_sentence_says_where_a_model_is_not_better(
  accuracies, is_told, wheres
):
  clients = _clients(accuracies, [200] * 4, [20] * 4)
  told = sentences.majority(_summary(clients))
  assert bool(told) == is_told
  for sentence in told:
    assert f"): {wheres}, it" in sentence
    for mend in ("--score=auc", "--measures=recall,precision", "f1"):
      assert mend in sentence


def test_auc_compares_with_one_half_and_does_not_advise_itself():
  clients = _clients([0.5] * 3, [200] * 3, [20] * 3)
  clients["test_auc"] = [0.4, 0.6, np.nan]
  summary = _summary(clients, BY_NAME["auc"], test_recall={"percentile_50": 0})
  found = summary[summaries.MAJORITY]
  assert (found["reference"], found["is_better"]) == (0.5, False)
  auc, recall = sentences.majority(summary)
  assert "--score=auc" not in auc
  assert "recall of “yes” is 0 at the median client" in recall


def test_all_right_where_all_have_one_class_is_as_good_as_can_be():
  found = _summary(_clients([1.0, 1.0], [60, 60], [0, 20]))[summaries.MAJORITY]
  assert found["not_better"] == 0


@pytest.mark.parametrize(
  ("counts", "rare"),
  [
    ([81, 19], 1),
    ([80, 20], None),
    ([10, 45, 45], 0),
    ([10] * 10, None),
    ([9], None),
  ],
)
def test_a_class_below_a_fifth_of_few_classes_is_rare(counts, rare):
  assert majority.rare_class(np.array(counts)) == rare
  names = [f"class {k}" for k in range(len(counts))]
  hint = sentences.rare_class(rare, np.array(counts), names)
  assert (hint is not None) == (rare is not None)
  if hint:
    assert f"“class {rare}” is {counts[rare]:.1f} %" in hint
