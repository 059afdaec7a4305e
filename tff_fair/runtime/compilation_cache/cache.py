"""Keeps compiled computations from one program to the next."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping

import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.runtime import native
from tff_fair.runtime.compilation_cache import entries, keys, private_folder

VARIABLE = "TFF_FAIR_COMPILATION_CACHE"
_OFF = ("0", "false", "no", "off")

Computations = Mapping[str, tff.Computation]


# Of a text in a file: without it, the file is damaged.
_END = "\n"


class CompilationCache:
  """What earlier programs have built and compiled, by what decides it."""

  def __init__(self, files: private_folder.Folder | None) -> None:
    """Takes the files of the cache; `None` keeps nothing."""
    self._files = files

  def compiled(
    self, key: object, build: Callable[[], Computations]
  ) -> Computations:
    """Returns computations that an earlier program or this one has built.

    Both give the same results, bit for bit, in the same Python structures.

    Args:
      key: All that decides the computations beside our code: a structure of
        plain values, arrays, specs of tensors, and functions in files of ours.
        With anything else in it, nothing is kept.
      build: Builds the computations, by name.

    Returns:
      The computations, compiled for a worker on this machine, with their
      `origin`. If nothing is kept, those of `build`, which their first call
      compiles.
    """
    name = self._name("computations", key)
    if self._files is None or name is None:
      return build()
    build = functools.cache(build)
    computations = self._compiled(self._files, name, build)
    for part, comp in computations.items():
      comp.origin = _Origin(self, (key, part), build, part)
    return computations

  def _compiled(
    self,
    files: private_folder.Folder,
    name: str,
    build: Callable[[], Computations],
  ) -> Mapping[str, native.NativeComputation]:
    content = files.read(name)
    if content is not None:
      # A damaged file raises errors of many classes.
      with contextlib.suppress(Exception):
        return entries.read(content)
    computations = {
      part: native.compile_ahead(comp) for part, comp in build().items()
    }
    with contextlib.suppress(entries.CannotKeepError):
      self._write(name, entries.write(computations))
    return computations

  def number(self, key: object, count: Callable[[], int]) -> int:
    """Returns a number that an earlier program or this one has counted.

    Args:
      key: As in `compiled`.
      count: Counts it.
    """
    return int(self.text(key, lambda: str(count()), is_known=str.isdecimal))

  def text(
    self,
    key: object,
    find: Callable[[], str],
    *,
    is_known: Callable[[str], bool] = str.isprintable,
  ) -> str:
    """Returns a text that an earlier program or this one has found.

    Args:
      key: As in `compiled`.
      find: Finds it.
      is_known: Whether a text can be what was found.
    """
    name = self._name("text", key)
    if self._files is None or name is None:
      return find()
    content = self._files.read(name)
    if content is not None:
      with contextlib.suppress(UnicodeDecodeError):
        text, end, _ = content.decode().partition(_END)
        if end and is_known(text):
          return text
    found = find()
    self._write(name, f"{found}{_END}".encode())
    return found

  def _name(self, kind: str, key: object) -> str | None:
    """Returns the name of a file; `None` if no key says what decides it."""
    if self._files is None:
      return None
    try:
      return keys.digest((kind, key))
    except TypeError:
      return None

  def _write(self, name: str, content: bytes) -> None:
    # Content made from sources that a user is editing belongs to no key.
    if self._files is not None and keys.of_sources() == keys.SOURCES:
      self._files.write(name, content)


class _Origin:
  """Keeps what is made of a computation beside it; see `native.Origin`."""

  def __init__(
    self,
    cache: CompilationCache,
    key: object,
    build: Callable[[], Computations],
    part: str,
  ) -> None:
    self._cache = cache
    self._key = key
    self._build = build
    self._part = part

  def traced(self) -> tff.Computation:
    return self._build()[self._part]

  def computation(
    self, name: str, build: Callable[[], tff.Computation]
  ) -> tff.Computation:
    found = self._cache.compiled((self._key, name), lambda: {name: build()})
    return found[name]

  def text(self, name: str, find: Callable[[], str]) -> str:
    return self._cache.text((self._key, name), find)


NO_CACHE = CompilationCache(None)


def of_user() -> CompilationCache:
  """Returns the cache in the user's folder.

  It keeps nothing if the environment says so, if the folder cannot be private,
  if files of ours changed since this program began, or if computations run
  elsewhere than in a worker on this machine.
  """
  path = private_folder.of_user()
  if (
    os.environ.get(VARIABLE, "").lower() in _OFF
    or path is None
    or not runtime.compiles_natively()
    or keys.of_sources() != keys.SOURCES
  ):
    return NO_CACHE
  return CompilationCache(private_folder.Folder(path))
