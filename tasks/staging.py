"""Puts a file in its place only when it is whole.

What is interrupted, by an error or a signal, leaves nothing behind.
"""

import contextlib
import errno
import os
import pathlib
import tempfile
from collections.abc import Iterator

from tasks.data_error import DataError


@contextlib.contextmanager
def replacement(
  path: pathlib.Path, *, overwrite: bool = False
) -> Iterator[pathlib.Path]:
  """Yields where to write a file, and then moves it to `path`.

  Args:
    path: Where the file is to be. Its directory is made if need be.
    overwrite: Whether a file that is there may be replaced.

  Yields:
    A path of the same name in a directory of its own on the same file system,
    which may take temporary files as well.

  Raises:
    DataError: If there is a file already, or it cannot be written.
  """
  check_free(path, overwrite=overwrite)
  created = not path.parent.exists()
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
      prefix=".incomplete-", dir=path.parent, ignore_cleanup_errors=True
    ) as staging:
      staged = pathlib.Path(staging) / path.name
      yield staged
      sync(staged)
      # Looked at again: it may have come while this one was being written.
      check_free(path, overwrite=overwrite)
      staged.replace(path)
      sync(path.parent)
  except OSError as error:
    raise DataError(
      f"{path}: cannot be written: {error.strerror or error}."
    ) from error
  finally:
    if created:
      with contextlib.suppress(OSError):
        path.parent.rmdir()  # Fails, as it should, once the file is there.


def check_free(path: pathlib.Path, *, overwrite: bool) -> None:
  """Checks that a file may be written.

  Raises:
    DataError: If it may not.
  """
  if os.path.lexists(path) and not overwrite:
    raise DataError(
      f"{path}: exists already; allow to replace it (--overwrite), or choose "
      "another directory."
    )


def sync(path: pathlib.Path) -> None:
  """Returns once a file, or what a folder lists, outlasts a power cut."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  except OSError as error:
    # A file system that cannot; most often, folders alone.
    if error.errno not in (errno.EINVAL, errno.ENOTSUP):
      raise
  finally:
    os.close(descriptor)
