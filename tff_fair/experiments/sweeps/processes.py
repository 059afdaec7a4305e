"""Carries out runs on this machine, in processes forked after slow imports.

TensorFlow Federated takes seconds to import. A server process imports it once,
does not compute, and forks for each run. (On two cores, a run's first round
then ends after 9 s instead of 18 s.) Forking before any computation is safe,
since TensorFlow and gRPC start their threads at the first use.
"""

import contextlib
import dataclasses
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, forkserver
from multiprocessing.process import BaseProcess
from typing import TypeVar

from tff_fair.experiments import interruption
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.sweeps import jobs
from tff_fair.experiments.sweeps.jobs import Executor, Job
from tff_fair.runtime import known_code

_PRELOADED = "tff_fair.experiments.sweeps.preloaded"
_Result = TypeVar("_Result")
_context = multiprocessing.get_context("forkserver")


@dataclasses.dataclass(frozen=True)
class Processes(Executor):
  """An executor that carries out runs in processes of this machine."""

  jobs: int = 1

  def __str__(self) -> str:
    return f"local (jobs={self.jobs})"

  @contextlib.contextmanager
  def session(self) -> Iterator[None]:
    """Starts the server, which imports modules while this program goes on."""
    _start_server()
    yield

  def start(self, job: Job) -> "_RunningProcess":
    """Starts a run; if this program is killed, the run saves and ends."""
    process = _context.Process(target=_train, args=(job,), name=job.name)
    try:
      with hide_main_module():
        process.start()
    except (ConnectionError, EOFError) as error:
      raise RunError(
        f"{job.path}: cannot be started: the process that starts runs was "
        "killed, perhaps for lack of memory; repeat the command to resume."
      ) from error
    return _RunningProcess(process, RunFolder(job.path))


def _start_server() -> None:
  """Starts the server of processes, unless it is running."""
  _context.set_forkserver_preload([_PRELOADED])
  with _ignore_interrupts(), export_module_paths():
    forkserver.ensure_running()


def call(function: Callable[..., _Result], *args: object) -> _Result:
  """Calls a function in a new process, and returns its result."""
  _start_server()
  receiver, sender = _context.Pipe(duplex=False)
  process = _context.Process(target=_send, args=(sender, function, args))
  try:
    with hide_main_module():
      process.start()
    sender.close()
    return typing.cast(_Result, receiver.recv())
  except (ConnectionError, EOFError) as error:
    raise RunError(
      f"the process that was to call {function.__name__} ended without a "
      "result, perhaps for lack of memory; try again."
    ) from error
  finally:
    if process.pid is not None:
      process.terminate()
      process.join()


def _send(
  sender: connection.Connection,
  function: Callable[..., object],
  args: Sequence[object],
) -> None:
  try:
    result = function(*args)
  finally:
    _remove_rewritten_functions()
  sender.send(result)


# The exit code that Python reports for a process whose server was killed, since
# only the server learns the true exit code.
_UNKNOWN = 255


@dataclasses.dataclass(frozen=True, eq=False)
class _RunningProcess:
  """A run in its own process, which outlives the server if that is killed."""

  process: BaseProcess
  folder: RunFolder

  def poll(self) -> int | None:
    status = self.process.exitcode
    if status != _UNKNOWN:
      return status
    if self._is_alive():
      return None
    is_done = self.folder.is_finished or self.folder.is_pruned
    return 0 if is_done else jobs.LOST

  def stop(self) -> None:
    self._send(signal.SIGTERM)

  def kill(self) -> None:
    self._send(signal.SIGKILL)

  def _send(self, number: int) -> None:
    if self.poll() is None and self.process.pid is not None:
      with contextlib.suppress(ProcessLookupError):
        os.kill(self.process.pid, number)

  def _is_alive(self) -> bool:
    """Returns whether the process still runs, and is not a zombie."""
    try:
      descriptor = os.pidfd_open(self.process.pid or 0)
    except OSError:
      return False
    try:
      return not connection.wait([descriptor], timeout=0)
    finally:
      os.close(descriptor)


@contextlib.contextmanager
def _ignore_interrupts() -> Iterator[None]:
  """Ignores Ctrl-C while the server starts; the server inherits this."""
  # Only the main thread may set signal handlers.
  if threading.current_thread() is not threading.main_thread():
    yield
    return
  handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
  try:
    yield
  finally:
    signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def block_interrupts() -> Iterator[None]:
  """In this context, blocks Ctrl-C in new processes; delays it in this one."""
  former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, former)


@contextlib.contextmanager
def export_module_paths() -> Iterator[None]:
  """Lets processes started in this context find this program's modules."""
  variables = jobs.module_variables()
  before = {name: os.environ.get(name) for name in variables}
  os.environ.update(variables)
  try:
    yield
  finally:
    for name, value in before.items():
      if value is None:
        del os.environ[name]
      else:
        os.environ[name] = value


@contextlib.contextmanager
def hide_main_module() -> Iterator[None]:
  """Keeps Python from importing the user's script in new processes.

  A script may start a sweep at its top level, which each process would repeat.
  """
  name = "__main__"
  main = sys.modules[name]
  sys.modules[name] = types.ModuleType(name)
  try:
    yield
  finally:
    sys.modules[name] = main


def _train(job: Job) -> None:
  """Carries out a job in this process, which was forked only for this job."""
  os.setsid()  # Ctrl-C reaches only the sweep, which asks its runs to end.
  on_parent_exit(interruption.request_exit)
  jobs.write_output_to(job.log)
  try:
    status = jobs.run(job)
  finally:
    _remove_rewritten_functions()
  sys.exit(status)


def _remove_rewritten_functions() -> None:
  """Removes the files that TensorFlow's AutoGraph wrote for this process."""
  for name, module in sys.modules.copy().items():
    if name.startswith(known_code.GENERATED) and module.__file__:
      pathlib.Path(module.__file__).unlink(missing_ok=True)


def on_parent_exit(act: Callable[[], object]) -> None:
  """Calls `act` in a thread when the parent process ends or is killed."""
  parent = multiprocessing.parent_process()
  assert parent is not None

  def wait() -> None:
    connection.wait([parent.sentinel])
    act()

  threading.Thread(target=wait, daemon=True).start()
