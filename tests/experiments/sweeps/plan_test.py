import dataclasses
import re

import pytest

from tff_fair.experiments import RunSpec
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.sweeps import plan as sweep_plan, sweep_file
from tff_fair.experiments.sweeps.setting_tables import Setting


def expand(algorithms, settings=None, **grid):
  """Expands a sweep of `algorithms`, with `settings` for all of them."""
  sweep = sweep_file.from_methods(algorithms.split(","), "methods")
  return sweep_plan.expand(with_settings(sweep, settings, grid))


def with_settings(sweep, settings, grid):
  fixed = {n: Setting([text], "flag") for n, text in (settings or {}).items()}
  varying = {
    name.replace("__", "."): Setting(text.split(","), "grid", varies=True)
    for name, text in grid.items()
  }
  return dataclasses.replace(sweep, final={**fixed, **varying})


@pytest.fixture
def expand_file(tmp_path):
  def run(text, settings=None, **grid):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    return sweep_plan.expand(
      with_settings(sweep_file.read(path), settings, grid)
    )

  return run


def names(planned):
  return [run.name for run in planned]


def test_every_combination_is_run_seed_by_seed():
  planned = expand(
    "fedavg,adafed", {"total_rounds": "3"}, seed="1,0", hparam__gamma="0.1,1"
  )
  # A common hyperparameter applies only to methods that have it.
  assert names(planned) == [
    "fedavg-seed=0",
    "adafed-gamma=0.1-seed=0",
    "adafed-gamma=1-seed=0",
    "fedavg-seed=1",
    "adafed-gamma=0.1-seed=1",
    "adafed-gamma=1-seed=1",
  ]
  assert planned[1].spec == RunSpec(
    algorithm="adafed", hparams={"gamma": 0.1}, total_rounds=3, seed=0
  )


def test_values_are_typed_and_names_have_them_as_written(expand_file):
  written, typed = expand_file("""
[grid]
client_learning_rate = ["1e-1", 0.2]
[[methods]]
algorithm = "fednova"
flags = {measure_improvement = true}
""")
  assert names([written, typed]) == [
    "fednova-client_learning_rate=1e-1-measure_improvement=true-seed=0",
    "fednova-client_learning_rate=0.2-measure_improvement=true-seed=0",
  ]
  base = RunSpec(algorithm="fednova", measure_improvement=True)
  assert [written.spec, typed.spec] == base.vary(
    client_learning_rate=[0.1, 0.2]
  )


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
  assert common.spec.task_options == {"num_clients": 20, "test_fraction": 0.2}
  assert common.spec.client_learning_rate == 0.5
  assert first.name == (
    "term-t=2-num_clients=10-client_learning_rate=0.1-batch_size=4-seed=0"
  )
  assert first.method == "Own"
  assert first.spec.task_options == {"num_clients": 10, "test_fraction": 0.2}
  assert second.spec.batch_size == 16
  # Final settings replace those of all methods and those of a method.
  again = expand_file(text, {"client_learning_rate": "7"})
  assert {run.spec.client_learning_rate for run in again} == {7.0}
  assert [run.name for run in again if run.method == "fedavg"] == [common.name]


def test_names_are_file_names():
  (run,) = expand("fedavg", data_dir="/a b/ü")
  assert re.fullmatch(r"fedavg-data_dir=_a_b_-seed=0-[0-9a-f]{8}", run.name)
  (alone,) = expand("fedavg", data_dir="/a b")
  planned = expand("fedavg", data_dir="/a/b,/a b")
  assert len(set(names(planned))) == 2
  # A run keeps its name if the sweep gets further values later.
  assert alone.name in names(planned)
  assert all(
    name.startswith("fedavg-data_dir=_a_b-s") for name in names(planned)
  )
  assert names(planned) == names(expand("fedavg", data_dir="/a/b,/a b"))
  (run,) = expand("fedavg", data_dir="x" * 500)
  assert len(run.name) < 200


@pytest.mark.parametrize(
  ("algorithms", "settings", "grid", "message"),
  [
    ("term", {"hparam.t": "nan"}, {}, "hparam.t=nan: expected a"),
    (
      "term",
      {"task": "nothing"},
      {},
      "task=nothing: unknown task; valid tasks: digits",
    ),
    ("term", {"task_option.x": "1"}, {}, "task_option: unknown option 'x'"),
    ("afl", {"aggregation": "streaming"}, {}, "not possible for a"),
    ("fedavg", {"client_momentum": "0.5"}, {}, "client_momentum=0.5: expected"),
    ("fedavg", {"attack": "bias"}, {}, "attack=bias: needs a strength"),
    ("term,term", {}, {}, "is the same run as term-seed=0 of"),
    ("term", {}, {"hparam__t": "1,1.0"}, "is the same run as"),
  ],
)
def test_mistakes_are_told_before_the_first_run(
  algorithms, settings, grid, message
):
  with pytest.raises(RunError, match=f"^(methods|flag): .*{message}"):
    expand(algorithms, settings, **grid)


