import importlib.util
import inspect
import pathlib
import socket

import pytest
from absl import flags

from binaries.command_line import UsageError
from binaries.flags import run_flags, sweep_flags
from tff_fair import experiments

pytestmark = pytest.mark.pure


def options(*arguments):
  namespace = flags.FlagValues()
  computing = run_flags.ComputingFlags(namespace)
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


# Dask clusters.


@pytest.fixture
def address():
  """The address of a program that takes connections."""
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
def test_what_does_not_go_together_is_told(address, arguments, message):
  with pytest.raises(UsageError, match=message):
    options(f"--scheduler={address}", *arguments)


def test_a_wrong_address_is_told():
  with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
  for address in (f"tcp://127.0.0.1:{port}", "host:1"):
    with pytest.raises(UsageError, match=f"--scheduler={address}: "):
      options(f"--scheduler={address}")


def test_without_dask_one_line_tells_what_to_install(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
  with pytest.raises(UsageError, match=r"tff-fair\[dask\]"):
    options("--engine=dask")
