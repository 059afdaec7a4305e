import json
import os
import pathlib
import sys

import pytest

from tests.experiments.runs.example_configurations import (
  ASKED_LITTLE,
  SPEC,
  build,
)
from tff_fair.experiments import RunSpec
from tff_fair.experiments.runs import configuration
from tff_fair.experiments.runs.run import Run


def test_a_run_comes_back_as_it_was_asked_for():
  for spec in (SPEC, ASKED_LITTLE):
    assert configuration.read_spec(build(spec)) == spec


def test_settings_are_there_as_asked_for_and_as_resolved():
  config = build(SPEC, "3-7", command="typed", output_dir="out")
  assert config["command"] == {"line": "typed"}
  assert config["data"] == {
    "description": "some data",
    "score": "accuracy",
    "beside": "",
  }
  assert config["spec"]["hparams"] == {"q": 0.5}
  resolved = config["resolved"]
  assert resolved.keys() == config["spec"].keys()
  assert resolved["task_options"] == config["spec"]["task_options"]
  assert resolved["hparams"] == {"q": 0.5, "lipschitz": None}
  assert config["versions"].keys() >= {"python", "tensorflow-federated"}


def test_without_a_command_it_says_how_to_start_the_run_again():
  line = build(SPEC, output_dir="my runs")["command"]["line"]
  assert line.startswith("python -m binaries.train --algorithm=qfedavg ")
  assert "--hparam=q=0.5" in line
  assert "'--output_dir=my runs'" in line


def test_a_resolved_spec_has_the_values_that_followed():
  spec = configuration.read_spec(build(ASKED_LITTLE, 10, "stacked"), "resolved")
  assert spec == ASKED_LITTLE.replace(
    clients_per_round=10,
    aggregation="stacked",
    hparams={"gamma": 1.0, "hull": False},
    rounds_per_evaluation=10,
  )


@pytest.mark.parametrize(
  ("group", "changes"),
  [
    ("resolved", {"task": "unknown"}),
    ("resolved", {"algorithm": "unknown"}),
    ("resolved", {"batch_size": "many"}),
    ("resolved", {"task_options": {"clients": 3}}),
    ("resolved", {"hparams": {"q": 1}}),
    ("spec", {"unknown": 1}),
  ],
)
def test_a_setting_that_is_not_valid_is_an_error(group, changes):
  config = build(ASKED_LITTLE)
  config[group].update(changes)
  with pytest.raises(ValueError, match=r"unknown|many|clients|no such"):
    configuration.read_spec(config, group)


@pytest.mark.parametrize(
  ("cohort", "part", "size"),
  [(10, 32, 0), (33, 32, 32), ("3-40", 32, 32), (100, 0, 0), ("x", 4, 4)],
)
def test_the_size_of_parts_counts_where_a_cohort_has_several(
  cohort, part, size
):
  saved = build(ASKED_LITTLE.replace(clients_per_part=part), cohort)
  found = Run(pathlib.Path(), saved, None, "").settings
  assert found.get("clients_per_part", 0) == size


@pytest.mark.parametrize(
  ("group", "values", "problem"),
  [
    *(
      ("data", {"score": score}, f"its score {score} is not one of")
      for score in ("none such", ["accuracy"], None)
    ),
    ("resolved", {"seed": "0"}, "its seed is not a whole number"),
    ("resolved", {"total_rounds": None}, "its total_rounds is not a whole"),
    ("resolved", {"task_options": 3}, "its task_options is not an object"),
    ("resolved", {"task_options": {"a": []}}, "its a is neither a number"),
    ("resolved", {"batch_size": {}}, "its batch_size is neither a number nor"),
    ("resolved", {"task": 1}, "its task is not a string"),
  ],
)
def test_a_value_of_another_type_is_named(group, values, problem):
  config = build(SPEC)
  config[group].update(values)
  assert str(configuration.problem(config)).startswith(problem)


@pytest.mark.parametrize("number", [None, 0, 2, "1", {}])
def test_another_format_is_refused(number):
  problem = configuration.problem({**build(SPEC), "format": number})
  assert problem is not None
  assert f"{json.dumps(number)}, expected {configuration.NUMBER};" in problem


@pytest.mark.parametrize(
  ("missing", "named"),
  [
    (("spec",), "spec"),
    (
      ("versions", "data", "spec", "resolved"),
      "spec, resolved, data and 1 more",
    ),
    (("resolved.seed", "spec.task", "spec.seed", "data"), "data, task, seed"),
    (("command.line", "resolved.model"), "model, line"),
  ],
)
def test_missing_entries_are_named_groups_first(missing, named):
  config = build(SPEC)
  for place in missing:
    group, _, name = place.partition(".")
    if name:
      del config[group][name]
    else:
      del config[group]
  assert configuration.problem(config) == f"it lacks {named}"


def differences(saved, present):
  return list(configuration.differences(saved, present))


def test_the_same_run_does_not_differ():
  saved = build(SPEC, "3-7")
  assert differences(saved, build(SPEC, "3-7")) == []
  # A spec may also state values that would follow from the task.
  said = ASKED_LITTLE.replace(clients_per_round=10, hparams={"gamma": 1})
  assert differences(build(ASKED_LITTLE), build(said)) == []


@pytest.mark.parametrize(
  ("changes", "found"),
  [
    ({"batch_size": 32}, ["batch_size=16 (here 32)"]),
    ({"hparams": {"q": 2}}, ["hparam.q=0.5 (here 2)"]),
    # This value equals the default.
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


def test_a_saved_run_is_compared_with_one_that_has_not_started():
  saved = build(ASKED_LITTLE, 10, "stacked")
  for spec in (
    ASKED_LITTLE,
    ASKED_LITTLE.replace(clients_per_round=10),
    ASKED_LITTLE.replace(aggregation="stacked"),
  ):
    assert configuration.differences_from_spec(saved, spec) == {}
  other = ASKED_LITTLE.replace(clients_per_round=9, seed=5)
  found = configuration.differences_from_spec(saved, other)
  assert found.keys() == {"clients_per_round", "seed"}
  assert found["seed"] == (4, 5)
  # The saved run sets a value that the spec leaves open.
  asked = build(ASKED_LITTLE.replace(clients_per_round=20), 20, "stacked")
  found = configuration.differences_from_spec(asked, ASKED_LITTLE)
  assert found == {"clients_per_round": (20, None)}


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
  assert configuration.differences_from_spec(saved, spec) == {}
  path.write_text(f"{text}# Changed.")
  assert differences(saved, build(spec)) == [
    f"another version of the file of {name}={path}:{function} (to resume, put "
    "that version back)"
    for name, function in (("model", "build"), ("task", "load"))
  ]
  found = configuration.differences_from_spec(saved, spec)
  before, now = found["model_file"]
  assert saved["own_files"]["model"].startswith(before)
  assert before != now
  # Another file, or none, is a difference like that of a setting.
  assert differences(saved, build(RunSpec()))[0].startswith("task=")
