import re

import pytest

from binaries.command_line import UsageError
from tests.binaries import sweep_arguments
from tests.experiments import run_folders
from tff_fair.experiments.sweeps import file as sweep_file
from tff_fair.experiments.sweeps import plan as sweep_plan


def expand(*arguments):
  with sweep_arguments.given(*arguments):
    return sweep_plan.expand(sweep_file.read())


@pytest.fixture
def expand_file(tmp_path):
  def run(text, *arguments):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    return expand(f"--file={path}", *arguments)

  return run


def names(planned):
  return [run.name for run in planned]


def test_every_combination_is_run_seed_by_seed():
  planned = expand(
    "--algorithms=fedavg,adafed",
    "--grid=seed=1,0",
    "--grid=hparam.gamma=0.1,1",
    "--flag=total_rounds=3",
  )
  # A hyperparameter for all is for those that have it.
  assert names(planned) == [
    "fedavg-seed=0",
    "adafed-gamma=0.1-seed=0",
    "adafed-gamma=1-seed=0",
    "fedavg-seed=1",
    "adafed-gamma=0.1-seed=1",
    "adafed-gamma=1-seed=1",
  ]
  assert planned[1].arguments == (
    "--algorithm=adafed",
    "--hparam=gamma=0.1",
    "--total_rounds=3",
    "--seed=0",
  )
  assert planned[1].hparams == {"gamma": 0.1}
  assert planned[1].flags["total_rounds"] == 3


def test_a_run_without_a_grid_has_the_seed_of_training():
  (run,) = expand("--algorithms=fedavg")
  assert (run.name, run.flags["seed"]) == ("fedavg-seed=0", 0)


def test_what_is_said_of_a_method_replaces_what_is_said_for_all(expand_file):
  text = """
[flags]
task_option = ["num_clients=20", "test_fraction=0.2"]
client_learning_rate = 0.5
[grid]
batch_size = [8]
[[methods]]
algorithm = "fedavg"
[[methods]]
name = "Own"
algorithm = "term"
hparam.t = 2
flags = {client_learning_rate = 0.1, task_option = ["num_clients=10"]}
grid = {batch_size = [4, 16]}
"""
  common, first, second = expand_file(text)
  assert common.name == "fedavg-batch_size=8-seed=0"
  assert common.task_options == {"num_clients": "20", "test_fraction": "0.2"}
  assert common.flags["client_learning_rate"] == 0.5
  assert first.name == (
    "term-t=2-num_clients=10-client_learning_rate=0.1-batch_size=4-seed=0"
  )
  assert first.method == "Own"
  assert first.task_options == {"num_clients": "10", "test_fraction": "0.2"}
  assert second.flags["batch_size"] == 16
  # The command line replaces both.
  again = expand_file(text, "--flag=client_learning_rate=7")
  assert {run.flags["client_learning_rate"] for run in again} == {7.0}
  assert [run.name for run in again if run.method == "fedavg"] == [common.name]


def test_names_are_file_names():
  (run,) = expand("--algorithms=fedavg", "--grid=data_dir=/a b/ü")
  assert re.fullmatch(r"fedavg-data_dir=_a_b_-seed=0-[0-9a-f]{8}", run.name)
  (alone,) = expand("--algorithms=fedavg", "--grid=data_dir=/a b")
  planned = expand("--algorithms=fedavg", "--grid=data_dir=/a/b,/a b")
  assert len(set(names(planned))) == 2
  assert alone.name in names(planned)  # Values can be added later.
  assert all(
    name.startswith("fedavg-data_dir=_a_b-s") for name in names(planned)
  )
  assert names(planned) == names(
    expand("--algorithms=fedavg", "--grid=data_dir=/a/b,/a b")
  )
  (run,) = expand("--algorithms=fedavg", f"--grid=data_dir={'x' * 500}")
  assert len(run.name) < 200


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (
      ["--algorithms=fedawg"],
      "--algorithms: unknown algorithm 'fedawg'; valid",
    ),
    (["--algorithms=fedavg", "--grid=hparam.q=1"], "no hyperparameter of fed"),
    (
      ["--algorithms=term", "--flag=hparam.t=x"],
      "--hparam=t=x: expected a num",
    ),
    (
      ["--algorithms=term", "--flag=task=nothing"],
      "--task=nothing: unknown task; valid: digits",
    ),
    (["--algorithms=term", "--flag=task_option.x=1"], "unknown option 'x'"),
    (
      ["--algorithms=afl", "--flag=aggregation=streaming"],
      "not possible for a",
    ),
    (["--algorithms=term", "--flag=client_learning_rate=-1"], "positive, fini"),
    (["--algorithms=term,term"], "is the same run as term-seed=0 of"),
    (["--algorithms=term", "--grid=hparam.t=1,1.0"], "is the same run as"),
  ],
)
def test_mistakes_are_told_before_the_first_run(arguments, message):
  with pytest.raises(UsageError) as error:
    expand(*arguments)
  assert str(error.value).startswith("--")
  assert message in str(error.value)


