"""Detects user code: any file not from this project, Python or a package.

Programs with user code do not use the compilation cache.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
import sys
import sysconfig
from collections.abc import Sequence

# The project's packages whose files affect computations.
PACKAGES = ("tff_fair", "tasks")
# The project's packages that start programs, and do not affect computations.
_PROGRAMS = ("binaries", "demonstrations")
# The prefix of modules that TensorFlow's AutoGraph generates from functions.
GENERATED = "__autograph_generated_file"


def folders() -> Sequence[pathlib.Path]:
  """Returns the folders of the `PACKAGES`."""
  return _folders_of(PACKAGES)


@functools.cache
def is_known(file: str) -> bool:
  """Returns whether a file is this project's, Python's, or a package's."""
  if file.startswith("<frozen "):
    return True
  path = os.path.realpath(file)
  # Compares strings: with thousands of files, `pathlib` would be slow.
  return path.startswith(_known_folders())


def has_user_code() -> bool:
  """Returns whether this program runs user code, which may patch known code."""
  main = sys.modules.get("__main__")
  if getattr(main, "__file__", None) is None and not _is_fork_server():
    return True  # A console, or `python -c`.
  return not all(
    is_known(file)
    for name, module in sys.modules.copy().items()
    if (file := getattr(module, "__file__", None)) is not None
    and not name.startswith(GENERATED)
  )


def _is_fork_server() -> bool:
  """Returns whether this is Python's fork server, or a fork of it."""
  return sys.orig_argv[-1].startswith("from multiprocessing.forkserver import ")


@functools.cache
def _known_folders() -> tuple[str, ...]:
  names = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
  installed = [pathlib.Path(sysconfig.get_path(name)) for name in names]
  found = [*installed, *_folders_of(PACKAGES + _PROGRAMS)]
  return tuple(f"{folder.resolve()}{os.sep}" for folder in found)


@functools.cache
def _folders_of(packages: Sequence[str]) -> Sequence[pathlib.Path]:
  specs = [importlib.util.find_spec(package) for package in packages]
  return [
    pathlib.Path(place).resolve()
    for spec in specs
    if spec is not None
    for place in spec.submodule_search_locations or ()
  ]
