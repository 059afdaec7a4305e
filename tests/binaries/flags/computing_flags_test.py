import inspect
import pathlib

import pytest
from absl import flags

from binaries.command_line import UsageError
from binaries.flags import computing_flags, run_flags, sweep_flags
from tff_fair import experiments


def options(*arguments):
  namespace = flags.FlagValues()
  computing = computing_flags.ComputingFlags(namespace)
  namespace(["program", *arguments])
  return computing.options()


def test_training_and_sweeps_have_the_same():
  assert run_flags.COMPUTING.names == sweep_flags.COMPUTING.names
  assert set(run_flags.COMPUTING.names) <= set(flags.FLAGS)
  assert set(sweep_flags.COMPUTING.names) <= set(sweep_flags.NAMESPACE)


def test_without_flags_it_is_as_a_run_is_by_default():
  parameters = inspect.signature(experiments.run).parameters
  assert options() == {name: parameters[name].default for name in options()}


def test_texts_become_values():
  given = options(
    "--round_timeout=2.5",
    "--wandb=fair",
    "--nocompilation_cache",
    "--engine=workers",
    "--straggler_timeout=60",
    "--worker_data=data",
  )
  assert given == {
    **options(),
    "round_timeout": 2.5,
    "wandb": "fair",
    "compilation_cache": False,
    "engine": "workers",
    "straggler_timeout": 60.0,
    "worker_data": pathlib.Path("data"),
  }
  assert options("--round_timeout=0", "--wandb=", "--straggler_timeout=0") == {
    **options(),
    "round_timeout": 0.0,
  }


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "-1", "", "x"])
@pytest.mark.parametrize("name", ["round_timeout", "straggler_timeout"])
def test_only_a_number_of_seconds_is_a_timeout(name, text):
  with pytest.raises(
    (UsageError, flags.IllegalFlagValueError), match=f"--{name}="
  ):
    options(f"--{name}={text}")


def test_a_folder_without_a_name_is_none():
  with pytest.raises(UsageError, match="--worker_data: is empty; name a"):
    options("--worker_data=")
