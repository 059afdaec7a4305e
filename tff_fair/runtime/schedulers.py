"""Checks that a Dask scheduler's address is valid and answers.

This module imports nothing slow, so that a program can report a wrong address
before it loads TensorFlow.
"""

import importlib.util
import re
import socket

# A host name, an IPv4 address, or an IPv6 address in brackets; then a port.
_HOST_AND_PORT = r"([^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})"


def check_installed(package: str = "distributed", extra: str = "dask") -> None:
  """Raises `ModuleNotFoundError` unless a package, by default Dask's, exists.

  The error names the `extra` that installs the package.
  """
  if importlib.util.find_spec(package) is None:
    raise ModuleNotFoundError(
      f"needs the package {package}, of the extra {extra}; install it with "
      "pip install --no-deps -r requirements-dev.txt (docs/tff.md)."
    )


def check_scheduler(address: str, *, timeout: float) -> None:
  """Checks an address, and that a program accepts connections there.

  Raises `ValueError` or `ConnectionError`.
  """
  scheme, _, place = address.partition("://")
  found = re.fullmatch(_HOST_AND_PORT, place)
  port = int(found[2]) if found else 0
  if scheme not in ("tcp", "tls") or not found or not 1 <= port <= 65535:
    raise ValueError(
      "expected the address of a Dask scheduler, tcp://host:port or "
      "tls://host:port."
    )
  try:
    host = found[1].strip("[]")
    socket.create_connection((host, port), timeout).close()
  except OSError as error:
    raise ConnectionError(
      f"no Dask scheduler answers there within {timeout:g} s "
      f"({error.strerror or 'no answer'}). Start one, or check the address and "
      "the network."
    ) from error
