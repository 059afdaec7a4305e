"""Files that are there as a whole or not at all.

An error, a signal or a power cut on the way leaves the file that was there
before, or none.
"""

import contextlib
import errno
import os
import pathlib
import tempfile
from collections.abc import Iterator


class _FileTakenError(FileExistsError):
  """A file that may not be replaced, unlike errors of the system."""


@contextlib.contextmanager
def replacement(
  path: pathlib.Path, *, overwrite: bool = False
) -> Iterator[pathlib.Path]:
  """Yields a place to write a file to, then moves the file to `path`.

  Args:
    path: The place that the file shall have. Its directory is made if there is
      none.
    overwrite: Whether the file may replace another.

  Yields:
    A path of the same name in a directory of its own on the same file system.
    Temporary files may stand beside it.

  Raises:
    FileExistsError: If there is a file already.
    OSError: If the file cannot be written.
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
      # Another program may have written the file in the meantime.
      check_free(path, overwrite=overwrite)
      staged.replace(path)
      sync(path.parent)
  except _FileTakenError:
    raise
  except OSError as error:
    raise OSError(
      f"{path}: cannot be written: {error.strerror or error}."
    ) from error
  finally:
    if created:
      with contextlib.suppress(OSError):
        path.parent.rmdir()  # Fails, as it should, once the file is there.


def check_free(path: pathlib.Path, *, overwrite: bool) -> None:
  """Checks that a file may be written.

  Raises:
    FileExistsError: If there is one already, and nobody allows to replace it.
  """
  if os.path.lexists(path) and not overwrite:
    raise _FileTakenError(
      f"{path}: exists already; allow to replace it (--overwrite), or choose "
      "another directory."
    )


def write(path: pathlib.Path, text: str) -> None:
  """Writes a text file, in the place of one that may be there.

  Raises:
    OSError: If the file cannot be written.
  """
  unfinished = path.with_name(f"{path.name}.unfinished")
  unfinished.write_text(text)
  sync(unfinished)
  os.replace(unfinished, path)
  sync(path.parent)


def sync(path: pathlib.Path) -> None:
  """Returns once a file, or the list of a folder, outlasts a power cut."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  except OSError as error:
    # Some file systems cannot do it; most of them, for folders alone.
    if error.errno not in (errno.EINVAL, errno.ENOTSUP):
      raise
  finally:
    os.close(descriptor)
