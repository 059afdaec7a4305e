"""The addresses of workers: are they valid, and does a program answer there?

Also those of Dask's schedulers. Imports nothing that takes time, so that a
program can report a wrong address before it loads TensorFlow.
"""

import importlib.util
import re
import socket
import time
from collections.abc import Sequence

_SECONDS_BETWEEN_TRIES = 0.1
# A name, a number, or an IPv6 address in brackets; and a port.
_HOST_AND_PORT = r"([^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})"


def check(addresses: Sequence[str]) -> None:
  """Raises unless these are addresses of different workers.

  Args:
    addresses: Each as "host:port", an IPv6 address as "[address]:port", or
      "unix:path" for a worker of this machine.

  Raises:
    TypeError: If it is a single string.
    ValueError: If there is none, or one is malformed or listed twice.
  """
  if isinstance(addresses, str):
    raise TypeError(
      f"Expected a list of addresses, found a single string: {addresses!r}."
    )
  if not addresses:
    raise ValueError("Expected the address of at least one worker, found none.")
  for address in addresses:
    if address.startswith("unix:/"):
      continue
    if not _is_host_and_port(address):
      raise ValueError(
        f'Expected the address of a worker as "host:port", found {address!r}.'
      )
  if len(set(addresses)) < len(addresses):
    raise ValueError(
      f"Expected each address once, found {list(addresses)}. "
      "`clients_per_part` decides how many parts a worker computes."
    )


def check_reachable(addresses: Sequence[str], *, timeout: float) -> None:
  """Raises unless a program takes connections at each address.

  Args:
    addresses: Valid ones.
    timeout: Seconds within which a program has to, at all of them.

  Raises:
    ConnectionError: If no program does at one of them.
  """
  deadline = time.monotonic() + timeout
  for address in addresses:
    while (problem := _problem(address, deadline)) is not None:
      if time.monotonic() + _SECONDS_BETWEEN_TRIES > deadline:
        raise ConnectionError(
          f"No worker answers at {address} within {timeout:g} s ({problem}). "
          "Start one there, or check the address and the network."
        )
      time.sleep(_SECONDS_BETWEEN_TRIES)


def _is_host_and_port(address: str) -> bool:
  match = re.fullmatch(_HOST_AND_PORT, address)
  return match is not None and 1 <= int(match[2]) <= 65535


def _problem(address: str, deadline: float) -> str | None:
  """Returns why an address takes no connection; `None` if it does."""
  patience = max(_SECONDS_BETWEEN_TRIES, deadline - time.monotonic())
  try:
    _connect(address, patience)
  except OSError as error:
    return error.strerror or "no answer"
  return None


def _connect(address: str, patience: float) -> None:
  if address.startswith("unix:"):
    with socket.socket(socket.AF_UNIX) as connection:
      connection.settimeout(patience)
      connection.connect(address.removeprefix("unix:"))
    return
  host, _, port = address.rpartition(":")
  socket.create_connection((host.strip("[]"), int(port)), patience).close()


def check_dask_installed() -> None:
  """Raises unless Dask is installed.

  Raises:
    ModuleNotFoundError: If it is not; says how to install it.
  """
  if importlib.util.find_spec("distributed") is None:
    raise ModuleNotFoundError(
      "needs the package distributed, of the extra dask; install it with "
      "pip install --no-deps -r requirements-dev.txt (docs/tff.md)."
    )


def check_scheduler(address: str, *, timeout: float) -> None:
  """Raises unless a program takes connections at an address.

  Args:
    address: As "tcp://host:port", or "tls://host:port".
    timeout: Seconds within which a program has to take one.

  Raises:
    ConnectionError: If no program does.
    ValueError: If it is no such address.
  """
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
