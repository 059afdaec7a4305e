"""Tests of the single table that holds many runs."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.experiments import run_folders
from tff_fair import experiments
from tff_fair.declared import FieldError

FLAGS = ["method", "seed"]
OF_CLIENTS = ["round", "client_id", "num_examples", "loss", "accuracy"]


def make(folder, name, **settings):
  return run_folders.make(folder / name, **settings)


def test_rows_of_all_runs_say_whose_they_are(tmp_path):
  run_folders.make_three_methods(tmp_path)
  runs = experiments.open_runs(tmp_path)
  table = experiments.table(runs, "client_evaluations")
  assert table.columns[:2].tolist() == FLAGS
  assert [c for c in OF_CLIENTS if c not in table] == []
  assert len(table) == sum(len(run.client_evaluations) for run in runs)
  for run in runs:
    rows = table[(table["method"] == run.title) & (table["seed"] == run.seed)]
    pd.testing.assert_frame_equal(
      rows[OF_CLIENTS].reset_index(drop=True), run.client_evaluations
    )
  assert table["seed"].dtype == table["client_id"].dtype == np.int64
  assert "algorithm" not in table


def test_settings_that_vary_have_columns(tmp_path):
  for alpha in (0.1, 0.3):
    for rate in (0.01, 0.1):
      for seed in (0, 1):
        make(
          tmp_path,
          f"{alpha}-{rate}-{seed}",
          algorithm="fedfv",
          hparams={"alpha": alpha},
          client_learning_rate=rate,
          seed=seed,
        )
  table = experiments.table(tmp_path, "evaluations")
  assert table.columns[:4].tolist() == [*FLAGS, "alpha", "client_learning_rate"]
  counts = table.groupby(["alpha", "client_learning_rate"])["seed"].nunique()
  assert counts.to_dict() == {
    (a, r): 2 for a in (0.1, 0.3) for r in (0.01, 0.1)
  }


@pytest.mark.filterwarnings("error")
def test_a_setting_that_a_run_does_not_have_is_missing(tmp_path):
  make(tmp_path, "a")
  make(tmp_path, "b", algorithm="fedfv", hparams={"alpha": 0.25})
  table = experiments.table(tmp_path).set_index("method")
  assert table.loc["FedAvg", "alpha"].isna().all()
  assert set(table.loc["FedFV", "alpha"]) == {0.25}


def test_a_setting_called_as_a_column_keeps_its_kind(tmp_path):
  for seed, beta in enumerate((1.0, 2.0)):
    path = make(tmp_path, f"{seed}", seed=seed)
    config = json.loads((path / "config.json").read_text())
    config["resolved"]["hparams"]["loss"] = beta
    (path / "config.json").write_text(json.dumps(config))
  table = experiments.table(tmp_path)
  assert table["hparam.loss"].unique().tolist() == [1.0, 2.0]
  assert set(table["loss"]).isdisjoint({1.0, 2.0})


def test_other_seeds_have_columns_where_they_differ(tmp_path):
  make(tmp_path, "a", seed=1)
  make(tmp_path, "b", seed=1, model_seed=3)
  table = experiments.table(tmp_path, "evaluations")
  assert table.columns[:3].tolist() == [*FLAGS, "model_seed"]
  assert table["model_seed"].unique().tolist() == [1, 3]


def test_a_method_has_one_name_in_all_tables(tmp_path):
  for name, settings in {
    "a": {},
    "b": {"client_weighting": "uniform"},
    "c": {"algorithm": "fedfv"},
  }.items():
    make(tmp_path, name, **settings)
  found = experiments.table(tmp_path, "evaluations")["method"]
  assert set(found) == {"FedAvg", "FedAvg, equal weights", "FedFV"}
  assert set(found) == set(experiments.compare(tmp_path)["method"])


@pytest.mark.parametrize("name", ["rounds", "clients", "labels", "evaluations"])
def test_runs_that_have_nothing_yet_have_no_row(tmp_path, name):
  path = make(tmp_path, "a", is_finished=False)
  for file in path.glob("*.csv"):
    file.unlink()
  table = experiments.table(tmp_path, name)
  assert table.empty
  assert table.columns[:2].tolist() == FLAGS


def test_clients_at_the_end(tmp_path):
  for seed in range(2):
    path = make(tmp_path, f"{seed}", seed=seed)
    (path / "clients.csv").write_text(
      "client_id,client,accuracy\n0,007,0.5\n1,NA,0.75\n"
    )
  table = experiments.table(tmp_path, "clients")
  assert table["client"].tolist() == ["007", "NA"] * 2
  assert table["seed"].tolist() == [0, 0, 1, 1]


def test_an_unknown_table_and_equal_runs_are_refused(tmp_path):
  make(tmp_path, "a")
  with pytest.raises(FieldError, match="client_evaluations"):
    experiments.table(tmp_path, "accuracies")
  make(tmp_path, "b")
  with pytest.raises(experiments.RunError, match="is the same run as"):
    experiments.table(tmp_path)
