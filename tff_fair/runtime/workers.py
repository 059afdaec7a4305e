"""Worker processes on this machine, which end with the program.

TFF runs computations in a C++ process, the worker. TFF itself tries to end the
one it starts when the interpreter is already half gone, and fails: the worker
outlives the program and holds its output open, so that `program | tee log`
never returns. Here the kernel ends a worker with the program that started it,
however that ends. No signal handler is needed for it, so signals keep the
meaning that Python or the user gave them.
"""

import atexit
import concurrent.futures
import contextlib
import ctypes
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Literal, Self, TypeVar

import psutil

from tff_fair.runtime import worker_log

T = TypeVar("T")

# A round allocates and frees the same large tensors over and over. By default
# glibc returns their memory to the kernel at once, and every reuse pays its
# page faults again: measured, six times as many in a round of a small model,
# eight times where updates are stacked. These settings put even the largest
# tensors on the heap, never shrink it, and let few threads have a heap of their
# own: memory that one thread frees serves the next one.
#
# One heap for all would bound the peak best, and threads would wait for it:
# measured on two cores, a second one takes a sixth off a round of small clients
# and a quarter off one of a hundred, and adds 1 to 17 % to the worker's peak.
#
# Clients run side by side, and so keep the cores busy: cutting each operation
# over all cores as well, as TensorFlow does by default, costs more in waking
# threads than it gains (measured: a quarter of a round of a small model).
_NUM_CORES = len(os.sched_getaffinity(0))
_CORES_PER_THREAD = 8
_MAX_HEAPS = 4
_WORKER_ENVIRONMENT = {
  "MALLOC_ARENA_MAX": str(min(_NUM_CORES, _MAX_HEAPS)),
  "MALLOC_MMAP_MAX_": "0",
  "MALLOC_TRIM_THRESHOLD_": str(2**40),
  "TF_CPP_MIN_LOG_LEVEL": "1",  # Warnings and errors only.
  "TF_NUM_INTRAOP_THREADS": str(max(1, _NUM_CORES // _CORES_PER_THREAD)),
}

_BECOME_WORKER = pathlib.Path(__file__).with_name("become_worker.py")


class Worker:
  """A worker process on this machine; it ends with this program at the latest.

  Leaving it as a context manager stops it.

  Attributes:
    address: Where programs on this machine reach it, for `use_workers`:
      "host:port", or "unix:path" for this user's programs alone.
    clients_at_a_time: How many clients run at the same time; without limit if
      it is not positive.
  """

  def __init__(
    self,
    process: subprocess.Popen[bytes],
    address: str,
    port: int | None,
    log: worker_log.WorkerLog,
    clients_at_a_time: int,
  ) -> None:
    self.address = address
    self.clients_at_a_time = clients_at_a_time
    self._process = process
    self._port = port
    self._log = log

  @property
  def port(self) -> int:
    """The TCP port, at which other machines reach it too.

    Raises:
      RuntimeError: If this user's programs alone can reach it.
    """
    if self._port is None:
      raise RuntimeError(
        "This worker has no TCP port: only programs of the same user on this "
        f"machine reach it, at {self.address}. For others, start one with "
        "start_worker(port=...)."
      )
    return self._port

  @property
  def pid(self) -> int:
    """The process id."""
    return self._process.pid

  def clients_begun(self) -> int:
    """Returns how many clients have begun here so far; see `worker_log`."""
    return self._log.num_begun()

  @property
  def is_running(self) -> bool:
    """Whether the process has not ended yet."""
    return self._process.poll() is None

  def memory_bytes(self) -> int:
    """Returns the memory that it takes; 0 after its end."""
    return self._found(lambda process: process.memory_info().rss)

  def num_threads(self) -> int:
    """Returns the number of its threads; 0 after its end."""
    return self._found(psutil.Process.num_threads)

  def num_sockets(self) -> int:
    """Returns the number of its bound sockets; 0 after its end."""
    return self._found(lambda process: len(process.net_connections("all")))

  def cpu_seconds(self) -> float:
    """Returns the processor time that it has used; 0 after its end."""
    return self._found(lambda process: sum(process.cpu_times()[:2]))

  def _found(self, measure: Callable[[psutil.Process], T]) -> T | Literal[0]:
    """Returns what the system says of the process; 0 after its end."""
    try:
      return measure(psutil.Process(self.pid)) if self.is_running else 0
    except psutil.NoSuchProcess:
      return 0

  def check_running(self, *, patience: float = 0.0) -> None:
    """Raises a `RuntimeError` that says how, if the process has ended.

    Args:
      patience: Seconds to wait for the end to show, when there are signs of it.
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
      self.wait(timeout=patience)
      raise RuntimeError(
        f"{self.tell_of_end()} If no user ended it, the machine may have run "
        "out of memory. Start another one to go on."
      )

  def tell_of_end(self) -> str:
    """Waits for the end; returns a sentence that says how it came."""
    status = self.wait()
    how = f"by {signal.Signals(-status).name}" if status < 0 else str(status)
    return f"The worker (process {self.pid}) has ended ({how})."

  def wait(self, timeout: float | None = None) -> int:
    """Waits for the end; returns the exit status, or minus the signal.

    Raises:
      subprocess.TimeoutExpired: If it does not end within so many seconds.
    """
    return self._process.wait(timeout)

  def stop(self) -> None:
    """Ends the process at once: it holds nothing worth saving."""
    self._process.kill()
    self._process.wait()
    self._log.close()
    _workers.discard(self)

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *exc_info: object) -> None:
    self.stop()


_workers: set[Worker] = set()


def worker_pids() -> tuple[int, ...]:
  """Returns the process ids of the running workers this program started."""
  return tuple(sorted(w.pid for w in _workers.copy() if w.is_running))


def worker_binary() -> pathlib.Path:
  """Returns the program of TFF's worker.

  Imports no TFF, which takes seconds and as much memory as a worker.

  Raises:
    FileNotFoundError: If this TFF has it somewhere else.
  """
  spec = importlib.util.find_spec("tensorflow_federated")
  if spec is None or spec.origin is None:
    raise FileNotFoundError(
      "TensorFlow Federated is not installed; its wheel has the worker."
    )
  path = pathlib.Path(spec.origin).parent / "data" / "worker_binary"
  if not path.is_file():
    raise FileNotFoundError(
      f"Expected TensorFlow Federated to have its worker at {path}. Install "
      "the wheel of version 0.87 for Linux, or start workers yourself and pass "
      "their addresses to `use_workers`."
    )
  return path


def launch(
  address: str,
  *,
  port: int | None = None,
  channel: int | None = None,
  max_concurrent_computation_calls: int | None = None,
  environment: Mapping[str, str] | None = None,
) -> Worker:
  """Starts a worker, and does not wait until it can be reached.

  Args:
    address: Where programs on this machine will reach it.
    port: The TCP port to listen on, if it does.
    channel: The descriptor of a Unix socket, if this program gives the worker
      the socket to listen on; see `private_socket`.
    max_concurrent_computation_calls: As `start_worker` takes it.
    environment: Variables to set for the worker, if any.
  """
  if max_concurrent_computation_calls is None:
    # More clients at a time gain nothing: the worker prepares a computation
    # anew for each client that runs beside others, which takes time and memory
    # (`python -m benchmarks.cohorts --show=new_sizes`).
    max_concurrent_computation_calls = _NUM_CORES
  merged = {**_WORKER_ENVIRONMENT, **os.environ, **(environment or {})}
  process = _spawn(
    [
      str(worker_binary()),
      f"--port={port or 0}",
      f"--max_concurrent_computation_calls={max_concurrent_computation_calls}",
    ],
    worker_log.with_signs_of_clients(merged),
    channel,
  )
  assert process.stderr is not None
  worker = Worker(
    process,
    address,
    port,
    worker_log.WorkerLog(process.stderr, merged),
    max_concurrent_computation_calls,
  )
  _workers.add(worker)
  return worker


def _spawn(
  command: list[str], environment: Mapping[str, str], channel: int | None
) -> subprocess.Popen[bytes]:
  """Starts a process that the kernel ends with this one; see `become_worker`.

  By "parent" the kernel means the thread that started the process, so it gets
  a thread of its own that lives as long as the process.
  """
  started: concurrent.futures.Future[subprocess.Popen[bytes]] = (
    concurrent.futures.Future()
  )

  arguments = [str(os.getpid()), "-" if channel is None else str(channel)]

  def start_and_wait() -> None:
    try:
      process = subprocess.Popen(
        [sys.executable, "-IS", _BECOME_WORKER, *arguments, *command],
        pass_fds=[] if channel is None else [channel],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        # Ctrl-C in a terminal reaches the program alone, which may still need
        # the worker for what it does then.
        start_new_session=True,
      )
    except BaseException as error:
      started.set_exception(error)
    else:
      started.set_result(process)
      process.wait()

  threading.Thread(target=start_and_wait, daemon=True).start()
  return started.result()


@atexit.register
def stop_workers() -> None:
  """Stops all workers that this program started."""
  for worker in _workers.copy():
    worker.stop()


# The workers of a program are not those of its forked children.
os.register_at_fork(after_in_child=_workers.clear)


# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_M_ARENA_MAX = -8
_KEPT_AT_MOST = 2**30


def keep_freed_memory() -> bool:
  """Makes this process keep up to 1 GiB of the memory that it frees.

  Threads that begin later take their memory from where the others have theirs:
  in an arena of its own, a thread would give large blocks back. So the earlier
  the better.

  Returns:
    Whether the allocator is one that takes the setting, as glibc's does.
  """
  mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
  if mallopt is None:
    return False
  return bool(
    mallopt(_M_MMAP_MAX, 0)
    and mallopt(_M_ARENA_MAX, 1)
    and mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_MOST)
  )
