"""Tests of audits of results: summary, verdict, files and page."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from tests.refusals import rejected
from tff_fair import experiments, metrics
from tff_fair.experiments.presenting import audit, audit_page


def results(tmp_path, clients, column="correct"):
  path = tmp_path / "results.csv"
  rows = [f"{name},{n},{value}" for name, n, value in clients]
  path.write_text("\n".join([f"client,n,{column}", *rows]) + "\n")
  return path


def described(*arguments):
  """Returns the text about an audit of results, in one line."""
  found = experiments.audit(results=results(*arguments))
  return " ".join(found.describe().split())


UNEQUAL = [("north", 40, 10), ("south", 50, 45), ("east", 60, 57)]


def test_the_summary_is_that_of_the_metrics(tmp_path):
  found = experiments.audit(results=results(tmp_path, UNEQUAL))
  accuracies, counts = [0.25, 0.9, 0.95], [40, 50, 60]
  summary = found.summary
  assert summary["test_accuracy"] == metrics.fairness_summary(accuracies)
  assert summary["test_accuracy_weighted"] == pytest.approx(112 / 150)
  assert (summary["num_clients"], summary["num_examples"]) == (3, 150)
  noise = metrics.sampling_noise(accuracies, counts)
  assert summary["test_accuracy_noise"]["share"] == noise.share
  assert summary["test_accuracy_noise"]["median_examples"] == 50
  low, high = metrics.wilson_interval(accuracies, counts)
  np.testing.assert_array_equal(found.clients["accuracy_low"], low)
  np.testing.assert_array_equal(found.clients["accuracy_high"], high)
  for name, (low_end, high_end) in summary["intervals"].items():
    assert low_end <= summary["test_accuracy"][name] <= high_end, name
  assert summary["intervals"].keys() > {"mean", "std", "worst_10", "jain"}


def test_the_verdict_names_the_worst_off_and_the_noise(tmp_path):
  text = described(tmp_path, UNEQUAL)
  assert "Accuracy over 3 clients, in percent; 10 % = 1 of 3 clients" in text
  assert " mean 70.00 [" in text
  assert " Jain's index 0.8282 [" in text
  assert "Worst off is north: its accuracy is 25.00 % of 40 test" in text
  assert "differ by more than noise" in text
  assert "1 of 3 clients is clearly below the mean of 70.00 %" in text
  text = described(tmp_path, [(f"c{k}", 10, 7 + k % 3) for k in range(9)])
  assert "Worst off are 3 clients, one of them c0" in text
  assert "may differ only by noise" in text
  assert "is no more than test sets of 10 examples alone make" in text
  text = described(tmp_path, [(f"c{k}", 10, 7) for k in range(9)])
  assert "All clients have the same accuracy: 70.00 %." in text


def test_losses_have_no_noise_that_can_be_told(tmp_path):
  path = results(tmp_path, [("a", 5, 0.5), ("b", 9, 2.5)], "loss")
  found = experiments.audit(results=path)
  assert found.summary["score"] == "loss"
  # The worst clients have the largest losses.
  assert found.summary["test_loss"]["worst_10"] == 2.5
  assert found.summary["test_loss"]["best_10"] == 0.5
  assert "test_accuracy_noise" not in found.summary
  text = " ".join(found.describe().split())
  assert "Worst off is b: its loss is 2.5000, over 9 test examples." in text
  assert "alone does not show how much" in text
  assert "accuracy" not in text


def test_losses_below_zero_have_a_spread_and_no_ratios_to_their_mean(tmp_path):
  # The mean is 0, so ratios to the mean have no meaning.
  losses = [-2.0, 1.0, 1.0]
  path = results(tmp_path, zip("abc", (9, 5, 7), losses, strict=True), "loss")
  found = experiments.audit(results=path)
  summary = found.summary["test_loss"]
  assert summary["std"] == pytest.approx(np.std(losses))
  assert (summary["worst_10"], summary["best_10"]) == (1.0, -2.0)
  assert all(np.isnan(summary[name]) for name in ("relative_std", "jain"))
  assert not {"relative_std", "jain"} & found.summary["intervals"].keys()
  text = " ".join(found.describe().split())
  assert "Some losses are below 0: ratios to their mean" in text
  assert "nan" not in text
  assert "nan" not in found.write(tmp_path / "audit").read_text()


@pytest.mark.parametrize("number", [13, 14])
def test_a_newcomer_may_expect_a_bound_by_order_statistics(tmp_path, number):
  losses = [(f"c{k}", 5, k / 8) for k in range(number)]
  found = experiments.audit(results=results(tmp_path, losses, "loss"))
  bound = found.summary["newcomers"]
  # Since 0.8 ** 14 < 0.05 < 0.8 ** 13, the worst of 14 clients is the bound.
  assert (bound["needed"], bound["confidence"]) == (14, 0.95)
  assert bound.get("bound") == (13 / 8 if number == 14 else None)
  told = found.describe()
  assert ("1.6250" if number == 14 else "14 clients") in told.split("\n\n")[-1]


def test_the_files_hold_what_the_audit_found(tmp_path):
  clients = [("<b>&", 4, 1), ("=1+1", 4, 4), ("line", 1, 0)]
  found = experiments.audit(results=results(tmp_path, clients))
  page = found.write(tmp_path / "new" / "audit")
  table = pd.read_csv(page.parent / "clients.csv", float_precision="round_trip")
  assert table["client"].tolist() == ["<b>&", "'=1+1", "line"]
  np.testing.assert_array_equal(table["accuracy"], found.clients["accuracy"])
  summary = json.loads((page.parent / "summary.json").read_text())
  assert summary == found.summary
  html = page.read_text().partition("\n")[2]
  root = ET.fromstring(html)  # Well formed, whatever clients are called.
  texts = [element.text for element in root.iter() if element.text]
  assert "<b>&" in texts
  assert "Content-Security-Policy" in html
  assert not list(root.iter("b"))
  # The written table can be audited again.
  again = experiments.audit(results=page.parent / "clients.csv")
  assert again.summary == found.summary


def test_nothing_is_overwritten_unasked(tmp_path):
  found = experiments.audit(results=results(tmp_path, UNEQUAL))
  (tmp_path / "index.html").write_text("mine")
  with pytest.raises(experiments.RunError, match=r"index\.html"):
    found.write(tmp_path)
  assert (tmp_path / "index.html").read_text() == "mine"
  assert not (tmp_path / "summary.json").exists()
  found.write(tmp_path, overwrite=True)
  assert (tmp_path / "index.html").read_text() != "mine"
  (tmp_path / "file").write_text("")
  with pytest.raises(experiments.RunError, match="file"):
    found.write(tmp_path / "file")


def test_a_folder_that_the_program_may_not_write_to_is_refused_before(tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(experiments.RunError, match="audit"):
    audit.check_folder(tmp_path / "file" / "audit", overwrite=True)


def test_a_long_list_of_clients_is_cut_on_the_page_alone(tmp_path, monkeypatch):
  monkeypatch.setattr(audit_page, "_MOST_ROWS", 5)
  monkeypatch.setattr(audit_page, "_MOST_POINTS", 4)
  clients = [(f"c{k}", 20, k) for k in range(7)]
  found = experiments.audit(results=results(tmp_path, clients))
  page = found.write(tmp_path / "audit").read_text()
  assert "The 2 best-off clients are" in page
  assert len(pd.read_csv(tmp_path / "audit" / "clients.csv")) == 7


@pytest.mark.parametrize(
  ("arguments", "field"),
  [
    ({}, "model"),
    ({"model": "m.keras"}, "task"),
    ({"results": "r.csv", "task": "digits"}, "task"),
    ({"results": "r.csv", "trust": True}, "trust"),
    ({"results": "r.csv", "score": "auc"}, "score"),
    ({"results": "r.csv", "measures": "recall"}, "measures"),
    ({"results": "r.csv", "threshold_for": "f1"}, "threshold_for"),
  ],
)
def test_arguments_that_do_not_go_together(arguments, field):
  with rejected(field, "results"):
    experiments.audit(**arguments)


@pytest.mark.parametrize(
  ("field", "value"),
  [("task_options", {"alpha": 1}), ("data_dir", "data"), ("seed", 1)],
)
def test_settings_of_a_task_go_with_its_name(field, value):
  with rejected(field, "name of a task"):
    experiments.audit("model.keras", object(), **{field: value})


def test_one_client_has_no_spread(tmp_path):
  with rejected("results"):
    experiments.audit(results=results(tmp_path, UNEQUAL[:1]))
