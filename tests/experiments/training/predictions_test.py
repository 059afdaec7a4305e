"""Tests of a run that reports differences between groups of people."""

import shutil
import textwrap

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from tests.experiments.training.small_run import train
from tff_fair import experiments
from tff_fair.experiments import RunSpec
from tff_fair.experiments.presenting.report import group_section, task_runs
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.texts import fairness_table, sentences
from tff_fair.experiments.training import (
  build,
  correction,
  in_memory,
  predictions,
)

pytestmark = pytest.mark.usefixtures("compiled_here", "unpainted")

_CLIENTS = ("ann", "bob")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  """Returns a run on labels that are harder to predict for women.

  The second client has few women.
  """
  folder = tmp_path_factory.mktemp("groups")
  generator = np.random.default_rng(3)
  group = np.array(["f", "m"])[(generator.random(800) < 0.6).astype(int)]
  client = np.array(_CLIENTS)[(generator.random(800) < 0.5).astype(int)]
  group[(client == "bob") & (generator.random(800) < 0.9)] = "m"
  y = generator.integers(0, 2, 800)
  x = (2 * y - 1) * np.where(group == "m", 3, 0.3) + generator.normal(0, 1, 800)
  np.savez(
    folder / "people.npz",
    x=np.float32(x[:, None]),
    y=y,
    client=client,
    group=group,
  )
  spec = RunSpec(
    task="arrays",
    task_options={"file": str(folder / "people.npz"), "test_fraction": 0.5},
    algorithm="fedavg",
    client_learning_rate=0.3,
    total_rounds=2,
    score_class="1",
    threshold_for="f1",
  )
  return train(spec, folder / "run")


def test_counts_are_those_of_the_model(run):
  table = pd.read_csv(run.path / "groups.csv")
  assert set(table["group"]) == {"f", "m"}
  (kernel, bias), task = run.weights(), task_loading.load(run.spec)
  assert task.test.groups is not None
  threshold = run.summary["threshold"]["probability"]
  assert threshold != pytest.approx(0.5)
  for client_id, client in enumerate(_CLIENTS):
    x, y = task.test.load(client_id)
    probabilities = softmax(np.float64(x @ kernel + bias), axis=-1)[:, 1]
    predicted = (probabilities >= threshold).astype(int)
    of = np.array(task.group_names)[task.test.groups(client_id)]
    for group in ("f", "m"):
      row = table[(table["client_id"] == client_id) & (table["group"] == group)]
      chosen = of == group
      assert row[["examples", "hits", "positives", "predicted"]].to_numpy()[
        0
      ].tolist() == [
        chosen.sum(),
        (predicted == y)[chosen].sum(),
        (y == 1)[chosen].sum(),
        (predicted == 1)[chosen].sum(),
      ], client


def test_the_threshold_suits_the_corrected_labels(run, tmp_path, compiled_here):
  folder = RunFolder(shutil.copytree(run.path, tmp_path / "run"))
  parts = build.run_parts(run.spec, task_loading.load(run.spec), compiled_here)
  record = correction.CorrectionRecord(
    iterations=1,
    is_done=True,
    weights=[],
    labels={
      k: np.ones(n, int) for k, n in enumerate(parts.task.train.num_examples)
    },
    dimensions=np.zeros(2),
    levels=np.zeros(2),
    is_noisy=np.zeros(2, bool),
  )
  correction.save(folder, record)
  found = predictions.results(folder, run.spec, parts, {}).threshold
  assert found is not None
  assert found["probability"] < run.summary["threshold"]["probability"]


def test_a_run_in_memory_counts_groups_where_it_is_asked_to(run, compiled_here):
  task = task_loading.load(run.spec)
  found = in_memory.train_and_evaluate(
    run.spec, task, compiled_here, counts_groups=True
  ).clients

  kernel, bias = run.weights()
  assert task.test.groups is not None
  for client_id in range(2):
    x, y = task.test.load(client_id)
    predicted = np.argmax(x @ kernel + bias, axis=-1)
    for group in range(2):
      chosen = task.test.groups(client_id) == group
      expected = {
        "examples": chosen,
        "hits": chosen & (predicted == y),
        "positives": chosen & (y == 1),
        "predicted": chosen & (predicted == 1),
        "true_positives": chosen & (y == 1) & (predicted == 1),
      }
      for name, counted in expected.items():
        assert found[f"{name}@{group}"][client_id] == counted.sum()


def test_gaps_are_in_summary_clients_card_and_page(run, tmp_path):
  table = pd.read_csv(run.path / "groups.csv")
  sums = table.groupby("group")[["examples", "hits"]].sum()
  shares = sums["hits"] / sums["examples"]
  found = run.summary["groups"]
  gap = found["gaps"]["accuracy_parity"]
  assert gap["value"] == pytest.approx(shares["m"] - shares["f"])
  assert (gap["highest"], gap["lowest"]) == ("m", "f")
  assert gap["low"] > 0
  assert found["positive_class"] == "1"
  clients = run.clients.set_index("client")
  assert 0 < clients.loc["ann", "accuracy_parity"] < 1
  # This client has too few women.
  assert np.isnan(clients.loc["bob", "accuracy_parity"])
  (sentence,) = sentences.groups(run.summary)
  assert textwrap.fill(sentence, 80, break_on_hyphens=False) in (
    fairness_table.describe(run.summary)
  )
  experiments.export(run, tmp_path / "model.keras")
  card = (tmp_path / "model_card.md").read_text()
  assert sentence in card
  assert "groups of people" not in card
  (task,) = task_runs.arrange([run])
  section = group_section.build(task)
  page = str(section.markup(task))
  assert sentence in page
  assert "gaps of 1 of 2" in page
  ann = clients.loc["ann"]
  ends = [100 * ann[f"accuracy_parity{end}"] for end in ("", "_low", "_high")]
  assert "{:.1f}<small> {:.1f} to {:.1f}</small>".format(*ends) in page
