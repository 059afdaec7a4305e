"""Tests of the flags of a run: its settings, and how it is computed."""

import inspect
import socket

import pytest
from absl import flags

import tasks
from binaries import command_line, train as train_program
from binaries.command_line import UsageError
from binaries.flags import run_flags, sweep_flags
from tests import source_tree
from tests.binaries import in_process
from tff_fair import experiments, methods
from tff_fair.experiments import FieldError, RunSpec

pytestmark = pytest.mark.pure


def spec(*arguments):
  with in_process.given(*arguments):
    return run_flags.spec()


DEFAULT_RUN = RunSpec(
  task="synthetic",
  task_options={"test_fraction": 0.4},
  algorithm="adafedadam",
  hparams={"learning_rate": 0.01},
  sampling="all",
  client_learning_rate=0.03,
  total_rounds=50,
  data_seed=21,
)


def test_without_flags_it_is_the_default_run():
  assert spec() == RunSpec()


@pytest.mark.parametrize(
  ("arguments", "expected", "baseline"),
  [
    ([], DEFAULT_RUN, True),
    (["--seed=3"], DEFAULT_RUN.replace(seed=3), True),
    (["--output_dir=run"], DEFAULT_RUN, True),
    (["--baseline=none"], DEFAULT_RUN, False),
    (
      ["--flagfile=binaries/flagfiles/synthetic_adafedadam.flags"],
      *(DEFAULT_RUN, False),
    ),
    (["--total_rounds=3"], DEFAULT_RUN.replace(total_rounds=3), True),
    (["--algorithm=adafed"], RunSpec(), False),
    (
      ["--task_option=num_clients=12"],
      *(RunSpec(task_options={"num_clients": 12}), False),
    ),
    (
      ["--algorithm=term", "--baseline=fedavg"],
      *(RunSpec(algorithm="term"), True),
    ),
  ],
)
def test_without_an_experiment_the_default_run_trains(
  arguments, expected, baseline, monkeypatch
):
  monkeypatch.chdir(source_tree.ROOT)
  with in_process.given(*arguments):
    assert run_flags.has_baselines() == baseline
    run_flags.take_default_run()
    assert run_flags.spec() == expected


def test_later_options_replace_those_of_a_flagfile(tmp_path):
  path = tmp_path / "mine.flags"
  path.write_text("--task=table\n--task_option=file=a\n--task_option=label=y\n")
  with in_process.given():
    words = [f"--flagfile={path}", "--task_option=file=b"]
    parsed = command_line.parse(["train", *words], [], flags.FLAGS)
    assert parsed == []
    assert sorted(flags.FLAGS.task_option) == ["file=b", "label=y"]
    twice = ["--task_option=file=a", "--task_option=file=b"]
    command_line.parse(["train", "--task=table", *twice], [], flags.FLAGS)
    with pytest.raises(FieldError, match="twice"):
      run_flags.spec()


@pytest.mark.parametrize(
  ("rates", "expected"), [("", (0.5, 0.5)), ("2", (2, 2)), ("2,3", (2, 3))]
)
def test_both_fedavgs_are_baselines_at_rates_of_their_own(rates, expected):
  arguments = ["--algorithm=fedfv", "--client_learning_rate=0.5"]
  arguments += [f"--baseline_client_learning_rate={rates}"] if rates else []
  with in_process.given(*arguments, "--baseline=fedavg"):
    run = run_flags.spec()
    found = run_flags.baselines(run)
  assert [spec.client_weighting for spec in found] == [
    *("num_examples", "uniform")
  ]
  assert {spec.algorithm for spec in found} == {"fedavg"}
  assert tuple(spec.client_learning_rate for spec in found) == expected
  assert run.client_learning_rate == 0.5


@pytest.mark.parametrize(("rates", "expected"), [("", 0.1), ("0.3", 0.3)])
def test_fedavg_has_a_rate_of_its_own_beside_the_default_run(rates, expected):
  arguments = [f"--baseline_client_learning_rate={rates}"] if rates else []
  with in_process.given(*arguments):
    run_flags.take_default_run()
    found = run_flags.baselines(run_flags.spec())
  assert {spec.client_learning_rate for spec in found} == {expected}
  assert all(spec.data_seed == DEFAULT_RUN.data_seed for spec in found)


@pytest.mark.parametrize(
  ("rates", "more", "problem"),
  [
    ("0.1", "--baseline=none", "applies to --baseline=fedavg"),
    ("0.1,0.2,0.3", "--baseline=fedavg", "expected one rate, or two"),
    ("0", "--baseline=fedavg", "client_learning_rate"),
    ("x", "--baseline=fedavg", "client_learning_rate"),
  ],
)
def test_rates_of_baselines_are_checked(rates, more, problem):
  flag = f"--baseline_client_learning_rate={rates}"
  line = in_process.run(train_program, flag, more).refusal
  assert line.startswith("train: --baseline_client_learning_rate")
  assert problem in line


def test_every_setting_has_a_flag_with_its_default():
  values = command_line.flag_values(run_flags.GROUPS)
  fields = RunSpec.fields()
  assert {**values, **{n: f.default for n, f in fields.items()}} == values
  assert values.keys() - fields.keys() - {*run_flags.COMPUTE_FLAGS} == {
    *("task_option", "hparam", "output_dir", "list"),
    *("baseline", "baseline_client_learning_rate"),
  }


