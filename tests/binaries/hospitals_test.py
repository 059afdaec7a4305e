"""Tests with a new user's table: eight hospitals and a rare outcome."""

import json

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

import tasks
from binaries import audit, train
from tests.binaries import in_process
from tff_fair import experiments

pytestmark = pytest.mark.usefixtures("compiled_here", "unpainted")

_NAMES = (
  *("Ashby", "Brent", "Calder", "Dover"),
  *("Eskdale", "Fulham", "Garth", "Hull"),
)


def hospitals():
  """Returns a table of 1000 patients; the first column numbers the rows."""
  generator = np.random.default_rng(7)
  rows = []
  for k, name in enumerate(_NAMES):
    size = 160 - 10 * k
    age = generator.normal(60, 14, size).round(1)
    stay = generator.gamma(2, 3, size).round(1)
    odds = -2.9 + 0.03 * (age - 60) + 0.1 * (stay - 6)
    died = generator.random(size) < 1 / (1 + np.exp(-odds))
    # Both the training and the test data need a death.
    died[:10] = np.arange(10) < 2
    rows.append(
      pd.DataFrame(
        {
          "hospital": name,
          "age": age,
          "stay": stay,
          "sex": generator.choice(["f", "m"], size),
          "died": np.where(died, "yes", "no"),
        }
      )
    )
  table = pd.concat(rows, ignore_index=True)
  table.insert(0, "patient_id", 1000 + np.arange(len(table)))
  return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("hospitals")
  hospitals().to_csv(path / "eight.csv", index=False)
  return path


@pytest.fixture(scope="module")
def outcome(folder):
  """Returns the outcome of a training with the flags that a new user knows."""
  with pytest.MonkeyPatch.context() as patched:
    patched.chdir(folder)
    return in_process.run(
      train,
      "--task=table",
      *("--task_option=file=eight.csv", "--task_option=client=hospital"),
      *("--task_option=label=died", "--algorithm=fedavg", "--total_rounds=2"),
      "--output_dir=plain",
    )


def test_a_run_says_what_the_most_frequent_class_gets(folder, outcome):
  assert outcome.status == 0
  run = experiments.open_run(folder / "plain")
  clients = run.clients
  assert clients is not None
  found = run.of_summary("majority")
  assert (found["class"], found["rare_class"]) == ("no", "yes")
  # Of each class, a fifth of each hospital's rows are test data.
  died = hospitals().groupby("hospital")["died"]
  shares = died.apply(lambda rows: (rows == "no").mean())
  expected = clients["client"].map(shares)
  np.testing.assert_allclose(clients["majority_accuracy"], expected, atol=0.05)
  assert {"mean", "percentile_50"} <= run.of_summary("test_recall").keys()


def test_a_rare_outcome_is_told_at_the_start_the_end_the_page_and_the_card(
  folder, outcome, tmp_path
):
  run = experiments.open_run(folder / "plain")
  reference = f"{100 * run.of_summary('majority')['mean']:.2f}"
  card = experiments.export(run, tmp_path / "model.keras").card
  page = experiments.report(run, tmp_path / "page.html")
  told = [outcome.stdout, card.read_text(), page.read_text()]
  for text in [outcome.stderr, *told]:
    for mend in ("score=auc", "measures=recall", "class_weights=balanced"):
      assert mend in text.replace("\\", "").replace("\n", " ")
  assert all(reference in text for text in told)
  assert json.loads((folder / "plain" / "summary.json").read_text())


_DECISIONS = {
  "f1": sklearn_metrics.f1_score,
  "recall": sklearn_metrics.recall_score,
  "precision": sklearn_metrics.precision_score,
  "balanced_accuracy": sklearn_metrics.balanced_accuracy_score,
}
_PROBABILITIES = {
  "auc": sklearn_metrics.roc_auc_score,
  "average_precision": sklearn_metrics.average_precision_score,
  "brier": sklearn_metrics.brier_score_loss,
  "log_loss": sklearn_metrics.log_loss,
}


def test_an_audit_has_the_scores_groups_and_threshold_of_a_run(
  folder, outcome, tmp_path, monkeypatch
):
  assert outcome.status == 0
  monkeypatch.chdir(folder)
  model = tmp_path / "model.keras"
  experiments.export(experiments.open_run("plain"), model)
  measures = [*_DECISIONS, *_PROBABILITIES, "calibration_error"]
  measures.remove("auc")
  found = in_process.run(
    audit,
    *(f"--model={model}", "--task=table", "--task_option=file=eight.csv"),
    *("--task_option=client=hospital", "--task_option=label=died"),
    *("--task_option=group=sex", "--score=auc", "--threshold_for=f1"),
    *(f"--measures={','.join(measures)}", f"--output_dir={tmp_path / 'audit'}"),
  )
  assert found.status == 0, found
  clients = pd.read_csv(tmp_path / "audit" / "clients.csv")
  summary = json.loads((tmp_path / "audit" / "summary.json").read_text())
  task = tasks.load("table", file="eight.csv", client="hospital", label="died")
  keras_model = tf.keras.models.load_model(model)
  assert task.test.raw is not None
  for client_id, row in clients.iterrows():
    raw, y = task.test.raw(client_id)
    columns = {name: tf.constant(values) for name, values in raw.items()}
    p = np.float64(keras_model(columns).numpy()[:, 1])
    for name, score in _DECISIONS.items():
      assert row[name] == pytest.approx(score(y, p > 0.5)), name
    for name, score in _PROBABILITIES.items():
      assert row[name] == pytest.approx(score(y, p), rel=1e-5), name
  # Clients are listed from the lowest AUC on.
  worst = clients.sort_values("auc")["client"]
  places = [found.stdout.index(name) for name in worst[:4]]
  assert places == sorted(places)
  assert summary["test_auc"]["mean"] == pytest.approx(clients["auc"].mean())
  assert summary["threshold"]["goal"] == "f1"
  assert summary["threshold"]["test"] >= summary["threshold"]["test_at_half"]
  assert summary["groups"]["groups"].keys() == {"f", "m"}
  assert summary["majority"]["reference"] == 0.5
  assert "equal opportunity" in found.stdout
