import pytest

from binaries import sweep as sweep_program
from binaries.command_line import UsageError
from binaries.flags import sweep_flags
from tests.binaries import in_process, sweep_arguments
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
    (
      ["--algorithms=fedawg"],
      "--algorithms: unknown algorithm 'fedawg'; did you mean fedavg",
    ),
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


def executor(*arguments, is_search=False):
  with sweep_arguments.given(*arguments):
    return sweep_flags.executor(is_search=is_search)


@pytest.mark.parametrize(
  ("arguments", "is_search", "room"),
  [
    ([], False, 1),
    (["--jobs=2"], False, 2),
    ([], True, 1),
    (["--executor=submitit", "--executor_option=cluster=local"], False, 999),
    (["--executor=submitit", "--executor_option=cluster=local"], True, 1),
    (
      ["--executor=submitit", "--executor_option=cluster=local", "--jobs=2"],
      True,
      2,
    ),
  ],
)
def test_jobs_limit_the_runs_that_go_on(arguments, is_search, room):
  found = executor(*arguments, is_search=is_search)
  assert found.has_room(room - 1)
  assert found.has_room(room) == (room == 999)


def test_an_executor_option_is_an_assignment():
  with pytest.raises(UsageError, match=r"--executor_option=x: expected NAME="):
    executor("--executor=dask", "--executor_option=x")


def test_a_dry_run_shows_the_executor(tmp_path):
  arguments = (
    *("--algorithms=fedavg", "--dry_run", f"--output_dir={tmp_path}/out"),
    *("--executor=dask", "--jobs=3"),
  )
  with sweep_arguments.given():  # Puts the flags back.
    shown = in_process.run(sweep_program, sweep_flags.NAMESPACE, *arguments)
    refused = in_process.run(
      sweep_program,
      sweep_flags.NAMESPACE,
      *arguments,
      "--executor_option=threads=2",
    )
  assert shown.stdout.splitlines()[1:] == [
    "1 runs: 1 new",
    "Executor: dask (a local cluster of 3, restarts=3)",
  ]
  assert refused.status == 2
  assert refused.stderr == (
    "sweep: --executor_option=threads=2: unknown; valid: scheduler, restarts.\n"
  )