def test_texts_become_values():
  assert spec(
    "--algorithm=fedfv",
    "--hparam=tau=1",
    "--hparam=order=random",
    "--task_option=num_clients=12",
    "--client_learning_rate=1",
    "--clients_per_round= 3 - 6 ",
    "--local_epochs=2-2",
    "--measure_improvement",
    "--save_updates=10",
    "--personal_lam=0",
    "--data_dir=somewhere",
    "--model_seed=3",
  ) == RunSpec(
    algorithm="fedfv",
    hparams={"tau": 1, "order": "random"},
    task_options={"num_clients": 12},
    client_learning_rate=1.0,
    clients_per_round="3-6",
    local_epochs=2,
    measure_improvement=True,
    save_updates=10,
    personal_lam=0.0,
    data_dir="somewhere",
    model_seed=3,
  )
  assert spec("--local_steps=3-3").local_steps == 3
  assert spec("--measure_improvement", "--nomeasure_improvement") == RunSpec()


@pytest.mark.parametrize(
  ("words", "tape"),
  [
    (["--tape"], True),
    (["--tape=updates"], "updates"),
    (["--tape=updates", "--notape"], False),
  ],
)
def test_a_flag_that_stands_alone_may_take_a_value(words, tape):
  assert spec(*words) == RunSpec(tape=tape)


# Tests of the catalog's entries, one for each task and method.


NAMES = (*tasks.names(), *methods.names())


def values(text):
  """Returns the lines of an entry that show a value, as name=default."""
  lines = (line for line in text.splitlines() if line[:2] == "  ")
  return [line.strip() for line in lines if line[2] != " "]


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_shows_each_of_its_values(name):
  text = run_flags.catalog_entry(name)
  assert max(map(len, text.splitlines())) <= 80
  fields = (
    methods.hyperparameters(name)
    if name in methods.names()
    else tasks.option_fields(name)
  )
  meanings = {n: field.meaning for n, field in fields.items()}
  shown = [line.split("=")[0] for line in values(text)]
  assert shown == ([*meanings] or ["none"])
  assert all(m in " ".join(text.split()) for m in meanings.values())


def test_types_choices_defaults_and_bounds_are_shown():
  text = " ".join(run_flags.catalog_entry("fedfv").split())
  assert "alpha=0.1 A finite number, in [0, 1]. Share of the clients" in text
  assert "order=loss One of loss, random, reverse. Order of the" in text
  text = " ".join(run_flags.catalog_entry("qfedavg").split())
  assert "lipschitz=none A finite number or none, in (0, inf)." in text
  text = " ".join(run_flags.catalog_entry("digits").split())
  assert "num_clients=30 An integer or none, in [1, inf). Number of" in text


@pytest.mark.parametrize("name", ["digits", "fedfv"])
def test_the_program_shows_the_entry_of_a_name(program, name):
  expected = (0, f"{run_flags.catalog_entry(name)}\n", "")
  assert program(f"--list={name}") == expected
  assert program("--list", name) == expected
  assert program("--seed=1", "--list", name, "--batch_size=3") == expected


@pytest.mark.parametrize("words", [["--list=xyz"], ["--list", "xyz"]])
def test_an_unknown_name_is_one_line(program, words):
  line = program(*words).refusal
  assert line.startswith(
    "train: --list=xyz: unknown name; --list without a name "
  )


# Tests of the flags that decide how runs are computed.


def options(*arguments):
  namespace = flags.FlagValues()
  run_flags.define_compute_flags(namespace)
  namespace(["program", *arguments])
  return run_flags.compute_options(namespace)


def test_training_and_sweeps_have_the_same():
  assert {*run_flags.COMPUTE_FLAGS} <= {*flags.FLAGS} & {*sweep_flags.NAMESPACE}


def test_without_flags_it_is_as_a_run_is_by_default():
  parameters = inspect.signature(experiments.run).parameters
  assert options() == {name: parameters[name].default for name in options()}


def test_texts_become_values_of_computing():
  changed = {"wandb": "fair", "compilation_cache": False, "engine": "local"}
  given = options("--wandb=fair", "--nocompilation_cache", "--engine=local")
  assert given == {**options(), **changed}
  assert options("--wandb=") == options()


# Tests of the flags of Dask clusters.


@pytest.fixture
def address():
  """Yields an address that accepts TCP connections."""
  with socket.create_server(("127.0.0.1", 0)) as server:
    yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


def test_a_cluster_is_a_choice_of_the_engine(address):
  for given in ([], ["--engine=dask"]):
    found = options(f"--scheduler={address}", *given)
    assert (found["engine"], found["scheduler"]) == ("dask", address)
    found = options("--dask_workers=3", *given)
    assert (found["engine"], found["dask_workers"]) == ("dask", 3)


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["--engine=local"], "--engine=local: takes no Dask cluster"),
    (["--dask_workers=2"], "--dask_workers=2: starts workers on this machine"),
  ],
)
def test_flags_that_do_not_go_together_are_refused(address, arguments, message):
  with pytest.raises(UsageError, match=message):
    options(f"--scheduler={address}", *arguments)
