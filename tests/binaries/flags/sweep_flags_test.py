import functools
import importlib.util
import re

import pytest
from absl import flags

from binaries import sweep as sweep_program
from binaries.command_line import UsageError
from binaries.flags import sweep_flags
from tests.binaries import in_process
from tests.experiments import run_folders
from tests.experiments.sweeps.sweep_file_test import values
from tff_fair.declared import FieldError
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.sweeps import plan as sweep_plan, study
from tff_fair.experiments.sweeps.setting_tables import Range

given = functools.partial(in_process.given, namespace=sweep_flags.NAMESPACE)
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
  with given(*arguments):
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
    "--flag=task_option.model=mlp_64",
    "--grid=seed=0,1",
    "--grid=hparam.t=1,2",
  )
  assert [method.algorithm for method in sweep.methods] == ["fedavg", "term"]
  assert values(sweep.final) == {
    "total_rounds": ["3"],
    "task_option.model": ["mlp_64"],
    "seed": ["0", "1"],
    "hparam.t": ["1", "2"],
  }
  assert sweep.varying == {"seed", "hparam.t"}


def test_fedavg_with_equal_weights_is_a_method_of_its_own():
  sweep = read("--algorithms=fedavg,FedAvg:uniform,fedfv")
  plain, equal, _ = planned = sweep_plan.expand(sweep)
  assert [run.spec.client_weighting for run in planned] == [
    *("num_examples", "uniform", "num_examples"),
  ]
  assert plain.name == "fedavg-seed=0"
  assert equal.name == "fedavg-client_weighting=uniform-seed=0"
  assert equal.method == "FedAvg, equal weights"


@pytest.mark.parametrize(
  ("name", "number"),
  [("fedavg", 2), ("fedavg:uniform", 1), ("fedavg:num_examples", 1)],
)
@pytest.mark.parametrize("sweep", ["first_look", "since_2021_digits"])
def test_comparisons_have_both_baselines(sweep, name, number):
  found = read(f"--file={sweep}", f"--algorithms={name}", "--grid=seed=0")
  runs = sweep_plan.expand(found)
  weightings = {run.spec.client_weighting for run in runs}
  assert len(weightings) == number
  assert name.partition(":")[2] in ("", *weightings)
  assert {run.spec.algorithm for run in runs} == {"fedavg"}


def test_the_command_line_picks_methods_of_a_file(file):
  for name in ("qfedavg", "q-FedAvg"):
    sweep = read(file, f"--algorithms={name}", "--flag=total_rounds=1")
    assert [method.name for method in sweep.methods] == ["q-FedAvg"]
    assert values(sweep.final) == {"total_rounds": ["1"]}
  with pytest.raises(RunError, match=r"--algorithms=term: .*fedavg, qfedavg"):
    read(file, "--algorithms=term")


BASE = """
# A table of a user's.
--task=table
--task_option=file=hosp.csv
--task_option=client=hospital
--algorithm=AdaFed
--hparam=gamma=2
--total_rounds=7
--measure_improvement
--output_dir=outputs/hosp
"""


@pytest.fixture(params=["flags", "run"])
def base(request, tmp_path):
  """Returns the base of a sweep: a training's flag file, or a run's folder."""
  if request.param == "flags":
    path = tmp_path / "hosp.flags"
    path.write_text(BASE)
  else:
    path = tmp_path / "outputs" / "hosp"
    run_folders.make(
      path,
      task="table",
      task_options={"file": "hosp.csv", "client": "hospital"},
      algorithm="adafed",
      hparams={"gamma": 2.0},
      total_rounds=7,
      measure_improvement=True,
    )
  return f"--base={path}"


def test_a_training_is_the_base_of_a_sweep(base):
  planned = sweep_plan.expand(
    read(base, "--algorithms=fedavg,adafed", "--grid=seed=0,1")
  )
  assert [run.name for run in planned] == [
    "fedavg-seed=0",
    "adafed-gamma=2-seed=0",
    "fedavg-seed=1",
    "adafed-gamma=2-seed=1",
  ]
  assert {
    (spec.task, spec.total_rounds, spec.measure_improvement)
    for spec in (run.spec for run in planned)
  } == {("table", 7, True)}
  for run in planned:
    assert run.spec.task_options == {"file": "hosp.csv", "client": "hospital"}
  assert planned[0].spec.hparams == {}
  assert planned[1].spec.hparams == {"gamma": 2.0}


