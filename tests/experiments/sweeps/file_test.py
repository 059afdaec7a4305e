import re

import pytest

from binaries.command_line import UsageError
from tests.binaries import sweep_arguments
from tff_fair.experiments.sweeps import file as sweep_file

WHOLE = """
title = "All there is"
[flags]
task = "digits"
task_option = ["num_clients=20", "model=mlp"]
total_rounds = 5
client_learning_rate = 1e-2
[grid]
seed = [0, 1]
hparam.q = [1]
"task_option.test_fraction" = [0.1, 0.5]
[[methods]]
algorithm = "fedavg"
[[methods]]
name = "q-FedAvg"
algorithm = "qfedavg"
hparam.q = [5, 0.1]
hparam.other = true
flags = {loss_at = "after", task_option = ["model=cnn"]}
grid = {client_learning_rate = [0.1, 0.2]}
"""
METHOD = '[[methods]]\nalgorithm = "fedavg"\n'


@pytest.fixture
def read(tmp_path):
  def run(text, *arguments):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with sweep_arguments.given(f"--file={path}", *arguments):
      return sweep_file.read()

  return run


def test_a_file_is_read(read):
  sweep = read(WHOLE)
  assert sweep.title == "All there is"
  assert sweep.common == {
    "task": ["digits"],
    "task_option.num_clients": ["20"],
    "task_option.model": ["mlp"],
    "total_rounds": ["5"],
    "client_learning_rate": ["0.01"],
    "seed": ["0", "1"],
    "hparam.q": ["1"],
    "task_option.test_fraction": ["0.1", "0.5"],
  }
  assert sweep.varying == {"seed", "hparam.q", "task_option.test_fraction"}
  assert sweep.final == {}
  first, second = sweep.methods
  assert (first.name, first.algorithm, first.grid) == ("fedavg", "fedavg", {})
  assert (second.name, second.algorithm) == ("q-FedAvg", "qfedavg")
  assert second.grid == {
    "hparam.q": ["5", "0.1"],
    "hparam.other": ["true"],
    "loss_at": ["after"],
    "task_option.model": ["cnn"],
    "client_learning_rate": ["0.1", "0.2"],
  }


def test_a_sweep_may_do_without_a_file():
  with sweep_arguments.given(
    "--algorithms=fedavg,term",
    "--flag=total_rounds=3",
    "--flag=task_option.model=mlp",
    "--grid=seed=0,1",
    "--grid=hparam.t=1,2",
  ):
    sweep = sweep_file.read()
  assert [method.algorithm for method in sweep.methods] == ["fedavg", "term"]
  assert sweep.final == {
    "total_rounds": ["3"],
    "task_option.model": ["mlp"],
    "seed": ["0", "1"],
    "hparam.t": ["1", "2"],
  }
  assert sweep.varying == {"seed", "hparam.t"}


def test_the_command_line_picks_methods_of_a_file(read):
  for name in ("qfedavg", "q-FedAvg"):
    sweep = read(WHOLE, f"--algorithms={name}", "--flag=total_rounds=1")
    assert [method.name for method in sweep.methods] == ["q-FedAvg"]
    assert sweep.final == {"total_rounds": ["1"]}
  with pytest.raises(UsageError, match=r"is not in .*; it has fedavg, qfedavg"):
    read(WHOLE, "--algorithms=term")


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("", "expected one [[methods]] or more"),
    ("x = ", "sweep.toml: Invalid value"),
    (f"[flag]\n{METHOD}", "unknown 'flag'; expected title, flags, grid, meth"),
    (f"title = 5\n{METHOD}", "title must be a text, found 5"),
    ("methods = 5", "expected one [[methods]]"),
    ("methods = [5]", "[[methods]] number 1: must be a table, found 5"),
    ("[[methods]]\nname = 'x'", "number 1: algorithm must be a text, found No"),
    ("[[methods]]\nalgorithm = 5", "number 1: algorithm must be a text, found"),
    (f"{METHOD}hparm.q = 5", "number 1: unknown 'hparm'; expected name, alg"),
    (f"{METHOD}hparam = 5", "number 1 (fedavg): expected hparam.NAME"),
    (f"{METHOD}hparam.q = []", "hparam.q must be a list of values, found []"),
    (f"{METHOD}hparam.q = [[1]]", "hparam.q must be a text, a number, true"),
    (f"{METHOD}hparam.q = 1979-05-27", "hparam.q must be a text, a number"),
    (f"{METHOD}flags = 5", "number 1 (fedavg): flags: must be a table, found"),
    (
      f"{METHOD}{METHOD}flags = {{rounds = 5}}",
      "number 2 (fedavg): flags: rounds: is no flag of training; valid: ",
    ),
    (f"[flags]\nseed = 1\n[grid]\nseed = [1]\n{METHOD}", "[grid]: seed has a"),
    (f"[flags]\nseed = [1]\n{METHOD}", "[flags]: seed must be one value"),
    (f"[flags]\ntotal_rounds = 0\n{METHOD}", "[flags]: total_rounds=0: "),
    (f"[flags]\ntotal_rounds = 'x'\n{METHOD}", "[flags]: total_rounds=x: "),
    (f"[flags]\nloss_at = 'never'\n{METHOD}", "[flags]: loss_at=never: "),
    (f"[flags]\noutput_dir = 'x'\n{METHOD}", "the sweep gives each run a fol"),
    (f"[flags]\ntask_option = ['x']\n{METHOD}", "task_option=x: expected NAM"),
    (
      f"[flags]\ntask_option = ['x=1', 'x=2']\n{METHOD}",
      "[flags]: task_option.x is given twice",
    ),
    (f"[grid]\nseed = 1\n{METHOD}", "[grid]: seed must be a list of values"),
    (f"[grid]\nseed = []\n{METHOD}", "[grid]: seed must be a list of values"),
    (f"[grid]\nseed = [1, 1]\n{METHOD}", "[grid]: seed has a value twice"),
    (
      f"[grid]\nalgorithm = ['x']\n{METHOD}",
      "methods are named by [[methods]]",
    ),
  ],
)
def test_a_mistake_is_one_line_that_names_the_place(read, text, message):
  with pytest.raises(UsageError) as error:
    read(text)
  assert re.match(r"--file=\S*/sweep\.toml: ", str(error.value))
  assert message in str(error.value)


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([], "--algorithms: is missing"),
    (["--algorithms="], "--algorithms: is missing"),
    (["--algorithms=term", "--grid=seed"], "--grid=seed: expected NAME=VALUE"),
    (["--algorithms=term", "--flag==1"], "--flag==1: expected NAME=VALUE"),
    (["--algorithms=term", "--grid=rounds=1,2"], "--grid: rounds: is no flag"),
    (["--algorithms=term", "--grid=seed=1,"], "--grid: seed=: "),
    (["--algorithms=term", "--flag=seed=x"], "--flag: seed=x: "),
    (["--algorithms=term", "--grid=seed=1", "--flag=seed=2"], "has a fixed v"),
    (
      ["--algorithms=term", "--grid=seed=1", "--grid=seed=2"],
      "--grid=seed=2: seed is given twice",
    ),
    (["--file=nowhere"], "there is no such file; give the path of one, or one"),
  ],
)
def test_mistakes_on_the_command_line_are_told(arguments, message):
  with (
    sweep_arguments.given(*arguments),
    pytest.raises(UsageError) as error,
  ):
    sweep_file.read()
  assert message in str(error.value)
