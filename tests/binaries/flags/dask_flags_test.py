"""Tests of the flags of a Dask cluster: mistakes are told before it starts."""

import importlib.util
import socket

import pytest
from absl import flags

from binaries.command_line import UsageError
from binaries.flags import computing_flags

pytestmark = pytest.mark.pure


def options(*arguments):
  namespace = flags.FlagValues()
  computing = computing_flags.ComputingFlags(namespace)
  namespace(["program", *arguments])
  return computing.options()


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
