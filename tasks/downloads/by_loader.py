"""Downloads a file whole or not at all."""

import contextlib
import pathlib
import tempfile
import threading
from collections.abc import Callable

from tasks.data_error import DataError

# A download that brings nothing for so long (seconds) is given up.
_STALL_TIMEOUT = 30.0


def fetch_file(
  path: pathlib.Path,
  fetch: Callable[[str], object],
  problem_of: Callable[[pathlib.Path], str | None] = lambda _: None,
  *,
  cached_in: str = "~/.tff",
) -> None:
  """Fetches a file into a directory of its own, then moves it to its place.

  TFF's loaders write to the final name as the data arrives: interrupted, they
  would leave a truncated file that the next run takes for the whole one.

  Args:
    path: Where the file shall be. Its directory is made if it is not there.
    fetch: Brings a file of this name into the directory it is given. It is
      given up when nothing arrives any more.
    problem_of: Names the fault of a file, or returns None.
    cached_in: Where the loader itself keeps it, for the error message.

  Raises:
    DataError: If it does not arrive whole; then nothing is left behind.
  """
  directory = path.parent
  created = not directory.exists()
  try:
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
      prefix=".download-", dir=directory, ignore_cleanup_errors=True
    ) as staging:
      _fetch_or_give_up(fetch, pathlib.Path(staging))
      arrived = pathlib.Path(staging) / path.name
      if problem := problem_of(arrived):
        raise OSError(problem)
      arrived.rename(path)
  except Exception as error:  # Sockets, LZMA, SQLite, a full disk, a proxy …
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    raise DataError(
      path,
      f"there is no such file, and it could not be downloaded ({reason}). On "
      "a machine with network access TFF downloads it as "
      f"{cached_in}/{path.name}: copy it from there to {directory}, or name "
      "the directory that has it as data_dir (--data_dir).",
    ) from error
  finally:
    if created:
      with contextlib.suppress(OSError):
        directory.rmdir()  # Fails, as it should, once the file is there.


def _fetch_or_give_up(
  fetch: Callable[[str], object], staging: pathlib.Path
) -> None:
  # TFF's loader waits for the network without limit. The thread is a daemon so
  # that one that hangs does not keep the program from ending.
  failures: list[Exception] = []

  def run() -> None:
    try:
      fetch(str(staging))
    except Exception as error:
      failures.append(error)

  thread = threading.Thread(target=run, daemon=True)
  thread.start()
  while thread.is_alive():
    before = _total_size(staging)
    thread.join(_STALL_TIMEOUT)
    if thread.is_alive() and _total_size(staging) == before:
      raise TimeoutError(f"nothing arrived for {_STALL_TIMEOUT:g} seconds")
  if failures:
    raise failures[0]


def _total_size(directory: pathlib.Path) -> int:
  total = 0
  for file in directory.rglob("*"):
    with contextlib.suppress(FileNotFoundError):  # Moved by the loader.
      total += file.stat().st_size
  return total
