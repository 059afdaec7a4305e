"""What a worker writes: notes for the user, and signs that clients begin.

TFF tells nothing of a round before its end. But a client's work starts with
reading its data, in TensorFlow's graph of that dataset, which hands the dataset
over by one `_Send`; TensorFlow notes each in its log, at a level of its own for
each source file. So a worker that logs these alone says when a client begins,
for microseconds a client, and computes what it always does.

That log level is part of no public interface. Where it says nothing, clients
are not counted, and nothing else changes.
"""

import contextlib
import fcntl
import os
import re
import select
import sys
import threading
import time
import typing
from collections.abc import Mapping

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_MODULES = "TF_CPP_VMODULE"
_SENDS = "sendrecv_ops=2"

# A graph for all clients (`one_graph.client_values`) writes the sign itself,
# and hands over datasets of files by this name.
SIGN_OF_CLIENT = "tff_fair: a client begins"
NO_SIGN_OF_CLIENT = "rows_of_a_file"

_OURS = re.compile(
  rb"\bsendrecv_ops\.cc:\d+\] (?P<what>Send|Recv) |^%s$"
  % SIGN_OF_CLIENT.encode()
)
# The heads of TensorFlow's notes; the second is gRPC's, which it never filters.
_HEAD = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: ([IWEF]) ")
_OTHER_HEAD = re.compile(rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ ")
_SEVERITIES = {b"I": 0, b"W": 1, b"E": 2, b"F": 3}

# Notes are read in portions, so that a round of many small clients does not
# wake this program for each; what comes meanwhile waits in the pipe.
_SECONDS_PER_PORTION = 0.1
_PIPE_BYTES = 2**20


def with_signs_of_clients(environment: Mapping[str, str]) -> dict[str, str]:
  """Returns the environment of a worker that logs when a client begins."""
  modules = [environment.get(_MODULES, ""), _SENDS]
  return {
    **environment,
    _LEVEL: "0",
    _MODULES: ",".join(filter(None, modules)),
  }


class WorkerLog:
  """Reads the log of a worker as long as it runs.

  It counts the clients that begin, and passes on to stderr what the worker
  would have written there without it.
  """

  def __init__(
    self, stream: typing.IO[bytes], environment: Mapping[str, str]
  ) -> None:
    """Starts to read.

    Args:
      stream: The reading end of the worker's stderr.
      environment: The worker's, as it would be without signs of clients.
    """
    self._stream = stream
    self._least_severity = _level(environment)
    self._num_begun = 0
    self._rest = b""  # A line that is half written.
    self._is_wanted = True  # The note that the next lines may belong to.
    self._reading = threading.Lock()
    os.set_blocking(stream.fileno(), False)
    with contextlib.suppress(OSError, AttributeError):  # Not on every system.
      fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    self._thread = threading.Thread(target=self._follow, daemon=True)
    self._thread.start()

  def num_begun(self) -> int:
    """Returns how many clients have begun; each pass over its data counts."""
    with self._reading:
      self._read()
      return self._num_begun

  def close(self) -> None:
    """Waits a moment for the last notes of a worker that has ended."""
    self._thread.join(timeout=1.0)

  def _follow(self) -> None:
    is_open = True
    arrival = select.poll()
    arrival.register(self._stream, select.POLLIN)
    while is_open:
      arrival.poll()
      with self._reading:
        is_open = self._read()
      time.sleep(_SECONDS_PER_PORTION if is_open else 0)
    with self._reading:
      self._take([self._rest] if self._rest else [])
      self._stream.close()

  def _read(self) -> bool:
    """Reads what there is; returns whether more may come."""
    if self._stream.closed:
      return False
    try:
      portion = os.read(self._stream.fileno(), _PIPE_BYTES)
    except BlockingIOError:
      return True
    *lines, self._rest = (self._rest + portion).split(b"\n")
    self._take(lines)
    return bool(portion)

  def _take(self, lines: list[bytes]) -> None:
    wanted = [line for line in lines if self._passes(line)]
    if wanted and sys.__stderr__ is not None:
      # A stderr that was closed is no reason to stop counting.
      with contextlib.suppress(OSError, ValueError):
        text = b"\n".join(wanted).decode(errors="replace")
        print(text, file=sys.__stderr__, flush=True)

  def _passes(self, line: bytes) -> bool:
    """Returns whether a line is for the user; counts it if it is a sign."""
    if ours := _OURS.search(line):
      of_file = b";%s;" % NO_SIGN_OF_CLIENT.encode() in line
      self._num_begun += ours["what"] != b"Recv" and not of_file
      self._is_wanted = True
      return False
    if head := _HEAD.match(line):
      self._is_wanted = _SEVERITIES[head[1]] >= self._least_severity
    elif _OTHER_HEAD.match(line):
      self._is_wanted = True
    return self._is_wanted


def _level(environment: Mapping[str, str]) -> int:
  try:
    return int(environment.get(_LEVEL, "0"))
  except ValueError:
    return 0
