"""Finds the versions of this project, Python and TensorFlow Federated."""

import functools
import importlib.metadata
import pathlib
import platform
import tomllib

_PROJECT = pathlib.Path(__file__).parents[2] / "pyproject.toml"


def find() -> str:
  """Returns the version in the source tree, or else the installed version."""
  if _PROJECT.exists():
    return str(tomllib.loads(_PROJECT.read_text("utf-8"))["project"]["version"])
  return importlib.metadata.version("tff-fair")


@functools.cache
def installed() -> dict[str, str]:
  """Returns the versions that must agree for two processes to work together."""
  return {
    "Python": ".".join(platform.python_version_tuple()[:2]),
    "tff_fair": find(),
    "tensorflow-federated": importlib.metadata.version("tensorflow-federated"),
  }
