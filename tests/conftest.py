"""Sorts tests into tiers, and sets up the runtime for those that need it."""

import contextlib
import functools
import gc
import os
import pathlib
import re
import signal
import subprocess
import sys
import typing

import pytest

import tff_fair  # Imports TensorFlow Federated only on demand.

# Tests must leave nothing in the user's folders.
_CACHE_VARIABLE = "TFF_FAIR_COMPILATION_CACHE"
os.environ[_CACHE_VARIABLE] = "0"

# Background jobs of a shell ignore Ctrl-C. The programs that tests start and
# interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
  signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = pathlib.Path(__file__).resolve().parent
_CACHED = type(functools.cache(len))
_SHARING_FILES = pytest.StashKey[set[pathlib.Path]]()

# The tier of a file's tests is the mark of the file, or else of the nearest
# folder's conftest.py:
#   pure     Pure functions, texts and tables: no federated computation, and
#            where possible no import of TensorFlow Federated.
#   tff      Federated computations, with `use_local`.
#   program  Whole programs and experiments, with `use_local`, too.
# Files without a mark are of this tier: they get the runtime, and quick runs
# skip them.
pytestmark = pytest.mark.program
# Files of long tests come first, so that parallel processes end at about the
# same time.
TIERS = ("program", "tff", "pure")
# Start these first: a process that began one last would keep others waiting.
_LONGEST_FILES = ("code_blocks_run_test.py", "methods/process_contract_test.py")
# Files whose computations TensorFlow optimizes, as it does for users, although
# no programs share them. In other files, optimizing takes a third of the time.
_OPTIMIZED_FILES = (
  "aggregators/hostile_signals_test.py",
  "runtime/tff_internals_test.py",
)


@functools.cache
def tier_of(path: pathlib.Path) -> str:
  """Returns the tier of a test file or of a folder.

  The tier is read from the source text, so that a quick run imports no file of
  another tier.
  """
  if path.is_dir():
    return _tier_in(path / "conftest.py") or tier_of(path.parent)
  return _tier_in(path) or tier_of(path.parent)


def _tier_in(file: pathlib.Path) -> str | None:
  text = file.read_text() if file.exists() else ""
  marks = re.search(r"^pytestmark = (\[[^]]*\]|.*)", text, re.MULTILINE)
  tier = marks and re.search(rf"mark\.({'|'.join(TIERS)})\b", marks[1])
  return tier and tier[1]


def pytest_ignore_collect(
  collection_path: pathlib.Path, config: pytest.Config
) -> bool | None:
  """Skips files of other tiers if only pure tests run."""
  is_quick = config.getoption("markexpr").startswith("pure")
  if not is_quick or collection_path.is_dir():
    return None
  return tier_of(collection_path) != "pure" or None


def _name(path: pathlib.Path) -> str:
  return path.relative_to(TESTS).as_posix()


def pytest_collection_modifyitems(
  config: pytest.Config, items: list[pytest.Item]
) -> None:
  """Sorts the tests, and gives each the mark and the context of its tier."""
  items.sort(
    key=lambda item: (
      _name(item.path) not in _LONGEST_FILES,
      TIERS.index(tier_of(item.path)),
    )
  )
  sharing = config.stash.setdefault(_SHARING_FILES, set())
  for item in items:
    tier = tier_of(item.path)
    item.add_marker(tier)
    # This fixture comes first, because a module's fixtures may compute.
    fixtures = getattr(item, "fixturenames", [])
    if tier != "pure" and "local_execution" not in fixtures:
      fixtures.insert(0, "local_execution")
    if "compiled_once" in fixtures:
      sharing.add(item.path)


def pytest_collection_finish() -> None:
  """Makes graphs quick to build, once the tests' modules are imported.

  The garbage collector ignores those modules and runs less often: building a
  computation makes tens of thousands of objects, few of which stay. With
  Python's default thresholds, collecting took a quarter of the time.
  """
  gc.freeze()
  gc.set_threshold(20_000, 20, 50)
  _read_protocols_once()
  if "tensorflow" in sys.modules:
    _keep_no_stacks()


def _read_protocols_once() -> None:
  """Caches the members of protocols for `isinstance`, as Python 3.12 does.

  TensorFlow checks most arguments against protocols, which took an eighth of
  the time of building a computation.
  """
  for name in ("_get_protocol_attrs", "_is_callable_members_only"):
    setattr(typing, name, functools.cache(getattr(typing, name)))


def _keep_no_stacks() -> None:
  """Stops operations from storing stack traces, an eighth of building time."""
  from tensorflow.python.framework import ops  # noqa: PLC0415

  make = ops._create_c_op
  ops._create_c_op = functools.partial(make, extract_traceback=False)


