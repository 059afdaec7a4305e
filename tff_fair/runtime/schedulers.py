"""Dask's schedulers: is an address valid, and does a program answer there?

Imports nothing that takes time, so that a
program can report a wrong address before it loads TensorFlow.
"""

import importlib.util
import re
import socket

# A name, a number, or an IPv6 address in brackets; and a port.
_HOST_AND_PORT = r"([^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})"


def _is_host_and_port(address: str) -> bool:
  match = re.fullmatch(_HOST_AND_PORT, address)
  return match is not None and 1 <= int(match[2]) <= 65535


def _connect(address: str, patience: float) -> None:
  host, _, port = address.rpartition(":")
  socket.create_connection((host.strip("[]"), int(port)), patience).close()


def check_dask_installed() -> None:
  """Raises unless Dask is installed."""
  if importlib.util.find_spec("distributed") is None:
    raise ModuleNotFoundError(
      "needs the package distributed, of the extra dask; install it with "
      "pip install --no-deps -r requirements-dev.txt (docs/tff.md)."
    )


def check_scheduler(address: str, *, timeout: float) -> None:
  """Raises unless a program takes connections at an address."""
  scheme, _, place = address.partition("://")
  if scheme not in ("tcp", "tls") or not _is_host_and_port(place):
    raise ValueError(
      "expected the address of a Dask scheduler as tcp://host:port, or "
      "tls://host:port."
    )
  try:
    _connect(place, timeout)
  except OSError as error:
    raise ConnectionError(
      f"no Dask scheduler answers there within {timeout:g} s "
      f"({error.strerror or 'no answer'}). Start one, or check the address and "
      "the network."
    ) from error
