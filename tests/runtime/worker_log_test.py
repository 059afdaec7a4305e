"""Tests of the log of a worker: by hand, and that of a real one."""

import os

import pytest

from tests import small_problem
from tests.runtime.computations import process
from tff_fair import runtime
from tff_fair.runtime import worker_log

HEAD = b"2026-01-31 12:00:00.123456: %b external/org_tensorflow/"
BEGUN = HEAD % b"I" + b"tensorflow/core/kernels/sendrecv_ops.cc:98] Send /job"
NOTE = b"tensorflow/core/x.cc:7] A note.\n"
LINES = (
  b"without a head\n"
  + (HEAD % b"I" + NOTE + b"  and its second line\n" + BEGUN + b"\n")
  + (HEAD % b"W" + NOTE)
  + (HEAD % b"I" + NOTE + b"E0131 12:00:00.5 7 file.cc:3] gRPC's\n")
  + (HEAD % b"E" + NOTE + b"a second line\n" + BEGUN + b";x\nterminate called")
)


class Stderr:
  """Keeps what is written to it."""

  def __init__(self):
    self.text = ""

  def write(self, text):
    self.text += text

  def flush(self):
    pass


def read(portions, environment, monkeypatch):
  """What a log lets through, and how many clients it counts."""
  stderr = Stderr()
  monkeypatch.setattr("sys.__stderr__", stderr)
  reading, writing = os.pipe()
  log = worker_log.WorkerLog(os.fdopen(reading, "rb", 0), environment)
  for portion in portions:
    os.write(writing, portion)
    assert log.num_begun() <= 2
  os.close(writing)
  log.close()
  return stderr.text, log.num_begun()


@pytest.mark.parametrize("size", [1, 7, 10**6])
def test_counts_clients_and_passes_on_what_was_wanted(size, monkeypatch):
  portions = [LINES[k : k + size] for k in range(0, len(LINES), size)]
  text, num_begun = read(portions, {"TF_CPP_MIN_LOG_LEVEL": "1"}, monkeypatch)
  assert num_begun == 2
  assert [line.split(": ")[-1] for line in text.splitlines()] == [
    "without a head",
    "W external/org_tensorflow/tensorflow/core/x.cc:7] A note.",
    "E0131 12:00:00.5 7 file.cc:3] gRPC's",
    "E external/org_tensorflow/tensorflow/core/x.cc:7] A note.",
    "a second line",
    "terminate called",
  ]


@pytest.mark.parametrize(
  ("level", "notes"), [("0", 4), ("", 4), ("2", 1), ("3", 0)]
)
def test_the_level_that_the_user_chose_counts(level, notes, monkeypatch):
  environment = {"TF_CPP_MIN_LOG_LEVEL": level} if level else {}
  text, num_begun = read([LINES], environment, monkeypatch)
  assert text.count("A note.") == notes
  assert num_begun == 2


def test_the_modules_that_the_user_chose_are_logged_too():
  changed = worker_log.with_signs_of_clients(
    {"TF_CPP_VMODULE": "executor=1", "HOME": "/home"}
  )
  assert changed["TF_CPP_VMODULE"].startswith("executor=1,")
  assert changed["HOME"] == "/home"


@pytest.mark.parametrize("name", ["fedavg", "ditto"])
def test_a_worker_says_when_clients_begin(name):
  ids = small_problem.CLIENT_IDS
  state = process(name).initialize()
  for num_clients in (len(ids), 2):
    data = small_problem.cohort(ids[:num_clients])
    before = runtime.count_clients()
    state = process(name).next(state, data).state
    after = runtime.count_clients()
    assert after.begun - before.begun == num_clients
    assert after.at_a_time == before.at_a_time >= 1


def test_signs_of_graphs_count_and_datasets_of_files_do_not(monkeypatch):
  sign = worker_log.SIGN_OF_CLIENT.encode() + b"\n"
  of_file = BEGUN + b";x;%s;0:0\n" % worker_log.NO_SIGN_OF_CLIENT.encode()
  received = of_file.replace(b"Send", b"Recv")
  lines = of_file + sign + received + of_file + sign
  text, num_begun = read([lines], {}, monkeypatch)
  assert (text, num_begun) == ("", 2)