def test_methods_that_the_command_line_makes_one_are_run_once(expand_file):
  one = '[[methods]]\nalgorithm = "term"\nhparam.t = 1\n'
  two = '[[methods]]\nalgorithm = "term"\nhparam.t = [2, 3]\n'
  assert len(expand_file(one + two)) == 3
  (run,) = expand_file(one + two, hparam__t="5")
  assert run.spec.hparams == {"t": 5.0}
  # Otherwise it would be unclear which of two names the run has.
  with pytest.raises(RunError, match=r"number 2 \(Term\): .*same run"):
    expand_file(f'{one}{two}name = "Term"\n', hparam__t="5")
  # These two were the same run even without the command line.
  with pytest.raises(RunError, match=r"number 2 \(term\): .*same run"):
    expand_file(one + one, hparam__t="5", seed="0")


def test_runs_of_one_name_are_told_apart(expand_file):
  planned = expand_file("""
[flags]
task = "synthetic"
[[methods]]
algorithm = "adafedadam"
hparam.alpha = 2
[[methods]]
algorithm = "adafedadam"
flags = {task_option = ["alpha=2"]}
[[methods]]
algorithm = "fedavg"
flags = {data_dir = "/a b"}
""")
  assert names(planned) == [
    "adafedadam-alpha=2-seed=0-08d64d6e",
    "adafedadam-alpha=2-seed=0-03d81ffb",
    "fedavg-data_dir=_a_b-seed=0-477f1ef3",
  ]


TERM = RunSpec(algorithm="term")


class TestSpecs:
  """Tests of runs that a script plans."""

  def planned(self, *specs):
    return names(sweep_plan.from_specs(specs))

  def test_all_kinds_of_settings_are_in_names(self):
    spec = RunSpec(algorithm="fedfv")
    other = spec.replace(
      hparams={"seed": 2, "tau": 3},
      task_options={"num_clients": 7},
      server_learning_rate=0.5,
      local_epochs=(1, 3),
      measure_improvement=True,
      seed=9,
    )
    name = self.planned(spec, other)[1]
    assert name.startswith("fedfv-tau=3-")
    assert set(name.split("-")) >= {"hparam.seed=2", "num_clients=7"}
    assert "-server_learning_rate=0.5-" in name
    assert "-local_epochs=1-3-" in name
    assert "-measure_improvement=true-" in name
    assert name.endswith("-seed=9")

  @pytest.mark.parametrize(
    ("specs", "expected"),
    [
      ([RunSpec(total_rounds=3, client_learning_rate=0.5)], ["adafed-seed=0"]),
      # Settings that are the same for all runs are not in names.
      (
        RunSpec(total_rounds=3).vary(
          algorithm=["fedavg", "adafed"], gamma=[0.1, 1], batch_size=[8]
        ),
        ["fedavg-seed=0", "adafed-gamma=0.1-seed=0", "adafed-gamma=1-seed=0"],
      ),
      # The default model is named where other runs have another model.
      (
        [RunSpec(), *RunSpec().vary(model=["logistic_regression"])],
        [
          "adafed-model=mlp_64-seed=0",
          "adafed-model=logistic_regression-seed=0",
        ],
      ),
      # Identical runs have one name.
      (
        [
          TERM,
          TERM.replace(seed=1),
          TERM.replace(hparams={"t": 1.0}, rounds_per_checkpoint=3),
        ],
        ["term-seed=0", "term-seed=1", "term-seed=0"],
      ),
      # Other seeds are named where they vary.
      (
        TERM.replace(data_seed=0).vary(seed=[0, 1]),
        ["term-seed=0", "term-seed=1"],
      ),
      (
        TERM.vary(model_seed=[1, 0]),
        ["term-model_seed=1-seed=0", "term-model_seed=0-seed=0"],
      ),
      # A setting that only some methods have is compared only among these.
      (
        [
          RunSpec(algorithm="adafed", hparams={"gamma": 2.0}),
          *TERM.vary(task=["digits", "mnist"]),
        ],
        [
          "adafed-task=digits-seed=0",
          "term-task=digits-seed=0",
          "term-task=mnist-seed=0",
        ],
      ),
    ],
  )
  def test_names_have_what_distinguishes_runs(self, specs, expected):
    assert self.planned(*specs) == expected
