"""Tests of claims on folders, on file systems with locks and without."""

import concurrent.futures
import contextlib
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from unittest import mock

import pytest

from tests import source_tree, waiting
from tff_fair.experiments.errors import FolderTakenError, RunError
from tff_fair.experiments.runs import claim

# A program that claims a folder without locks, says so, and keeps the claim.
PROGRAM = """
import errno, fcntl, functools, pathlib, sys, time
from tff_fair.experiments.runs import claim

def no_locks(file, operation):
  raise OSError(errno.ENOLCK, "No locks available")

fcntl.flock = no_locks
folder = pathlib.Path(sys.argv[1])
with (folder / "config.json").open("ab") as file:
  with claim.hold(file, folder, functools.partial(print, flush=True)):
    print("at work", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def no_locks(monkeypatch):
  error = OSError(errno.ENOLCK, "No locks available")
  monkeypatch.setattr(fcntl, "flock", mock.Mock(side_effect=error))


@pytest.fixture
def said():
  return []


@pytest.fixture
def hold(tmp_path, said):
  @contextlib.contextmanager
  def held():
    with (
      (tmp_path / "config.json").open("ab+") as file,
      claim.hold(file, tmp_path, said.append),
    ):
      yield

  return held


def names(folder):
  return sorted(path.name for path in folder.iterdir())


def make_stale(folder, text='{"host": "h", "pid": 7, "nonce": "n"}'):
  path = folder / claim.FILE
  path.write_text(text)
  old = time.time() - 61
  os.utime(path, (old, old))


def test_a_lock_leaves_no_file(tmp_path, hold):
  with hold():
    assert names(tmp_path) == ["config.json"]
    assert claim.is_held(tmp_path / "config.json")
    with pytest.raises(FolderTakenError):
      hold().__enter__()
  assert not claim.is_held(tmp_path / "config.json")
  assert not claim.is_held(tmp_path / "none" / "config.json")


def test_a_test_of_the_lock_disturbs_no_run(tmp_path, hold, monkeypatch):
  config = tmp_path / "config.json"
  config.touch()
  with config.open("rb") as tested:
    fcntl.flock(tested, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda _: tested.close())
    with hold():
      assert claim.is_held(config)


@pytest.mark.usefixtures("no_locks")
def test_a_claim_without_locks_is_a_file(tmp_path, hold):
  with hold():
    assert names(tmp_path) == [claim.FILE, "config.json"]
    assert json.loads((tmp_path / claim.FILE).read_text())["pid"] == os.getpid()
    assert claim.is_held(tmp_path / "config.json")
    with pytest.raises(FolderTakenError):
      hold().__enter__()
  assert names(tmp_path) == ["config.json"]
  assert not claim.is_held(tmp_path / "config.json")


@pytest.mark.usefixtures("no_locks")
def test_a_live_claim_has_a_heartbeat(tmp_path, hold, monkeypatch):
  monkeypatch.setattr(claim, "_SECONDS_PER_BEAT", 0.01)
  with hold():
    path = tmp_path / claim.FILE
    os.utime(path, (0, 0))
    waiting.until(lambda: path.stat().st_mtime)
    path.unlink()  # The heartbeat writes the file again.
    waiting.until(path.exists)
  assert names(tmp_path) == ["config.json"]


@pytest.mark.parametrize(
  ("text", "owner"),
  [
    ('{"host": "node7", "pid": 7}', "process 7 on node7"),
    ("", "another program"),  # That program died before it wrote the file.
    ("[]", "another program"),
  ],
)
@pytest.mark.usefixtures("no_locks")
def test_a_claim_without_a_heartbeat_is_taken_over(
  tmp_path, hold, said, text, owner
):
  make_stale(tmp_path, text)
  assert not claim.is_held(tmp_path / "config.json")
  with hold():
    assert claim.is_held(tmp_path / "config.json")
    assert names(tmp_path) == [claim.FILE, "config.json"]
  assert names(tmp_path) == ["config.json"]
  assert said == [
    f"{tmp_path}: takes over from {owner}, which has given no sign of life for "
    "more than 60 s."
  ]


@pytest.mark.usefixtures("no_locks")
def test_a_program_that_died_taking_over_is_told(tmp_path, hold):
  make_stale(tmp_path)
  with claim._exclusive_takeover(
    tmp_path, (tmp_path / claim.FILE).read_bytes()
  ) as mine:
    assert mine
    with pytest.raises(FolderTakenError):  # Another program takes over.
      hold().__enter__()
    (marker,) = set(names(tmp_path)) - {claim.FILE, "config.json"}
    os.utime(tmp_path / marker, (0, 0))
    with pytest.raises(RunError, match=marker):
      hold().__enter__()


@pytest.mark.parametrize("is_stale", [False, True])
@pytest.mark.usefixtures("no_locks")
def test_of_several_programs_exactly_one_wins(tmp_path, hold, is_stale):
  """Threads can stand for programs, because claims without locks are files."""
  begin, end = threading.Barrier(3), threading.Barrier(3)

  def wins(_):
    begin.wait()
    try:
      with hold():
        end.wait(20)
        return True
    except FolderTakenError:
      end.wait(20)
      return False

  with concurrent.futures.ThreadPoolExecutor(3) as threads:
    for trial in range(150):
      if is_stale:
        make_stale(tmp_path, f'{{"nonce": {trial}}}')
      assert sum(threads.map(wins, range(3))) == 1
      assert names(tmp_path) == ["config.json"]


def test_a_program_that_slept_through_a_take_over_ends(start_program, tmp_path):
  script = PROGRAM.replace(
    "fcntl.flock =", "claim._SECONDS_PER_BEAT = 0.1; fcntl.flock ="
  )
  process = start_program(
    [sys.executable, "-c", script, str(tmp_path)],
    cwd=source_tree.ROOT,
    stdout=subprocess.PIPE,
    text=True,
  )
  assert process.stdout.readline() == "at work\n"
  new = tmp_path / "new"
  new.write_text('{"host": "node8", "pid": 8}')
  new.replace(tmp_path / claim.FILE)
  output, _ = process.communicate(timeout=60)
  assert process.returncode == -signal.SIGKILL
  assert "process 8 on node8 has taken over" in output
  assert (tmp_path / claim.FILE).read_text().startswith('{"host": "node8"')
