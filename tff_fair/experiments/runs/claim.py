"""Claims the folder of a run, so that one program at a time works in it.

The claim is the kernel's lock on config.json, which ends with the program. On a
file system without locks, such as some network disks, the claim is a file that
only one program can create. This program touches the file every few seconds (a
heartbeat). If the heartbeat stops for a minute, the claim is stale: the program
is presumed dead, and another one may take over the claim.

The clocks of hosts differ, so the age of a claim is measured by the clock of
the file system: a program touches a new file, and compares modification times.

Two programs may find the same claim stale. To take it over, a program must
first create a file whose name is a digest of the stale claim's text. Only one
program can create this file, and no two claims have the same text. So no other
program can remove the new claim by mistake.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import signal
import socket
import threading
import time
import typing
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tff_fair.experiments.errors import FolderTakenError, RunError

FILE = "at_work.json"
_SECONDS_PER_BEAT = 5.0
_SECONDS_UNTIL_STALE = 60.0
_SECONDS_OF_A_TEST = 0.05  # How long `is_held` may hold the lock.


class _Claim(NamedTuple):
  text: bytes
  mtime: float


@contextlib.contextmanager
def hold_folder(
  folder: pathlib.Path, say: Callable[[str], None]
) -> Iterator[None]:
  """Holds the claim to a folder of runs by a lock on the folder itself."""
  descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
  try:
    with hold(descriptor, folder, say):
      yield
  finally:
    # Unlock explicitly, as forked processes may keep the descriptor open.
    with contextlib.suppress(OSError):
      fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def hold(
  file: typing.BinaryIO | int, folder: pathlib.Path, say: Callable[[str], None]
) -> contextlib.AbstractContextManager[object]:
  """Returns a context that holds the claim to a folder, by lock or by file."""
  if lock(file, folder):
    return contextlib.nullcontext()  # The lock ends when the file is closed.
  return _ClaimFile(folder, say)


def lock(file: typing.BinaryIO | int, folder: pathlib.Path) -> bool:
  """Locks a folder's file; returns False on a file system without locks."""
  operation = fcntl.LOCK_EX | fcntl.LOCK_NB
  try:
    try:
      fcntl.flock(file, operation)
    except BlockingIOError:
      time.sleep(_SECONDS_OF_A_TEST)
      fcntl.flock(file, operation)
  except BlockingIOError as error:
    raise _taken(folder) from error
  except OSError:
    return False
  return True


def is_held(file: pathlib.Path) -> bool:
  """Returns whether a program holds the claim to the folder of `file`."""
  try:
    if (found := _read(file.with_name(FILE))) and not _is_stale(
      file.parent, found
    ):
      return True
    with file.open("rb") as opened:
      fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
  except BlockingIOError:
    return True
  except OSError:  # The file is missing, or cannot be locked.
    pass
  return False