@pytest.fixture(scope="module")
def local_execution(request):
  """Runs computations with `use_local`, in a context for each file.

  A context keeps all computations that it has run, gigabytes of them, and a
  process keeps their compiled forms. So the caches of the file's functions are
  cleared, too.
  """
  from tests import shared_parts  # noqa: PLC0415  It imports TFF.

  with shared_parts.types_read_once(), contextlib.ExitStack() as opened:
    if not _is_as_for_users(request):
      opened.enter_context(shared_parts.small_stacks())
      if _name(request.path) not in _OPTIMIZED_FILES:
        opened.enter_context(shared_parts.unoptimized())
    tff_fair.runtime.use_local()
    opened.callback(tff_fair.runtime.stop)
    yield
    for value in vars(request.module).values():
      if isinstance(value, _CACHED):
        value.cache_clear()


def _is_as_for_users(request: pytest.FixtureRequest) -> bool:
  """Returns whether a file builds its computations exactly as users do.

  Files that share them with programs do so; in long runs, all files do.
  """
  return (
    "not long" not in request.config.getoption("markexpr")
    or request.path in request.config.stash[_SHARING_FILES]
  )


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
  """Returns a folder that all processes of this test run share."""
  folder = tmp_path_factory.getbasetemp()
  return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def shared_caches(shared_folder):
  """Returns environment variables by which runs and programs share caches.

  All processes of this test run share these caches.
  """
  import matplotlib  # noqa: PLC0415  Quick tests start without it.

  caches = shared_folder / "caches"
  caches.mkdir(mode=0o700, exist_ok=True)
  return {
    _CACHE_VARIABLE: "1",
    "XDG_CACHE_HOME": str(caches),
    # Otherwise matplotlib would scan all fonts again.
    "MPLCONFIGDIR": matplotlib.get_cachedir(),
  }


@pytest.fixture(scope="session")
def warm_python(shared_folder):
  """Yields a Python that starts fast, for tests that are not about starting."""
  from tests import warm_python  # noqa: PLC0415

  with warm_python.shared(shared_folder / "warm") as executable:
    yield str(executable)


@pytest.fixture
def start_program():
  """Yields a function that starts programs; kills them at the end."""
  with contextlib.ExitStack() as started:

    def start(command, **options):
      program = started.enter_context(subprocess.Popen(command, **options))
      started.callback(program.kill)
      return program

    yield start


@pytest.fixture
def all_code_known(monkeypatch):
  """Lets tests use the cache, although tests count as a user's code.

  For tests that replace nothing on which a computation depends.
  """
  from tff_fair.runtime import known_code  # noqa: PLC0415

  monkeypatch.setattr(known_code, "has_user_code", lambda: False)


@pytest.fixture(scope="module")
def compiled_once(shared_caches):
  """Lets runs and started programs share their compiled computations.

  For files of tests that replace nothing on which a computation depends. What
  a run has loaded, later runs of the file take from memory.
  """
  from tff_fair.experiments.training import execution  # noqa: PLC0415
  from tff_fair.runtime import (  # noqa: PLC0415
    compilation_cache,
    known_code,
  )

  loaded = {}

  class Kept(compilation_cache.CompilationCache):
    def computations(self, key, build):
      name = self._name("computations", key)
      if name is None:
        return build()
      if name not in loaded:
        loaded[name] = super().computations(key, build)
      return loaded[name]

  def users():
    return Kept(compilation_cache.user_cache()._files)

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(known_code, "has_user_code", lambda: False)
    patch.setattr(execution, "user_cache", users)
    for name, value in shared_caches.items():
      patch.setenv(name, value)
    yield


@pytest.fixture(scope="module")
def compiled_here():
  """Lets the runs of a file share their compiled computations, in memory.

  For files whose processes no other file or program has. Nothing is optimized.
  """
  from tff_fair.experiments.training import (  # noqa: PLC0415
    execution,
    in_memory,
  )

  known = {}

  class Shared(in_memory.ProgramCache):
    def __init__(self):
      super().__init__()
      self._known = known

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(in_memory, "ProgramCache", Shared)
    patch.setattr(execution, "user_cache", Shared)
    yield Shared()


@pytest.fixture(scope="module")
def secure_sums():
  """Simulates secure sums in the clear; disables them afterwards."""
  tff_fair.runtime.use_local(simulate_secure_sums=True)
  yield
  tff_fair.runtime.use_local()


@pytest.fixture(scope="module")
def built_once():
  """Builds equal parts of a test file's learning processes only once."""
  from tests import shared_parts  # noqa: PLC0415  It imports TFF.

  with shared_parts.built_once():
    yield


@pytest.fixture(scope="module")
def unpainted():
  """Makes runs in this process write empty files instead of plots.

  Two plots take three quarters of a short run's time.
  """

  def leave_empty(figure, path, **options):
    del figure, options
    pathlib.Path(path).write_bytes(b"")

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr("matplotlib.figure.Figure.savefig", leave_empty)
    yield
