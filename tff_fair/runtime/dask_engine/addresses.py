"""The address of a Dask scheduler: is it valid, and does one answer there?

Imports nothing that takes time, so that a program can report a wrong address
before it loads TensorFlow.
"""

import importlib.util
import re
import socket


def check_installed() -> None:
  """Raises unless Dask is installed.

  Raises:
    ModuleNotFoundError: If it is not; says how to install it.
  """
  if importlib.util.find_spec("distributed") is None:
    raise ModuleNotFoundError(
      "needs the package distributed; install it with "
      'pip install "tff-fair[dask]", or pip install distributed cryptography.'
    )


def check(address: str, *, timeout: float) -> None:
  """Raises unless a program takes connections at an address.

  Args:
    address: As "tcp://host:port", or "tls://host:port".
    timeout: Seconds within which a program has to take one.

  Raises:
    ConnectionError: If no program does.
    ValueError: If it is no such address.
  """
  match = re.fullmatch(
    r"(?:tcp|tls)://([^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})", address
  )
  if match is None or not 1 <= int(match[2]) <= 65535:
    raise ValueError(
      "expected the address of a Dask scheduler as tcp://host:port, or "
      "tls://host:port."
    )
  host, port = match[1].strip("[]"), int(match[2])
  try:
    socket.create_connection((host, port), timeout).close()
  except OSError as error:
    raise ConnectionError(
      f"no Dask scheduler answers there within {timeout:g} s "
      f"({error.strerror or 'no answer'}). Start one, or check the address and "
      "the network."
    ) from error
