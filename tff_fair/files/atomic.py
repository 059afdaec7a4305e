"""Writes files and folders as a whole or not at all.

After an error, a signal or a power cut during a write, the previous file is
unchanged. Only regular files, and folders that the caller names, are replaced.
A symbolic link stays, and the file that it points to is replaced.
"""

import contextlib
import errno
import functools
import os
import pathlib
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator

# The prefix of folders in which files are written before they move into place.
STAGING = ".incomplete-"
# The beginnings of paths that stand for open files, which cannot be replaced.
_OPEN_FILES = ("/dev/fd/", "/dev/std", "/proc/")
_KINDS = {
  stat.S_IFDIR: "folder",
  stat.S_IFCHR: "device",
  stat.S_IFBLK: "device",
  stat.S_IFIFO: "pipe",
  stat.S_IFSOCK: "socket",
}


class _FileTakenError(FileExistsError):
  """A path that may not be written; raised by this module, not the system."""


@contextlib.contextmanager
def replacement(
  path: pathlib.Path, *, overwrite: bool = False
) -> Iterator[pathlib.Path]:
  """Yields a temporary path to write to, then moves the file to `path`.

  The temporary path ends in the same name as `path`. Its folder is new, on the
  same file system as `path`, and may hold further temporary files.
  """
  check = functools.partial(check_free, path, overwrite=overwrite)
  check()
  try:
    with move_when_complete(path, check) as staged:
      yield staged
  except _FileTakenError:
    raise
  except OSError as error:
    raise OSError(
      f"{path}: cannot be written: {error.strerror or error}."
    ) from error


@contextlib.contextmanager
def move_when_complete(
  path: pathlib.Path, check: Callable[[], None]
) -> Iterator[pathlib.Path]:
  """Yields a temporary path; moves what is written there to `path` at the end.

  What is written may be a file or a folder. `check` is called before the move.
  """
  place = _resolve_link(path)
  with (
    new_folder(place.parent),
    tempfile.TemporaryDirectory(
      prefix=STAGING, dir=place.parent, ignore_cleanup_errors=True
    ) as staging,
  ):
    staged = pathlib.Path(staging) / path.name
    yield staged
    for written in (*staged.rglob("*"), staged):
      sync(written)
    check()
    if place.is_dir() or (staged.is_dir() and place.exists()):
      # The system cannot replace a folder, so move the old one away first.
      place.rename(staged.with_name(f"{path.name}.before"))
    staged.replace(place)
    sync(place.parent)


def remove_folder(folder: pathlib.Path) -> None:
  """Removes a folder, as a whole or not at all."""
  with tempfile.TemporaryDirectory(
    prefix=STAGING, dir=folder.parent, ignore_cleanup_errors=True
  ) as staging:
    folder.rename(pathlib.Path(staging) / folder.name)


@contextlib.contextmanager
def new_folder(folder: pathlib.Path) -> Iterator[None]:
  """Creates a folder; removes it after the block if it is new and empty."""
  is_new = not folder.exists()
  try:
    folder.mkdir(parents=True, exist_ok=True)
    yield
  finally:
    if is_new:
      with contextlib.suppress(OSError):
        folder.rmdir()  # Fails, as intended, if the folder is not empty.


def check_free(path: pathlib.Path, *, overwrite: bool) -> None:
  """Checks that a file may be written: it is new, or `overwrite` allows it."""
  check_regular(path)
  if os.path.lexists(path) and not overwrite:
    raise _FileTakenError(
      f"{path}: exists already; name another place, or allow to replace it "
      "(--overwrite; in Python, overwrite=True)."
    )


def check_regular(path: pathlib.Path) -> None:
  """Raises `OSError` if a path exists and is not a regular file."""
  if os.path.abspath(path).startswith(_OPEN_FILES):
    raise _FileTakenError(
      f"{path}: is another name of an open file; name another file."
    )
  try:
    kind = _kind(path)
  except OSError as error:
    raise OSError(
      f"{path}: cannot be written: {error.strerror or error}."
    ) from error
  if kind is not None:
    mend = "only a regular file can be written or replaced"
    if kind == "folder":
      mend = f"name a file in it, as {path / 'NAME'}"
    raise _FileTakenError(f"{path}: is a {kind}; {mend}.")


def _kind(path: pathlib.Path) -> str | None:
  """Returns the kind of what is at a path, such as "folder" or "pipe".

  Returns None for a regular file, and if there is nothing at the path.
  """
  try:
    mode = path.stat().st_mode
  except (FileNotFoundError, NotADirectoryError):
    return None
  if stat.S_ISREG(mode):
    return None
  return _KINDS.get(stat.S_IFMT(mode), "special file")


def special_kind(path: pathlib.Path) -> str | None:
  """Returns the kind of a special file; None for regular files and folders.

  Reading from a pipe or from some devices may block forever.
  """
  kind = _kind(path)
  return None if kind == "folder" else kind


def special_files(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
  """Yields the path and the kind of each special file in or below a folder."""
  for path in folder.rglob("*"):
    if kind := special_kind(path):
      yield path, kind


def write(path: pathlib.Path, text: str) -> None:
  """Writes a text file in UTF-8; replaces an existing file."""
  check_regular(path)
  _replace(
    _resolve_link(path), lambda file: file.write_text(text, encoding="utf-8")
  )


def move(written: pathlib.Path, path: pathlib.Path) -> None:
  """Moves a file within a file system; replaces an existing file."""
  check_regular(path)
  place = _resolve_link(path)
  if place != path:  # A link may lead to another file system.
    _replace(place, lambda file: shutil.copyfile(written, file))
    written.unlink()
    return
  sync(written)
  os.replace(written, place)
  sync(place.parent)


def _replace(
  place: pathlib.Path, fill: Callable[[pathlib.Path], object]
) -> None:
  """Replaces a file by what `fill` writes; an error leaves the old file."""
  written = unfinished_path(place)
  try:
    fill(written)
    sync(written)
    os.replace(written, place)
  except BaseException:
    written.unlink(missing_ok=True)
    raise
  sync(place.parent)


def unfinished_path(path: pathlib.Path) -> pathlib.Path:
  """Returns the path to which `write` writes before it replaces `path`."""
  return path.with_name(f"{path.name}.unfinished")


def _resolve_link(path: pathlib.Path) -> pathlib.Path:
  """Returns the target of a symbolic link, or any other path unchanged."""
  return pathlib.Path(os.path.realpath(path)) if path.is_symlink() else path


def sync(path: pathlib.Path) -> None:
  """Waits until a file, or a folder's list of files, is on the disk."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  except OSError as error:
    # Some file systems do not support fsync, most of them only for folders.
    if error.errno not in (errno.EINVAL, errno.ENOTSUP):
      raise
  finally:
    os.close(descriptor)
