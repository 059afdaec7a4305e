import inspect

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
  assert options(
    "--round_timeout=2.5", "--wandb=fair", "--nocompilation_cache"
  ) == {"round_timeout": 2.5, "wandb": "fair", "compilation_cache": False}
  assert options("--round_timeout=0", "--wandb=") == {
    "round_timeout": 0.0,
    "wandb": None,
    "compilation_cache": True,
  }


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "-1", "", "x"])
def test_only_a_number_of_seconds_is_a_timeout(text):
  with pytest.raises(
    (UsageError, flags.IllegalFlagValueError), match="--round_timeout="
  ):
    options(f"--round_timeout={text}")
