import os
import sys

import pytest

from tests.experiments.runs.made_configurations import (
  ASKED_LITTLE,
  SPEC,
  build,
  older,
)
from tff_fair.experiments import RunSpec
from tff_fair.experiments.runs import configuration
from tff_fair.experiments.runs import differences as run_differences


def differences(saved, present):
  return list(run_differences.of_configurations(saved, present))


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


def test_a_saved_run_is_compared_with_one_that_has_not_started():
  saved = build(ASKED_LITTLE, 10, "stacked")
  for config in (saved, older(saved)):
    for spec in (
      ASKED_LITTLE,
      ASKED_LITTLE.replace(clients_per_round=10),
      ASKED_LITTLE.replace(aggregation="stacked"),
    ):
      assert run_differences.from_spec(config, spec) == {}
    other = ASKED_LITTLE.replace(clients_per_round=9, seed=5)
    found = run_differences.from_spec(config, other)
    assert found.keys() == {"clients_per_round", "seed"}
    assert found["seed"] == (4, 5)
  # More than follows where nobody says it.
  asked = build(ASKED_LITTLE.replace(clients_per_round=20), 20, "stacked")
  for config in (asked, older(asked)):
    found = run_differences.from_spec(config, ASKED_LITTLE)
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
    assert run_differences.from_spec(config, spec) == {}
    # Who asks for parts gets them, or is told.
    asked = spec.replace(clients_per_part=8)
    assert differences(config, build(asked, 100)) == [
      "clients_per_part=0 (here 8)"
    ]
    found = run_differences.from_spec(config, asked)
    assert found == {"clients_per_part": (0, 8)}


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
  assert run_differences.from_spec(saved, spec) == {}
  assert configuration.evaluation_interval(saved) == interval
  # The same run, begun now.
  assert configuration.evaluation_interval(build(spec)) == {3: 3}.get(given, 4)


def test_another_interval_differs():
  spec = RunSpec(total_rounds=20, rounds_per_evaluation=5)
  saved = build(spec.replace(rounds_per_evaluation=2))
  assert differences(saved, build(spec)) == ["rounds_per_evaluation=2 (here 5)"]
  assert run_differences.from_spec(saved, spec) == {
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
  assert run_differences.from_spec(saved, spec) == {}
  path.write_text(f"{text}# Changed.")
  assert differences(saved, build(spec)) == [
    f"another version of the file of {name}={path}:{function} (to go on, put "
    "that version back)"
    for name, function in (("model", "build"), ("task", "load"))
  ]
  found = run_differences.from_spec(saved, spec)
  before, now = found["model_file"]
  assert saved["own_files"]["model"].startswith(before)
  assert before != now
  # Another file, and no file, differ as settings do.
  assert differences(saved, build(RunSpec()))[0].startswith("task=")


def test_an_old_name_of_a_model_is_no_difference():
  old = build(RunSpec(task_options={"model": "mlp"}))
  for options in ({}, {"model": "mlp_64"}):
    spec = RunSpec(task_options=options)
    assert differences(old, build(spec)) == []
    assert run_differences.from_spec(old, spec) == {}
