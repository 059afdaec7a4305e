import json

import pytest

from tests.experiments import run_folders
from tff_fair.experiments.analysis import run_groups
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import discovery


def found(path):
  return discovery.find([path])


def labels(path):
  return [group.label for group in run_groups.group(found(path))]


def test_runs_that_differ_in_any_of_the_seeds_alone_are_one_group(tmp_path):
  for seed in (10, 2, 0):
    run_folders.make(tmp_path / f"{seed}", seed=seed)
  for seed in (2, 1):
    run_folders.make(tmp_path / f"m{seed}", model_seed=seed)
    run_folders.make(tmp_path / f"d{seed}", data_seed=seed, model_seed=0)
  (group,) = run_groups.group(found(tmp_path))
  assert group.label == "FedAvg"
  assert [str(run.seeds) for run in group.runs] == [
    "0",
    "0 (model 1)",
    "0 (model 2)",
    "0 (data 1)",
    "0 (data 2)",
    "2",
    "10",
  ]


def test_a_seed_that_is_given_as_it_would_follow_is_the_same_run(tmp_path):
  run_folders.make(tmp_path / "0", seed=4)
  run_folders.make(tmp_path / "1", seed=4, data_seed=4, model_seed=4)
  with pytest.raises(RunError, match="is the same run as"):
    run_groups.group(found(tmp_path))


def test_a_label_has_what_differs_within_its_method(tmp_path):
  run_folders.make(tmp_path / "0", hparams={})
  for n, (q, rate) in enumerate([(10.0, 0.1), (2.0, 0.1), (2.0, 0.01)]):
    run_folders.make(
      tmp_path / f"1/{n}",
      algorithm="qfedavg",
      hparams={"q": q, "lipschitz": 7.0},
      client_learning_rate=rate,
    )
  run_folders.make(tmp_path / "2", algorithm="term", hparams={"t": 1.0})
  assert labels(tmp_path) == [
    "FedAvg",
    "q-FedAvg, q=2, client_learning_rate=0.01",
    "q-FedAvg, q=2, client_learning_rate=0.1",
    "q-FedAvg, q=10, client_learning_rate=0.1",
    "TERM",
  ]


def test_equal_weights_make_another_method_where_it_uses_weights(tmp_path):
  settings = [
    {"client_learning_rate": 0.1},
    {"client_weighting": "uniform", "client_learning_rate": 0.1},
    {"client_weighting": "uniform", "client_learning_rate": 0.4},
    {"client_weighting": "column"},
    {"algorithm": "fedfv", "client_weighting": "uniform"},
  ]
  for number, values in enumerate(settings):
    run_folders.make(tmp_path / str(number), **values)
  # Labels mention equal weights even if the name that a sweep gave does not.
  for name in ("FedAvg on 4", "FedAvg on 4, equal weights"):
    run_folders.make(
      tmp_path / f"9{len(name)}",
      method=name,
      client_weighting="uniform",
      seed=len(name),
      total_rounds=4,
    )
  assert sorted(labels(tmp_path)) == [
    "FedAvg",
    "FedAvg on 4, equal weights",
    "FedAvg, equal weights, client_learning_rate=0.1",
    "FedAvg, equal weights, client_learning_rate=0.4",
    "FedAvg, weights by column",
    "FedFV",
  ]


def test_a_seed_of_the_method_is_no_seed_of_the_run(tmp_path):
  for seed in (0, 1):
    run_folders.make(
      tmp_path / f"{seed}", algorithm="fedfv", hparams={"seed": seed}
    )
  assert labels(tmp_path) == ["FedFV, hparam.seed=0", "FedFV, hparam.seed=1"]


def test_methods_of_one_algorithm_are_told_apart_by_their_names(tmp_path):
  for name, order in (("a", "loss"), ("b", "random")):
    run_folders.make(
      tmp_path / name, algorithm="fedfv", hparams={"order": order}
    )
  (tmp_path / "sweep.json").write_text('{"names": {"a": "FedFV", "b": "FV-r"}}')
  assert labels(tmp_path) == ["FedFV", "FV-r"]


def test_runs_are_sorted_by_what_they_were_trained_on(tmp_path):
  linear = {"num_clients": 2, "model": "logistic_regression"}
  run_folders.make(tmp_path / "0", seed=0, task_options=linear)
  reverse = dict(reversed(linear.items()))
  run_folders.make(tmp_path / "1", seed=1, task_options=reverse)
  one_layer = {**linear, "model": "mlp_64"}
  run_folders.make(tmp_path / "2", task_options=one_layer)
  run_folders.make(tmp_path / "3", [(1, (0.1, 0.2, 0.3))], task="mnist")
  tasks = run_groups.by_task(found(tmp_path))
  assert {
    title: [int(run.path.name) for run in members]
    for title, members in tasks.items()
  } == {
    "digits, model=logistic_regression, 2 clients": [0, 1],
    "digits, model=mlp_64, 2 clients": [2],
    "mnist, 3 clients": [3],
  }


def test_versions_of_a_users_file_are_no_seeds_of_one_run(tmp_path):
  for n in range(3):
    path = run_folders.make(tmp_path / f"{n}", seed=n, model="mlp")
    if n < 2:
      config = json.loads((path / "config.json").read_text())
      for group in ("spec", "resolved"):
        config[group]["model"] = "a.py:build"
      config["own_files"] = {"model": str(n) * 64}
      (path / "config.json").write_text(json.dumps(config))
  assert labels(tmp_path) == [
    "FedAvg, model=a.py:build, model_file=00000000",
    "FedAvg, model=a.py:build, model_file=11111111",
    "FedAvg, model=mlp",
  ]
  # The models' names alone distinguish the last two runs.
  runs = found(tmp_path)[1:]
  assert run_groups.differing_settings(runs) == ["model"]
