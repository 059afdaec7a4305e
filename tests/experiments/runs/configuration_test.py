import pytest

from tests.experiments.runs.made_configurations import (
  ASKED_LITTLE,
  SPEC,
  build,
  older,
)
from tff_fair.experiments import RunSpec
from tff_fair.experiments.runs import configuration


def test_a_run_comes_back_as_it_was_asked_for():
  for spec in (SPEC, ASKED_LITTLE):
    assert configuration.read_spec(build(spec)) == spec


def test_groups_of_older_versions_are_there_under_the_names_of_flags():
  config = build(SPEC, "3-7", command="typed", output_dir="out")
  assert config["command"] == {"line": "typed"}
  assert config["data"] == {"description": "some data"}
  flags = config["flags"]
  assert list(flags)[:6] == [
    *("task", "data_dir", "model", "task_option", "algorithm", "hparam")
  ]
  assert list(flags)[-2:] == ["output_dir", "workers"]
  assert flags["hparam"] == ["q=0.5"]
  assert flags["task_option"] == ["partition=dirichlet", "concentration=0.5"]
  assert (flags["output_dir"], flags["workers"]) == ("out", [])
  assert config["hparams"] == {"q": 0.5, "lipschitz": None}
  assert config["versions"].keys() >= {"python", "tensorflow-federated"}


def test_what_followed_is_saved():
  flags = build(ASKED_LITTLE, 6, "stacked")["flags"]
  assert (flags["clients_per_round"], flags["aggregation"]) == (6, "stacked")


def test_without_a_command_it_says_how_to_start_the_run_again():
  line = build(SPEC, output_dir="my runs")["command"]["line"]
  assert line.startswith("python -m binaries.train --algorithm=qfedavg ")
  assert "--hparam=q=0.5" in line
  assert "'--output_dir=my runs'" in line


def test_an_older_configuration_is_read_with_what_followed():
  spec = configuration.read_spec(older(build(ASKED_LITTLE, 10, "stacked")))
  assert spec == ASKED_LITTLE.replace(
    clients_per_round=10,
    aggregation="stacked",
    hparams={"gamma": 1.0},
    rounds_per_evaluation=10,
  )


def test_flags_that_did_not_exist_yet_have_their_defaults():
  config = {"flags": {"algorithm": "fedavg", "seed": 3}, "hparams": {}}
  # But for parts: rounds were not cut.
  expected = RunSpec(algorithm="fedavg", seed=3, clients_per_part=0)
  assert configuration.read_spec(config) == expected


@pytest.mark.parametrize(
  "config",
  [
    {"flags": {"task": "unknown"}},
    {"flags": {"algorithm": "unknown"}},
    {"flags": {"batch_size": "many"}},
    {"flags": {"task_option": ["clients=3"]}},
    {"flags": {}, "hparams": {"q": 1}},
    {"flags": {}, "spec": {"unknown": 1}},
  ],
)
def test_what_this_version_does_not_know_is_an_error(config):
  with pytest.raises(ValueError, match=r"unknown|many|clients|no such"):
    configuration.read_spec(config)


@pytest.mark.parametrize(
  ("cohort", "part", "size"),
  [(10, 32, 0), (33, 32, 32), ("3-40", 32, 32), (100, 0, 0), (5, 4, 4)],
)
def test_the_size_of_parts_counts_where_a_cohort_has_several(
  cohort, part, size
):
  saved = build(ASKED_LITTLE.replace(clients_per_part=part), cohort)
  assert configuration.part_size(saved) == size


def test_a_run_without_files_of_a_user_says_nothing_of_them():
  config = build(RunSpec(model="mlp"))
  assert "own_files" not in config
  assert config["command"].keys() == {"line"}