def test_a_default_that_is_given_makes_no_other_run(expand_file):
  with pytest.raises(
    UsageError, match=r"number 2 \(term\): .* the same run as"
  ):
    expand_file(
      '[[methods]]\nalgorithm = "term"\n'
      '[[methods]]\nalgorithm = "term"\nhparam.t = 1'
    )


def test_methods_that_the_command_line_makes_one_are_run_once(expand_file):
  one = '[[methods]]\nalgorithm = "term"\nhparam.t = 1\n'
  two = '[[methods]]\nalgorithm = "term"\nhparam.t = [2, 3]\n'
  assert len(expand_file(one + two)) == 3
  (run,) = expand_file(one + two, "--grid=hparam.t=5")
  assert run.hparams == {"t": 5.0}
  # Which of two names the run should have would not be clear.
  with pytest.raises(UsageError, match=r"number 2 \(Term\): .* the same run"):
    expand_file(f'{one}{two}name = "Term"\n', "--grid=hparam.t=5")
  # These were the same before.
  with pytest.raises(UsageError, match=r"number 2 \(term\): .* the same run"):
    expand_file(one + one, "--grid=hparam.t=5", "--grid=seed=0")


def test_an_hparam_of_another_method_is_a_mistake(expand_file):
  with pytest.raises(
    UsageError, match=r"number 1 \(fedavg\): .*hyperparameter"
  ):
    expand_file('[[methods]]\nalgorithm = "fedavg"\nhparam.t = 1')


class TestState:
  @pytest.fixture
  def run(self):
    (run,) = expand(
      "--algorithms=term", "--flag=total_rounds=2", "--flag=hparam.t=2"
    )
    return run

  def make(self, path, **settings):
    settings = {
      "algorithm": "term",
      "hparams": {"t": 2.0},
      "clients_per_round": 10,  # What it came to.
      "workers": ["somewhere:1"],
      **settings,
    }
    return run_folders.make(path, **settings)

  def test_new(self, run, tmp_path):
    assert sweep_plan.state(run, tmp_path / "x") == "new"
    (tmp_path / "config.json").touch()
    assert sweep_plan.state(run, tmp_path) == "new"

  def test_finished_and_interrupted(self, run, tmp_path):
    path = self.make(tmp_path / "a")
    assert sweep_plan.state(run, path) == "finished"
    path = self.make(tmp_path / "b", is_finished=False)
    assert sweep_plan.state(run, path) == "interrupted"

  @pytest.mark.parametrize(
    ("settings", "message"),
    [
      ({"total_rounds": 3}, "a run with --total_rounds=3 (here 2)"),
      ({"hparams": {"t": 1.0}}, "a run with --hparam=t=1.0 (here 2.0)"),
      ({"seed": 1}, "a run with --seed=1 (here 0)"),
      ({"algorithm": "fedavg"}, "a run with --algorithm=fedavg (here term)"),
      ({"task_option": ["a=1"]}, "a run with --task_option=a=1 (here None)"),
      (
        {"server_learning_rate": 0.5, "command": "--server_learning_rate=0.5"},
        "a run with --server_learning_rate=0.5 (here None)",
      ),
      (
        {"clients_per_round": 5, "command": "--clients_per_round=5"},
        "a run with --clients_per_round=5 (here None)",
      ),
    ],
  )
  def test_another_run_is_in_the_way(self, run, tmp_path, settings, message):
    path = self.make(tmp_path / "a", **settings)
    with pytest.raises(UsageError) as error:
      sweep_plan.state(run, path)
    assert message in str(error.value)

  def test_a_flag_that_a_run_did_not_have_yet_was_its_default(self, tmp_path):
    path = self.make(tmp_path / "a")
    (run,) = expand(
      "--algorithms=term",
      *("--flag=total_rounds=2", "--flag=hparam.t=2", "--flag=dropout=0.2"),
    )
    with pytest.raises(UsageError, match=r"--dropout=0\.0 \(here 0\.2\)"):
      sweep_plan.state(run, path)

  def test_something_else_is_in_the_way(self, run, tmp_path):
    (tmp_path / "metrics.csv").touch()
    with pytest.raises(
      UsageError, match=r"holds metrics\.csv, which is not of"
    ):
      sweep_plan.state(run, tmp_path)
