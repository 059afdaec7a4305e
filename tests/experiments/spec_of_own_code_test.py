"""Tests of runs whose task or model is a user's own code."""

import sys

import pytest

from tff_fair.experiments import FieldError, RunSpec, spec_text


@pytest.fixture
def own(tmp_path, monkeypatch):
  """Writes a file with a task and a model; returns its path."""
  monkeypatch.setattr(sys, "path", list(sys.path))
  path = tmp_path / "own.py"
  path.write_text("def load(*, number: int = 3): ...\ndef build(): ...\n")
  return path


def test_a_users_task_and_model_are_settings_like_others(own):
  spec = RunSpec(
    task=f"{own}:load",
    model=f"{own}:build",
    task_options={"number": 4},
    algorithm="fedavg",
  )
  assert spec.short_name == "load-fedavg"
  assert RunSpec.from_dict(spec.to_dict()) == spec
  assert RunSpec.from_toml(spec.to_toml()) == spec
  assert spec.effective()["task_option.number"] == 4
  assert spec.differences(spec.replace(task_options={})) == {
    "task_option.number": (4, 3)
  }
  assert f"--model={own}:build" in spec_text.command(spec)
  assert spec_text.parse_task_options(f"{own}:load", ["number=5"]) == {
    "number": 5
  }
  assert [s.task_options["number"] for s in spec.vary(number=[1, 2])] == [1, 2]


@pytest.mark.parametrize(
  ("field", "name", "message"),
  [
    ("task", "digit", "unknown task; did you mean digits"),
    ("task", "{own}:absent", "own.py has no absent; it has build, load"),
    ("task", "{own}", "unknown task"),
    ("model", "digit", "unknown model; valid models: linear, .* function of"),
    ("model", "{own}:absent", "own.py has no absent; it has build, load"),
    ("model", "absent.py:build", "there is no file absent.py in /.*"),
  ],
)
def test_a_task_or_model_that_is_not_there(own, field, name, message):
  name = name.format(own=own)
  with pytest.raises(FieldError, match=message) as caught:
    RunSpec(**{field: name})
  assert (caught.value.field, caught.value.value) == (field, name)
