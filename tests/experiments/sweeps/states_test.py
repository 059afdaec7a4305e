import pytest

from tests.experiments import run_folders
from tff_fair.experiments import RunSpec
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.sweeps import states

SPEC = RunSpec(algorithm="term", total_rounds=2, hparams={"t": 2})


def make(path, **settings):
  settings = {
    "algorithm": "term",
    "hparams": {"t": 2.0},
    "workers": ["somewhere:1"],
    **settings,
  }
  return run_folders.make(path, evaluations=[(2, [0.5] * 30)], **settings)


def test_new(tmp_path):
  assert states.of(SPEC, tmp_path / "x") == "new"
  (tmp_path / "config.json").touch()
  assert states.of(SPEC, tmp_path) == "new"


def test_finished_and_interrupted(tmp_path):
  path = make(tmp_path / "a")
  assert states.of(SPEC, path) == "finished"
  path = make(tmp_path / "b", is_finished=False)
  assert states.of(SPEC, path) == "interrupted"


def test_a_default_that_is_given_makes_no_other_run(tmp_path):
  path = make(tmp_path / "a")
  spec = SPEC.replace(task_options={"num_clients": 30}, clients_per_round=10)
  assert states.of(spec, path) == "finished"


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    ({"total_rounds": 3}, "a run with total_rounds=3 (here 2)"),
    ({"hparams": {"t": 1.0}}, "a run with hparam.t=1.0 (here 2.0)"),
    ({"seed": 1}, "a run with seed=1 (here 0)"),
    ({"algorithm": "fedavg"}, "a run with algorithm=fedavg (here term)"),
    (
      {"task_options": {"num_clients": 20}},
      "a run with task_option.num_clients=20 (here 30)",
    ),
    (
      {"server_learning_rate": 0.5},
      "a run with server_learning_rate=0.5 (here None)",
    ),
    ({"clients_per_round": 5}, "a run with clients_per_round=5 (here None)"),
    ({"clients_per_round": 15}, "a run with clients_per_round=15 (here None)"),
    (
      {"clients_per_round": "5-9"},
      "a run with clients_per_round=5-9 (here None)",
    ),
  ],
)
def test_another_run_is_in_the_way(tmp_path, settings, message):
  settings = (
    {"hparams": {}, **settings} if "algorithm" in settings else settings
  )
  path = make(tmp_path / "a", **settings)
  with pytest.raises(RunError) as error:
    states.of(SPEC, path)
  assert str(error.value).startswith(f"{path}: holds a run with ")
  assert message in str(error.value)


def test_something_else_is_in_the_way(tmp_path):
  (tmp_path / "metrics.csv").touch()
  with pytest.raises(RunError, match=r"holds metrics\.csv"):
    states.of(SPEC, tmp_path)
