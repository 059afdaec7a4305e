import json

import pytest

from tests.experiments.runs.made_configurations import (
  ASKED_LITTLE,
  SPEC,
  build,
)
from tff_fair.experiments import RunSpec
from tff_fair.experiments.runs import configuration, settings


def test_a_run_comes_back_as_it_was_asked_for():
  for spec in (SPEC, ASKED_LITTLE):
    assert configuration.read_spec(build(spec)) == spec


def test_settings_are_there_under_the_names_of_flags():
  config = build(SPEC, "3-7", command="typed", output_dir="out")
  assert config["command"] == {"line": "typed"}
  assert config["data"] == {"description": "some data", "score": "accuracy"}
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


def test_a_configuration_is_read_with_what_followed():
  spec = configuration.read_resolved(build(ASKED_LITTLE, 10, "stacked"))
  assert spec == ASKED_LITTLE.replace(
    clients_per_round=10,
    aggregation="stacked",
    hparams={"gamma": 1.0},
    rounds_per_evaluation=10,
  )


@pytest.mark.parametrize(
  ("group", "changes"),
  [
    ("flags", {"task": "unknown"}),
    ("flags", {"algorithm": "unknown"}),
    ("flags", {"batch_size": "many"}),
    ("flags", {"task_option": ["clients=3"]}),
    ("hparams", {"q": 1}),
    ("spec", {"unknown": 1}),
  ],
)
def test_a_setting_that_is_not_valid_is_an_error(group, changes):
  config = build(ASKED_LITTLE)
  config[group].update(changes)
  read = (
    configuration.read_spec if group == "spec" else configuration.read_resolved
  )
  with pytest.raises(ValueError, match=r"unknown|many|clients|no such"):
    read(config)


@pytest.mark.parametrize(
  ("cohort", "part", "size"),
  [(10, 32, 0), (33, 32, 32), ("3-40", 32, 32), (100, 0, 0), (5, 4, 4)],
)
def test_the_size_of_parts_counts_where_a_cohort_has_several(
  cohort, part, size
):
  saved = build(ASKED_LITTLE.replace(clients_per_part=part), cohort)
  assert settings.deciding(saved).get("clients_per_part", 0) == size


def problems(config):
  return list(configuration.problems(config))


def test_a_whole_configuration_has_no_problem():
  assert problems(build(SPEC)) == []


@pytest.mark.parametrize("number", [None, 0, 2, "1", {}])
def test_another_format_is_refused(number):
  config = {**build(SPEC), "format": number}
  if number is None:
    del config["format"]
  (problem,) = problems(config)
  assert f"{json.dumps(number)}, expected {configuration.NUMBER};" in problem


@pytest.mark.parametrize(
  ("missing", "named"),
  [
    (("spec",), "spec"),
    (("versions", "data", "spec", "hparams"), "spec, hparams, data and 1 more"),
    (("flags.seed", "spec.task", "spec.seed", "data"), "data, task, seed"),
    (("flags.hparam", "spec.hparams", "data.score"), "hparams, hparam, score"),
    (("command.line", "flags.workers"), "workers, line"),
  ],
)
def test_what_is_missing_is_named_groups_first(missing, named):
  config = build(SPEC)
  for place in missing:
    group, _, name = place.partition(".")
    if name:
      del config[group][name]
    else:
      del config[group]
  assert problems(config) == [f"it lacks {named}"]


def test_a_run_without_files_of_a_user_says_nothing_of_them():
  config = build(RunSpec(model="mlp"))
  assert "own_files" not in config
  assert config["command"].keys() == {"line"}
