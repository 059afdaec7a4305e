"""Tests of the flags and of the tables of a file that describe a search."""

import importlib.util

import pytest

from binaries.command_line import UsageError
from binaries.flags import search_flags, sweep_flags
from tests.binaries import sweep_arguments
from tff_fair.declared import FieldError
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.searching import study
from tff_fair.experiments.sweeps import plan
from tff_fair.experiments.sweeps.ranges import Range

FILE = """
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


def read(*arguments):
  with sweep_arguments.given(*arguments):
    sweep = sweep_flags.sweep()
    return sweep, search_flags.search(sweep)


@pytest.fixture
def file(tmp_path):
  path = tmp_path / "sweep.toml"
  path.write_text(FILE)
  return f"--file={path}"


def test_a_file_says_how_to_search(file):
  sweep, settings = read(file)
  assert settings.trials == 30
  assert settings.objectives == ("mean", "worst_10")
  assert (settings.sampler, settings.pruner) == ("tpe", "none")
  studies = study.of_sweep(sweep)
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


def test_the_command_line_replaces_what_a_file_says(file):
  sweep, settings = read(
    *(file, "--trials=4", "--objective=std", "--sampler=random"),
    *("--range=batch_size=1:64:log", "--grid=client_learning_rate=0.1,0.2"),
    *("--grid=seed=3", "--algorithms=qfedavg", "--pruner=median"),
    "--flag=task_option.num_clients=10",
  )
  assert (settings.trials, settings.objectives) == (4, ("std",))
  assert (settings.sampler, settings.pruner) == ("random", "median")
  (one,) = study.of_sweep(sweep)
  assert one.seeds == ({"seed": "3"},)
  assert one.space["batch_size"].range == Range(1, 64, is_logarithmic=True)
  assert one.space["batch_size"].is_integer
  assert one.space["client_learning_rate"].choices == ("0.1", "0.2")


def test_the_objective_is_by_default_the_criterion():
  _, settings = read(
    *(METHOD, RATES, "--trials=3"),
    *("--criterion=worst_10", "--validation_fraction=0.5"),
  )
  assert settings.objectives == ("worst_10",)
  assert settings.validation_fraction == 0.5


def test_without_trials_every_combination_runs(file):
  assert read(METHOD, "--grid=seed=0,1")[1] is None
  with pytest.raises(RunError, match=r"0.001:1:log: is a range, which takes a"):
    plan.expand(read(METHOD, RATES)[0])
  assert read(file)[1] is not None


@pytest.mark.parametrize(
  ("arguments", "said"),
  [
    ([RATES, "--sampler=tpe"], "sampler: is of a search; say how many --tr"),
    ([RATES, "--trials=0"], "trials=0: expected an integer from 1 on"),
    ([RATES, "--trials=3", "--sampler=cmaes"], "needs another package"),
    ([RATES, "--trials=3", "--objective=fair"], "unknown 'fair'; valid: mean"),
    (["--range=seed=1"], "--range: seed=1: expected LOW:HIGH"),
    (["--range=speed=1:2"], "--range: speed: is no setting of a run"),
    ([RATES, "--grid=client_learning_rate=1,2"], "has a --grid too"),
    (["--trials=3"], "term has nothing to search; give a range"),
    (["--trials=3", "--range=seed=0:9"], "decides what to search on"),
    (["--trials=3", "--range=client_learning_rate=-1:1"], "learning_rate=-1"),
    (["--trials=3", "--range=hparam.t=a:1"], "hparam.t=a:1: expected LOW"),
    (["--trials=3", "--range=hparam.q=0:1"], "hparam.q is no hyperparameter"),
  ],
)
def test_mistakes_are_told(arguments, said):
  with pytest.raises((UsageError, RunError, FieldError)) as error:
    study.of_sweep(read(METHOD, *arguments)[0])
  assert said in str(error.value)


def test_a_missing_package_is_told_in_a_line(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
  with pytest.raises(FieldError, match=r'pip install "tff-fair\[search\]"'):
    read(METHOD, RATES, "--trials=3")


@pytest.mark.parametrize(
  ("line", "said"),
  [
    ("[search]\nnumber = 3", "search: .*unknown 'number'; valid: trials, "),
    ("search = 3", "search must be a table"),
    ("[search]\nsampler = ['tpe']", r"sampler=.'tpe'.: expected a text"),
    ("[search]\npruner = {a = 1}", "pruner=.*: expected a text"),
    ("[search]\nobjective = 3", "objective=3: expected a text"),
    ('[range]\nbatch_size = "4"', "batch_size=4: expected LOW:HIGH"),
    ('[range]\nseed = "0:4"\n[grid]\nseed = [1]', "seed has values of a grid"),
  ],
)
def test_mistakes_in_a_file_are_told(tmp_path, line, said):
  path = tmp_path / "sweep.toml"
  path.write_text(f'{line}\n[[methods]]\nalgorithm = "fedavg"\n')
  with pytest.raises(ValueError, match=said):
    read(f"--file={path}", "--trials=2")
