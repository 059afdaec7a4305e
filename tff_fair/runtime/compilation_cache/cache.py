"""Stores compiled computations for later programs."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import stat
import uuid
from collections.abc import Callable, Mapping
from typing import TypeVar

import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.runtime import native
from tff_fair.runtime.compilation_cache import entries, keys

# Failing to read or write a cache file is not an error: the cache only saves
# time.

_MOST_BYTES = 256 * 2**20
_FORMAT = "compilations-1"  # A new format needs a new folder.
_FORBIDDEN = stat.S_IRWXG | stat.S_IRWXO
_DIGEST_SIZE = hashlib.sha256().digest_size


def users_path() -> pathlib.Path | None:
  """Returns the path of the user's cache; `None` without a home folder."""
  homes = (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache"))
  # The XDG standard says to ignore relative paths.
  absolute = [home for home in homes if os.path.isabs(home)]
  return pathlib.Path(absolute[0], "tff_fair", _FORMAT) if absolute else None


class Folder:
  """A folder of limited size, which drops the least recently used files."""

  def __init__(
    self, path: pathlib.Path, *, most_bytes: int = _MOST_BYTES
  ) -> None:
    """Takes the folder's path, which need not exist yet."""
    self._path = path
    self._most_bytes = most_bytes

  def read(self, name: str) -> bytes | None:
    """Returns the content of a file; None if it is missing or damaged."""
    with contextlib.suppress(OSError):
      if _is_private(self._path) and _is_private(self._path / name):
        stored = (self._path / name).read_bytes()
        os.utime(self._path / name)  # Marks it as used.
        content = stored[_DIGEST_SIZE:]
        return content if stored == _with_digest(name, content) else None
    return None

  def write(self, name: str, content: bytes) -> None:
    """Writes a file if possible, then removes old ones beyond the limit."""
    if 4 * len(content) > self._most_bytes:
      return
    with contextlib.suppress(OSError):
      self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
      if not _is_private(self._path):
        return
      # Another program may be writing the same file.
      unfinished = self._path / f"{name}.{uuid.uuid4().hex}"
      try:
        unfinished.touch(mode=0o600)
        unfinished.write_bytes(_with_digest(name, content))
        unfinished.replace(self._path / name)
      except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
      self._remove_old()

  def _remove_old(self) -> None:
    """Removes the oldest files until the remaining ones fit in the limit."""
    files = sorted(
      ((path.lstat(), path) for path in self._path.iterdir()),
      key=lambda file: file[0].st_mtime_ns,
    )
    excess = sum(status.st_size for status, _ in files) - self._most_bytes
    for status, path in files:
      if excess <= 0:
        return
      path.unlink()
      excess -= status.st_size


def _is_private(path: pathlib.Path) -> bool:
  """Returns whether a path is not a link, and only this user has access."""
  status = path.lstat()
  return (
    status.st_uid == os.geteuid()
    and not status.st_mode & _FORBIDDEN
    and not stat.S_ISLNK(status.st_mode)
  )


def _with_digest(name: str, content: bytes) -> bytes:
  """Returns a digest of a file's name and content, followed by the content."""
  return hashlib.sha256(name.encode() + content).digest() + content


ENVIRONMENT_VARIABLE = "TFF_FAIR_COMPILATION_CACHE"
_OFF = ("0", "false", "no", "off")

Computations = Mapping[str, tff.Computation]
_Found = TypeVar("_Found")


class CompilationCache:
  """Compiled computations of earlier programs, by key."""

  def __init__(self, files: Folder | None) -> None:
    """Takes the folder of the cache; `None` stores nothing."""
    self._files = files

  def computations(
    self, key: object, build: Callable[[], Computations]
  ) -> Computations:
    """Returns `build()`, compiled by this or an earlier program under `key`."""
    name = self._name("computations", key)
    if name is None:
      return build()
    build = functools.cache(build)

    def compile_all() -> Mapping[str, native.NativeComputation]:
      return {n: native.compile_ahead(comp) for n, comp in build().items()}

    found = self._load_or_create(name, compile_all, entries.read, entries.write)
    for part, comp in found.items():
      comp.origin = _Origin(self, key, build, part)
    return found

  def number(self, key: object, count: Callable[[], int]) -> int:
    """Returns `count()`, stored under `key` by this or an earlier program."""
    return int(self.text(key, lambda: str(count())))

  def text(self, key: object, find: Callable[[], str]) -> str:
    """Returns `find()`, stored under `key` by this or an earlier program."""
    name = self._name("text", key)
    if name is None:
      return find()
    return self._load_or_create(name, find, bytes.decode, str.encode)

  def _name(self, kind: str, key: object) -> str | None:
    """Returns the name of an entry's file; `None` if `key` cannot be cached."""
    if self._files is None:
      return None
    try:
      return keys.digest((kind, key))
    except keys.NotCacheableError:
      return None

  def _load_or_create(
    self,
    name: str,
    find: Callable[[], _Found],
    read: Callable[[bytes], _Found],
    write: Callable[[_Found], bytes],
  ) -> _Found:
    assert self._files is not None  # Else `_name` returns `None`.
    content = self._files.read(name)
    if content is not None:
      # A damaged file raises errors of many classes.
      with contextlib.suppress(Exception):
        return read(content)
    found = find()
    # If the project's files have changed meanwhile, the key may be wrong.
    if keys.source_digest() == keys.SOURCE_DIGEST:
      with contextlib.suppress(entries.NotSerializableError):
        self._files.write(name, write(found))
    return found


class _Origin(native.Origin):
  """An origin that caches the computations and texts derived from it."""

  def __init__(
    self,
    cache: CompilationCache,
    key: object,
    build: Callable[[], Computations],
    part: str,
  ) -> None:
    super().__init__(lambda: build()[part])
    self._cache = cache
    self._key = key, part

  def computation(
    self, name: str, build: Callable[[], tff.Computation]
  ) -> tff.Computation:
    found = self._cache.computations((self._key, name), lambda: {name: build()})
    return found[name]

  def text(self, name: str, find: Callable[[], str]) -> str:
    return self._cache.text((self._key, name), find)


NO_CACHE = CompilationCache(None)


def user_cache() -> CompilationCache:
  """Returns the cache in the user's folder; `NO_CACHE` if it is not usable."""
  path = users_path()
  if (
    os.environ.get(ENVIRONMENT_VARIABLE, "").lower() in _OFF
    or path is None
    or not runtime.compiles_natively()
    or keys.source_digest() != keys.SOURCE_DIGEST
  ):
    return NO_CACHE
  return CompilationCache(Folder(path))
