import shlex

import pytest

from tests.refusals import rejected
from tff_fair import methods
from tff_fair.experiments import RunSpec
from tff_fair.experiments.spec import spec_text


@pytest.mark.parametrize(
  ("algorithm", "text", "value"),
  [
    ("afl", "average_model=True", True),
    ("afl", "average_model=0", False),
    ("fedfv", "tau=7", 7),
    ("fedfv", "order=random", "random"),
    ("adafed", "gamma=1e-3", 1e-3),
    ("qfedavg", "lipschitz=None", None),
    ("qfedavg", "lipschitz=2", 2.0),
  ],
)
def test_a_value_has_the_type_of_its_hyperparameter(algorithm, text, value):
  name = text.partition("=")[0]
  (found,) = spec_text.parse_hparams(algorithm, [text]).items()
  assert found == (name, value)
  assert type(found[1]) is type(value)


@pytest.mark.parametrize(
  ("algorithm", "texts", "key", "message"),
  [
    ("afl", ["average_model=maybe"], "average_model", "true or false"),
    ("adafed", ["gamma"], "gamma", "expected NAME=VALUE"),
    ("adafed", ["q=1"], "q", "valid, with defaults: gamma=1"),
    ("adafed", ["gamma=1", "gamma=1"], "gamma", "is given twice"),
    ("qfedavg", ["lipschitz="], "lipschitz", "finite number or none"),
  ],
)
def test_a_bad_text_is_named(algorithm, texts, key, message):
  with rejected("hparams", message, key=key):
    spec_text.parse_hparams(algorithm, texts)


@pytest.mark.parametrize("name", methods.names())
def test_every_hyperparameter_can_be_given_as_text(name):
  hparams = methods.hyperparameters(name).values()
  defaults = {hparam.name: hparam.default for hparam in hparams}
  texts = spec_text.assignments(defaults)
  assert spec_text.parse_hparams(name, texts) == defaults


def test_options_of_a_task_are_read():
  texts = ["num_clients=5", "partition=dirichlet", "concentration=0.50"]
  assert spec_text.parse_task_options("digits", texts) == {
    "num_clients": 5,
    "partition": "dirichlet",
    "concentration": 0.5,
  }
  with rejected("task_options"):
    spec_text.parse_task_options("digits", ["partition"])


def test_unknown_methods_and_tasks_have_no_options():
  assert spec_text.parse_hparams("fair", ["x=1"]) == {}
  assert spec_text.parse_task_options("digit", ["x=1"]) == {}


def test_the_command_line_leaves_out_defaults():
  spec = RunSpec(
    algorithm="qfedavg",
    hparams={"q": 0.5, "lipschitz": None},
    task_options={"num_clients": 5},
    data_dir="a folder",
    measure_improvement=True,
    clients_per_round=(2, 4),
  )
  command = spec_text.command(spec, "out")
  assert shlex.split(command) == [
    *("python", "-m", "binaries.train"),
    "--data_dir=a folder",
    "--algorithm=qfedavg",
    "--clients_per_round=2-4",
    "--measure_improvement=true",
    "--hparam=q=0.5",
    "--hparam=lipschitz=none",
    "--task_option=num_clients=5",
    "--output_dir=out",
  ]
  assert (
    spec_text.command(RunSpec()) == "python -m binaries.train --task=digits"
  )
  options = {"compilation_cache": False, "engine": None, "dask_workers": 7}
  assert spec_text.command(RunSpec(), options=options).endswith(
    "--task=digits --nocompilation_cache --dask_workers=7"
  )
