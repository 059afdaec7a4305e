import json
import os
import sys

import pytest

from tff_fair.experiments import RunSpec
from tff_fair.experiments.runs import configuration

SPEC = RunSpec(
  algorithm="qfedavg",
  hparams={"q": 0.5},
  task_options={"partition": "dirichlet", "concentration": 0.5},
  clients_per_round=(3, 7),
  seed=4,
)
ASKED_LITTLE = RunSpec(seed=4)


def build(spec, clients_per_round=10, aggregation="streaming", **kwargs):
  config = configuration.build(
    spec,
    clients_per_round=clients_per_round,
    aggregation=aggregation,
    description="some data",
    **kwargs,
  )
  return json.loads(json.dumps(config))


def older(config):
  """As a version wrote it that knew no specs."""
  return {name: group for name, group in config.items() if name != "spec"}


def differences(saved, present):
  return list(configuration.differences(saved, present))


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


def test_the_same_run_does_not_differ():
  saved = build(SPEC, "3-7")
  saved["flags"]["task_option"][1] = "concentration=0.50"
  assert differences(saved, build(SPEC, "3-7")) == []
  assert differences(older(saved), build(SPEC, "3-7")) == []
  # What follows from the task may be said, too.
  said = ASKED_LITTLE.replace(clients_per_round=10, hparams={"gamma": 1})
  assert differences(build(ASKED_LITTLE), build(said)) == []


@pytest.mark.parametrize(
  ("changes", "found"),
  [
    ({"batch_size": 32}, ["batch_size=16 (here 32)"]),
    ({"hparams": {"q": 2}}, ["hparam.q=0.5 (here 2)"]),
    # The default.
    ({"task_options": {"partition": "dirichlet"}}, []),
    ({"measure_improvement": True}, ["measure_improvement=false (here true)"]),
    ({"rounds_per_checkpoint": 3}, []),
  ],
)
def test_another_run_differs(changes, found):
  saved, present = build(SPEC, "3-7"), build(SPEC.replace(**changes), "3-7")
  assert differences(saved, present) == found


def test_other_data_or_versions_differ():
  saved = build(SPEC)
  saved["data"]["description"] = "other data"
  saved["versions"]["numpy"] = "0.1"
  now = build(SPEC)["versions"]["numpy"]
  assert differences(saved, build(SPEC)) == [
    "data description=other data (here some data)",
    f"versions numpy=0.1 (here {now})",
  ]


def test_a_flag_of_another_version_differs():
  saved = build(SPEC)
  saved["flags"]["novel"] = 3
  assert differences(saved, build(SPEC)) == ["novel=3 (here None)"]


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


def test_a_saved_run_is_compared_with_one_that_has_not_started():
  saved = build(ASKED_LITTLE, 10, "stacked")
  for config in (saved, older(saved)):
    for spec in (
      ASKED_LITTLE,
      ASKED_LITTLE.replace(clients_per_round=10),
      ASKED_LITTLE.replace(aggregation="stacked"),
    ):
      assert configuration.differences_from(config, spec) == {}
    other = ASKED_LITTLE.replace(clients_per_round=9, seed=5)
    found = configuration.differences_from(config, other)
    assert found.keys() == {"clients_per_round", "seed"}
    assert found["seed"] == (4, 5)
  # More than follows where nobody says it.
  asked = build(ASKED_LITTLE.replace(clients_per_round=20), 20, "stacked")
  for config in (asked, older(asked)):
    found = configuration.differences_from(config, ASKED_LITTLE)
    assert found == {"clients_per_round": (20, None)}


def test_a_run_from_before_there_were_parts_goes_on_uncut():
  spec = ASKED_LITTLE.replace(sampling="all")
  saved, present = build(spec, 100), build(spec, 100)
  for group in ("spec", "flags"):
    del saved[group]["clients_per_part"]
  assert configuration.clients_per_part(saved) == 0
  assert configuration.clients_per_part(present) == 32
  for config in (saved, older(saved)):
    assert differences(config, present) == []
    assert configuration.differences_from(config, spec) == {}
    # Who asks for parts gets them, or is told.
    asked = spec.replace(clients_per_part=8)
    assert differences(config, build(asked, 100)) == [
      "clients_per_part=0 (here 8)"
    ]
    found = configuration.differences_from(config, asked)
    assert found == {"clients_per_part": (0, 8)}


@pytest.mark.parametrize(
  ("cohort", "part", "size"),
  [(10, 32, 0), (33, 32, 32), ("3-40", 32, 32), (100, 0, 0), (5, 4, 4)],
)
def test_the_size_of_parts_counts_where_a_cohort_has_several(
  cohort, part, size
):
  saved = build(ASKED_LITTLE.replace(clients_per_part=part), cohort)
  assert configuration.part_size(saved) == size


def of_version_0_1(spec, rounds_per_evaluation):
  """The configuration as it was before runs of few rounds evaluated often."""
  saved = build(spec)
  for group in ("spec", "flags"):
    saved[group]["rounds_per_evaluation"] = rounds_per_evaluation
  return saved


@pytest.mark.parametrize("given", [None, 3, 50])
def test_a_short_run_that_began_earlier_keeps_its_interval(given):
  spec = RunSpec(total_rounds=20, rounds_per_evaluation=given)
  interval = given or 10
  saved = of_version_0_1(spec, interval)
  assert differences(saved, build(spec)) == []
  assert configuration.differences_from(saved, spec) == {}
  assert configuration.evaluation_interval(saved) == interval
  # The same run, begun now.
  assert configuration.evaluation_interval(build(spec)) == {3: 3}.get(given, 4)


def test_another_interval_differs():
  spec = RunSpec(total_rounds=20, rounds_per_evaluation=5)
  saved = build(spec.replace(rounds_per_evaluation=2))
  assert differences(saved, build(spec)) == ["rounds_per_evaluation=2 (here 5)"]
  assert configuration.differences_from(saved, spec) == {
    "rounds_per_evaluation": (2, 5)
  }


def test_another_version_of_a_users_file_differs(tmp_path, monkeypatch):
  monkeypatch.setattr(sys, "path", list(sys.path))
  path = tmp_path / "own.py"
  text = "def load(): ...\ndef build(): ...\n"
  path.write_text(text)
  spec = RunSpec(task=f"{path}:load", model=f"{path}:build")
  saved = build(spec)
  assert saved["own_files"].keys() == {"task", "model"}
  assert saved["command"]["directory"] == os.getcwd()
  assert differences(saved, build(spec)) == []
  assert configuration.differences_from(saved, spec) == {}
  path.write_text(f"{text}# Changed.")
  assert differences(saved, build(spec)) == [
    f"another version of the file of {name}={path}:{function} (to go on, put "
    "that version back)"
    for name, function in (("model", "build"), ("task", "load"))
  ]
  found = configuration.differences_from(saved, spec)
  before, now = found["model_file"]
  assert saved["own_files"]["model"].startswith(before)
  assert before != now
  # Another file, and no file, differ as settings do.
  assert differences(saved, build(RunSpec()))[0].startswith("task=")


def test_a_run_without_files_of_a_user_says_nothing_of_them():
  config = build(RunSpec(model="mlp"))
  assert "own_files" not in config
  assert config["command"].keys() == {"line"}


def test_an_old_name_of_a_model_is_no_difference():
  old = build(RunSpec(task_options={"model": "mlp"}))
  for options in ({}, {"model": "mlp_64"}):
    spec = RunSpec(task_options=options)
    assert differences(old, build(spec)) == []
    assert configuration.differences_from(old, spec) == {}