class _ClaimFile:
  """A context that holds a claim by a file with a heartbeat."""

  def __init__(self, folder: pathlib.Path, say: Callable[[str], None]) -> None:
    self._folder = folder
    self._path = folder / FILE
    self._say = say
    owner = {
      "host": socket.gethostname(),
      "pid": os.getpid(),
      "nonce": uuid.uuid4().hex,
    }
    self._text = f"{json.dumps(owner)}\n".encode()
    self._ended = threading.Event()
    self._beats = threading.Thread(target=self._beat, daemon=True)

  def __enter__(self) -> "typing.Self":
    while not self._try_to_take():
      pass
    self._beats.start()
    return self

  def __exit__(self, *error: object) -> None:
    self._ended.set()
    self._beats.join()
    with (
      contextlib.suppress(OSError, RunError),
      _exclusive_takeover(self._folder, self._text) as is_mine,
    ):
      # If `is_mine` is false, another program is taking over the claim.
      found = _read(self._path)
      if is_mine and found is not None and found.text == self._text:
        self._path.unlink()

  def _try_to_take(self) -> bool:
    """Takes the claim; returns False if another program has changed it."""
    with contextlib.suppress(FileExistsError):
      _create(self._path, self._text)
      return True
    found = _read(self._path)
    if found is None:
      return False
    if not _is_stale(self._folder, found):
      raise _taken(self._folder)
    with _exclusive_takeover(self._folder, found.text) as is_mine:
      if not is_mine:
        raise _taken(self._folder)
      now = _read(self._path)
      # Another program was faster, or the claim's owner was only slow.
      if (
        now is None
        or now.text != found.text
        or not _is_stale(self._folder, now)
      ):
        return False
      new = self._path.with_name(f"{FILE}.{uuid.uuid4().hex}")
      _create(new, self._text)
      os.replace(new, self._path)
    self._say(
      f"{self._folder}: takes over from {_owner(found.text)}, which has given "
      f"no sign of life for more than {_SECONDS_UNTIL_STALE:.0f} s."
    )
    return True

  def _beat(self) -> None:
    """Touches the claim file regularly while the claim is held."""
    while not self._ended.wait(_SECONDS_PER_BEAT):
      with contextlib.suppress(OSError):  # A network disk may fail for a while.
        found = _read(self._path)
        if found is None:  # A user has removed the file by hand.
          _create(self._path, self._text)
        elif found.text == self._text:
          os.utime(self._path)
        else:
          self._end(found)

  def _end(self, found: _Claim) -> None:
    """Ends this program, since another one has taken over its stale claim."""
    self._say(
      f"{self._folder}: {_owner(found.text)} has taken over, since this "
      f"program gave no sign of life for more than {_SECONDS_UNTIL_STALE:.0f} "
      "s; it ends here."
    )
    # If this program continued, its output would mix with the other program's.
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def _exclusive_takeover(folder: pathlib.Path, text: bytes) -> Iterator[bool]:
  """Yields True if no other program may now replace or remove claim `text`."""
  digest = hashlib.sha256(text).hexdigest()[:32]
  path = folder / f"{FILE}.{digest}"
  try:
    _create(path, b"")
  except FileExistsError:
    found = _read(path)
    if found is not None and _is_stale(folder, found):
      raise RunError(
        f"{path}: a program was killed while it took over the folder; if no "
        "other program is using the folder, remove this file."
      ) from None
    yield False
    return
  try:
    yield True
  finally:
    path.unlink(missing_ok=True)


def _create(path: pathlib.Path, text: bytes) -> None:
  """Creates a file with `text`; raises `FileExistsError` if it exists."""
  descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
  try:
    os.write(descriptor, text)
  except OSError:
    path.unlink()
    raise
  finally:
    os.close(descriptor)


def _read(path: pathlib.Path) -> _Claim | None:
  try:
    # Opening the file makes a network disk refresh its cached times.
    with path.open("rb") as file:
      return _Claim(file.read(), os.fstat(file.fileno()).st_mtime)
  except FileNotFoundError:
    return None


def _is_stale(folder: pathlib.Path, found: _Claim) -> bool:
  return _now(folder) - found.mtime > _SECONDS_UNTIL_STALE


def _now(folder: pathlib.Path) -> float:
  """Returns the present time by the clock of a folder's file system."""
  path = folder / f"{FILE}.{uuid.uuid4().hex}"
  _create(path, b"?")
  try:
    return path.stat().st_mtime
  finally:
    path.unlink()


def _owner(text: bytes) -> str:
  """Returns a phrase that names the process and host that wrote a claim."""
  try:
    owner = json.loads(text)
    return f"process {owner['pid']} on {owner['host']}"
  except (ValueError, TypeError, KeyError):
    return "another program"


def _taken(folder: pathlib.Path) -> FolderTakenError:
  return FolderTakenError(
    f"{folder}: another program is using it; choose another folder, or wait "
    "for that program."
  )