def test_all_that_a_sweep_says_replaces_its_base(base, file):
  planned = sweep_plan.expand(
    read(base, file, "--flag=task_option=client=ward", "--grid=seed=3")
  )
  assert {run.spec.total_rounds for run in planned} == {5}
  assert {run.spec.task_options["client"] for run in planned} == {"ward"}
  (run,) = sweep_plan.expand(read(base, "--flag=hparam=gamma=3"))
  assert run.spec.hparams == {"gamma": 3.0}


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("--task=tabel", "--task=tabel: unknown task; did you mean table"),
    ("--algorithm=fedavg\n--hparam=q=1", "--hparam=q=1: unknown"),
    ("--engine=local", "--engine: is not a setting of a run"),
    ("clinic,age", "'clinic,age': expected lines such as --name=value"),
  ],
)
def test_a_mistake_in_a_base_names_it(tmp_path, content, message):
  path = tmp_path / "hosp.flags"
  path.write_text(content)
  with pytest.raises(UsageError, match=f"^--base={path}: .*{message}"):
    read(f"--base={path}")


def test_a_base_is_one_run(tmp_path):
  for seed in (0, 1):
    run_folders.make(tmp_path / f"fedavg-{seed}", seed=seed)
  with pytest.raises(UsageError, match=r"2 runs.*0"):
    read(f"--base={tmp_path}")
  with pytest.raises(UsageError, match="no such file"):
    read("--base=nowhere")


def test_a_file_of_training_s_flags_is_sent_to_base(tmp_path):
  path = tmp_path / "hosp.flags"
  path.write_text(BASE)
  for word in (f"--flagfile={path}", "--task_option=file=hosp.csv"):
    line = in_process.run(sweep_program, word).refusal
    assert line.startswith("sweep: --task")
    assert "--base=FILE" in line


def test_an_included_file_is_known_by_its_name():
  assert read("--file=adafed_table_15").title.startswith("AdaFed, Table 15")


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([], "--algorithms: is missing"),
    (["--algorithms=term", "--grid=seed"], "--grid=seed: expected NAME=VALUE"),
    (["--algorithms=term", "--grid=seed=1,"], "--grid: seed=: "),
    (["--algorithms=term", "--grid=seed=1", "--flag=seed=2"], "has a fixed v"),
    (
      ["--algorithms=term", "--grid=seed=1", "--grid=seed=2"],
      "--grid=seed='2': is given twice",
    ),
    (["--file=nowhere"], "there is no such file; give the path of one, or one"),
    (["--algorithms=fedfv:uniform"], "fedfv does not use the weights of cl"),
    (["--algorithms=fedawg"], "--algorithms: unknown algorithm 'fedawg'; did"),
    (["--algorithms=term", "--grid=hparam.t=1,x"], "--grid: hparam.t=x: "),
    (["--algorithms=term", "--grid=patience=3"], "--grid: patience=3: needs a"),
  ],
)
def test_mistakes_on_the_command_line_are_told(arguments, message):
  with pytest.raises((UsageError, RunError), match=re.escape(message)):
    sweep_plan.expand(read(*arguments))


OF_METHOD = "hparam.q = [5, 0.1]\n"


