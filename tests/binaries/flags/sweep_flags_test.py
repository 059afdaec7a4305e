import pytest

from binaries.command_line import UsageError
from binaries.flags import sweep_flags
from tests.binaries import sweep_arguments
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.sweeps import plan as sweep_plan

FILE = """
[flags]
total_rounds = 5
[grid]
seed = [0, 1]
[[methods]]
algorithm = "fedavg"
[[methods]]
name = "q-FedAvg"
algorithm = "qfedavg"
hparam.q = [5, 0.1]
"""


def read(*arguments):
  with sweep_arguments.given(*arguments):
    return sweep_flags.sweep()


@pytest.fixture
def file(tmp_path):
  path = tmp_path / "sweep.toml"
  path.write_text(FILE)
  return f"--file={path}"


def test_a_sweep_may_do_without_a_file():
  sweep = read(
    "--algorithms=fedavg,term",
    "--flag=total_rounds=3",
    "--flag=task_option.model=mlp",
    "--grid=seed=0,1",
    "--grid=hparam.t=1,2",
  )
  assert [method.algorithm for method in sweep.methods] == ["fedavg", "term"]
  assert sweep.final == {
    "total_rounds": ["3"],
    "task_option.model": ["mlp"],
    "seed": ["0", "1"],
    "hparam.t": ["1", "2"],
  }
  assert sweep.varying == {"seed", "hparam.t"}


def test_the_command_line_picks_methods_of_a_file(file):
  for name in ("qfedavg", "q-FedAvg"):
    sweep = read(file, f"--algorithms={name}", "--flag=total_rounds=1")
    assert [method.name for method in sweep.methods] == ["q-FedAvg"]
    assert sweep.final == {"total_rounds": ["1"]}
  with pytest.raises(RunError, match=r"is not in .*; it has fedavg, qfedavg"):
    read(file, "--algorithms=term")


def test_the_command_line_replaces_what_a_file_says(file):
  planned = sweep_plan.expand(
    read(file, "--grid=seed=7", "--flag=hparam.q=2", "--flag=dropout=0.5")
  )
  assert [run.name for run in planned] == [
    "fedavg-seed=7",
    "qfedavg-q=2-seed=7",
  ]
  assert {run.spec.dropout for run in planned} == {0.5}
  assert planned[1].spec.hparams == {"q": 2.0}


def test_an_included_file_is_known_by_its_name():
  assert read("--file=adafed_table_15").title.startswith("AdaFed, Table 15")


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([], "--algorithms: is missing"),
    (["--algorithms="], "--algorithms: is missing"),
    (["--algorithms=term", "--grid=seed"], "--grid=seed: expected NAME=VALUE"),
    (["--algorithms=term", "--flag==1"], "--flag==1: expected NAME=VALUE"),
    (
      ["--algorithms=term", "--grid=rounds=1,2"],
      "--grid: rounds: is no setting",
    ),
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
  with pytest.raises((UsageError, RunError)) as error:
    read(*arguments)
  assert message in str(error.value)


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["--algorithms=fedawg"], "--algorithms: unknown algorithm 'fedawg'; va"),
    (["--algorithms=fedavg", "--grid=hparam.q=1"], "--grid: hparam.q is no hy"),
    (["--algorithms=term", "--flag=hparam.t=x"], "--algorithms: hparam.t=x: "),
  ],
)
def test_mistakes_in_a_plan_name_the_flag(arguments, message):
  with pytest.raises(RunError) as error:
    sweep_plan.expand(read(*arguments))
  assert str(error.value).startswith(message)


def test_a_mistake_in_a_file_names_the_flag(file):
  with pytest.raises(RunError) as error:
    sweep_plan.expand(read(file, "--flag=hparam.q=x"))
  assert str(error.value).startswith(f"{file}: [[methods]] number 2 (q-FedAvg)")
