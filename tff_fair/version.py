"""The version of this project."""

import importlib.metadata
import pathlib
import tomllib

_PROJECT = pathlib.Path(__file__).parents[1] / "pyproject.toml"


def find() -> str:
  """Returns the version: of the source tree, else of what is installed."""
  if _PROJECT.exists():
    return str(tomllib.loads(_PROJECT.read_text())["project"]["version"])
  return importlib.metadata.version("tff-fair")