@pytest.mark.parametrize(
  ("old", "new", "place"),
  [
    (OF_METHOD, "hparam.q = [-1]\n", "[[methods]] number 2 (q-FedAvg)"),
    ("seed = [0, 1]", "hparam.q = [1, -1]", "[grid]"),
    ("total_rounds = 5", "hparam.q = -1", "[flags]"),
  ],
)
def test_a_value_that_a_method_refuses_names_its_entry(
  file, tmp_path, old, new, place
):
  path = tmp_path / "sweep.toml"
  path.write_text(FILE.replace(old, new).replace(OF_METHOD, ""))
  own = f"^{re.escape(f'{file}: {place}')}: hparam.q=-1: "
  with pytest.raises(RunError, match=own):
    sweep_plan.expand(read(file))
  path.with_name("child.toml").write_text('extends = "sweep"')
  with pytest.raises(RunError, match=re.escape(f"extends sweep: {place}: hp")):
    sweep_plan.expand(read(f"--file={path.with_name('child.toml')}"))
  # --grid replaces the entry of the file.
  with pytest.raises(RunError, match=r"^--grid: hparam\.q=x: "):
    sweep_plan.expand(read(file, "--grid=hparam.q=x"))


_ON_A_CLUSTER = ["--executor=submitit", "--executor_option=cluster=local"]


@pytest.mark.parametrize(
  ("arguments", "is_search", "room"),
  [
    (["--jobs=2"], False, 2),
    (_ON_A_CLUSTER, False, 999),
    (_ON_A_CLUSTER, True, 1),
    ([*_ON_A_CLUSTER, "--jobs=2"], True, 2),
  ],
)
def test_jobs_limit_the_runs_that_go_on(arguments, is_search, room):
  with given(*arguments):
    found = sweep_flags.executor(is_search=is_search)
  assert found.has_room(room - 1)
  assert found.has_room(room) == (room == 999)


def test_a_dry_run_shows_the_executor(tmp_path):
  arguments = (
    *("--algorithms=fedavg", "--dry_run", f"--output_dir={tmp_path}/out"),
    *("--executor=dask", "--jobs=3"),
  )
  shown = in_process.run(sweep_program, *arguments)
  refused = in_process.run(
    sweep_program, *arguments, "--executor_option=threads=2"
  )
  assert shown.stdout.splitlines()[1:] == [
    "1 runs: 1 new",
    "Executor: dask (a local cluster of 3, restarts=3)",
  ]
  assert refused.refusal == (
    "sweep: --executor_option=threads=2: unknown; valid: scheduler, restarts."
  )


# Tests of searches.


SEARCH_FILE = """
[flags]
total_rounds = 5
[grid]
seed = [0, 1]
"task_option.num_clients" = [10, 20]
[range]
client_learning_rate = "0.001:1:log"
[search]
trials = 30
objective = ["mean", "worst_10"]
[[methods]]
algorithm = "fedavg"
[[methods]]
name = "q-FedAvg"
algorithm = "qfedavg"
range = {"hparam.q" = "0:5", batch_size = "4:16:4"}
"""
METHOD = "--algorithms=term"
RATES = "--range=client_learning_rate=0.001:1:log"


def read_search(*arguments):
  with given(*arguments):
    sweep = sweep_flags.sweep()
    return sweep, sweep_flags.search(sweep)


@pytest.fixture
def search_file(tmp_path):
  path = tmp_path / "sweep.toml"
  path.write_text(SEARCH_FILE)
  return f"--file={path}"


def test_a_file_says_how_to_search(search_file):
  sweep, settings = read_search(search_file)
  assert settings.trials == 30
  assert settings.objectives == ("mean", "worst_10")
  assert (settings.sampler, settings.pruner) == ("tpe", "none")
  studies = study.make_studies(sweep)
  assert [one.name for one in studies] == [
    "fedavg-num_clients=10",
    "fedavg-num_clients=20",
    "qfedavg-num_clients=10",
    "qfedavg-num_clients=20",
  ]
  for one in studies:
    assert one.seeds == ({"seed": 0}, {"seed": 1})
  assert {name: str(d) for name, d in studies[2].space.items()} == {
    "hparam.q": "0:5",
    "client_learning_rate": "0.001:1:log",
    "batch_size": "4:16:4",
  }
  settings = {"hparam.q": "2.5", "client_learning_rate": "0.1"}
  first, second = studies[2].runs({**settings, "batch_size": "8"})
  assert first.name == (
    "qfedavg-q=2.5-num_clients=10-client_learning_rate=0.1-batch_size=8-seed=0"
  )
  assert first.method == "q-FedAvg"
  assert first.spec.total_rounds == 5
  assert first.spec.hparams == {"q": 2.5}
  assert second.spec == first.spec.replace(seed=1)


