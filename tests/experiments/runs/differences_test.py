import os
import sys

import pytest

from tests.experiments.runs.made_configurations import (
  ASKED_LITTLE,
  SPEC,
  build,
)
from tff_fair.experiments import RunSpec
from tff_fair.experiments.runs import differences as run_differences


def differences(saved, present):
  return list(run_differences.of_configurations(saved, present))


def test_the_same_run_does_not_differ():
  saved = build(SPEC, "3-7")
  saved["flags"]["task_option"][1] = "concentration=0.50"
  assert differences(saved, build(SPEC, "3-7")) == []
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


def test_a_saved_run_is_compared_with_one_that_has_not_started():
  saved = build(ASKED_LITTLE, 10, "stacked")
  for spec in (
    ASKED_LITTLE,
    ASKED_LITTLE.replace(clients_per_round=10),
    ASKED_LITTLE.replace(aggregation="stacked"),
  ):
    assert run_differences.from_spec(saved, spec) == {}
  other = ASKED_LITTLE.replace(clients_per_round=9, seed=5)
  found = run_differences.from_spec(saved, other)
  assert found.keys() == {"clients_per_round", "seed"}
  assert found["seed"] == (4, 5)
  # More than follows where the spec does not say it.
  asked = build(ASKED_LITTLE.replace(clients_per_round=20), 20, "stacked")
  found = run_differences.from_spec(asked, ASKED_LITTLE)
  assert found == {"clients_per_round": (20, None)}


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