def test_the_command_line_replaces_how_a_file_searches(search_file):
  sweep, settings = read_search(
    *(search_file, "--trials=4", "--objective=std", "--sampler=random"),
    *("--range=batch_size=1:64:log", "--grid=client_learning_rate=0.1,0.2"),
    *("--grid=seed=3", "--algorithms=qfedavg", "--pruner=median"),
    "--flag=task_option.num_clients=10",
  )
  assert (settings.trials, settings.objectives) == (4, ("std",))
  assert (settings.sampler, settings.pruner) == ("random", "median")
  (one,) = study.make_studies(sweep)
  assert one.seeds == ({"seed": "3"},)
  assert one.space["batch_size"].range == Range(1, 64, is_logarithmic=True)
  assert one.space["batch_size"].is_integer
  assert one.space["client_learning_rate"].choices == ("0.1", "0.2")


def test_a_study_has_the_same_name_in_every_process():
  # The order of a set of strings differs between processes.
  fixed = ("batch_size=8", "local_epochs=2", "dropout=0.1", "total_rounds=3")
  grids = (f"--grid={text}" for text in fixed)
  (one,) = study.make_studies(read_search(METHOD, RATES, *grids)[0])
  assert one.name == "-".join(["term", *fixed])


def test_the_objective_is_by_default_the_criterion():
  _, settings = read_search(
    *(METHOD, RATES, "--trials=3"),
    *("--criterion=worst_10", "--validation_fraction=0.5"),
  )
  assert settings.objectives == ("worst_10",)
  assert settings.validation_fraction == 0.5


def test_without_trials_every_combination_runs(search_file):
  assert read_search(METHOD, "--grid=seed=0,1")[1] is None
  with pytest.raises(RunError, match=r"0\.001:1:log: .*range"):
    sweep_plan.expand(read_search(METHOD, RATES)[0])
  assert read_search(search_file)[1] is not None


@pytest.mark.parametrize(
  ("arguments", "said"),
  [
    ([RATES, "--sampler=tpe"], "sampler: applies to a search; give its num"),
    ([RATES, "--trials=0"], "trials=0: expected a positive integer"),
    (["--range=seed=1"], "--range: seed=1: expected LOW:HIGH"),
    ([RATES, "--grid=client_learning_rate=1,2"], "has a --grid too"),
    (["--trials=3"], "term has nothing to search; give a range"),
    (["--trials=3", "--range=seed=0:9"], "--range: seed=0:9: decides what to"),
    (["--trials=3", "--range=hparam.t=a:1"], "hparam.t=a:1: expected LOW"),
    (
      ["--trials=3", "--range=hparam.q=0:1"],
      "hparam.q is not a hyperparameter of term; valid hyperparameters: loss",
    ),
  ],
)
def test_mistakes_in_searches_are_errors(arguments, said):
  kinds = (flags.Error, UsageError, RunError, FieldError)
  with pytest.raises(kinds, match=re.escape(said)):
    study.make_studies(read_search(METHOD, *arguments)[0])


def test_a_missing_package_is_told_in_a_line(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
  with pytest.raises(FieldError, match="the extra search; install it with"):
    read_search(METHOD, RATES, "--trials=3")


@pytest.mark.parametrize(
  ("line", "said"),
  [
    ("[search]\nnumber = 3", "search: .*unknown 'number'; valid: trials, "),
    ("search = 3", "search must be a table"),
    ("[search]\nobjective = 3", "objective=3: expected a text"),
    ('[range]\nbatch_size = "4"', "batch_size=4: expected LOW:HIGH"),
    ('[range]\nseed = "0:4"\n[grid]\nseed = [1]', "seed has values of a grid"),
  ],
)
def test_mistakes_in_a_file_are_told(tmp_path, line, said):
  path = tmp_path / "sweep.toml"
  path.write_text(f'{line}\n[[methods]]\nalgorithm = "fedavg"\n')
  with pytest.raises(ValueError, match=said):
    read_search(f"--file={path}", "--trials=2")
