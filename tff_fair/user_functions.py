"""Imports users' functions and classes by names for the command line.

Tasks, models and methods may be such functions. A name is
path/to/file.py:function or PACKAGE.MODULE:function. Paths are absolute, or
start in the working directory. A file runs like a script: it can import files
in its folder, it need not be in a package, and no file is written next to it.
Two files with the same name are two modules. After an edit of a file, the next
call of `load` runs it again.
"""

import ast
import contextlib
import contextvars
import functools
import hashlib
import importlib
import importlib.machinery
import importlib.metadata
import os
import pathlib
import sys
import traceback
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from tff_fair import notices
from tff_fair.declared import FieldError

_EXPECTED = "expected path/to/file.py:function or PACKAGE.MODULE:function."
_SUFFIX = ".py"


class _LoadedModule(NamedTuple):
  """The result of running a file, and the file's digest when it ran."""

  digest: str
  module: types.ModuleType | FieldError


_imported: dict[pathlib.Path, _LoadedModule] = {}


# Whether user code that has not run before may run. It must not run while
# records are read: records may come from other people, and may name functions.
_may_run = contextvars.ContextVar("may_run", default=True)


@contextlib.contextmanager
def reading_records() -> Iterator[None]:
  """Keeps `load` in the block from importing code that has not run before."""
  token = _may_run.set(False)
  try:
    yield
  finally:
    _may_run.reset(token)


def may_run_code() -> bool:
  """Returns whether user code that has not run before may run."""
  return _may_run.get()


def may_run(name: str) -> bool:
  """Returns whether `load` may import the function, or has already done so."""
  if _may_run.get():
    return True
  place = _place(name)
  if not place.endswith(_SUFFIX):
    return place in sys.modules
  path = pathlib.Path(os.path.expanduser(place)).resolve()
  known = _imported.get(path)
  return known is not None and known.digest == digest_of_file(path)


@contextlib.contextmanager
def report_errors_as(setting: str, name: str) -> Iterator[None]:
  """Turns each `FieldError` about `name` into one about `setting`.

  `name` is the setting's value, the name of a user's function.
  """
  try:
    yield
  except FieldError as error:
    if error.field != name:
      raise
    raise FieldError(setting, error.problem, value=name) from error


def is_name(text: str) -> bool:
  """Returns whether a string has the form of a user function's name."""
  return ":" in text


def short_name(name: str) -> str:
  """Returns a function's name without its file or module."""
  return name.rpartition(":")[2]


def entry_points(
  group: str, kind: str, taken: Collection[str]
) -> dict[str, str]:
  """Returns the values of installed packages' entry points in `group`, by name.

  A name that is in `taken` or occurs a second time is skipped with a notice,
  which calls the entry point a `kind`, such as "method".
  """
  found: dict[str, str] = {}
  points = importlib.metadata.entry_points(group=group)
  for point in sorted(points, key=lambda point: (point.name, point.value)):
    package = point.dist.name if point.dist is not None else point.value
    if point.name in taken or point.name in found:
      whose = "of tff_fair" if point.name in taken else "of another package"
      notices.notify(
        f"the {kind} {point.name} of the package {package} cannot be used: the "
        f"name is that of a {kind} {whose}; {point.value} names it, too."
      )
      continue
    found[point.name] = point.value
  return found


def check(name: str) -> None:
  """Checks that the file of `name` defines the function; runs no user code."""
  path = file_of(name)
  function = short_name(name)
  try:
    tree = ast.parse(path.read_bytes(), str(path))
  except (OSError, SyntaxError, ValueError) as error:
    raise user_code_error(name, path, error) from error
  defined = set(_top_level_names(tree))
  if function not in defined and not defined & {"*", "__getattr__"}:
    raise _no_function(name, path, defined)


def load(name: str) -> Callable[..., Any]:
  """Imports and returns the function or class called `name`."""
  if not may_run(name):
    raise FieldError(name, "does not run while a record is read.")
  path = file_of(name)
  place = _place(name)
  module = (
    _run_file(name, path)
    if place.endswith(_SUFFIX)
    else _import_module(name, place, path)
  )
  try:
    function = getattr(module, short_name(name))
  except AttributeError as error:
    raise _no_function(name, path, vars(module)) from error
  if not callable(function):
    raise FieldError(
      name,
      f"expected a function, found {short_name(name)}={function!r} in {path}.",
    )
  return function


def is_class(name: str) -> bool:
  """Imports the object called `name`; returns whether it is a class.

  Returns False if the import fails.
  """
  try:
    return isinstance(load(name), type)
  except FieldError:
    return False


def digest(name: str) -> str:
  """Returns a digest of the files that determine what a function does."""
  place, path = _place(name), file_of(name)
  if place.endswith(_SUFFIX):
    return digest_of_file(path)
  return _digest_of_module(path, place)


def file_of(name: str) -> pathlib.Path:
  """Returns the file that defines a function."""
  place = _place(name)
  if place.endswith(_SUFFIX):
    path = pathlib.Path(os.path.expanduser(place))
    if not path.is_file():
      where = "" if path.is_absolute() else f" in {pathlib.Path.cwd()}"
      relative = "" if path.is_absolute() else "a relative path begins there; "
      raise FieldError(
        name, f"there is no file {place}{where}; {relative}{_EXPECTED}"
      )
    return path.resolve()
  if not all(part.isidentifier() for part in place.split(".")):
    raise FieldError(name, _EXPECTED)
  spec = _find(place)
  if spec is None or not spec.has_location or spec.origin is None:
    raise FieldError(name, f"there is no module {place}; {_EXPECTED}")
  return pathlib.Path(spec.origin).resolve()


def _find(module: str) -> importlib.machinery.ModuleSpec | None:
  """Finds a module without importing its parent packages."""
  spec, places = None, None
  words = module.split(".")
  for count in range(1, len(words) + 1):
    title = ".".join(words[:count])
    found = (finder.find_spec(title, places) for finder in sys.meta_path)
    spec = next(filter(None, found), None)
    if spec is None:
      return None
    places = spec.submodule_search_locations
    if places is None and count < len(words):
      return None
  return spec


def absolute_name(name: str) -> str:
  """Returns `name` with an absolute path, for use in any working directory."""
  if not is_name(name) or not _place(name).endswith(_SUFFIX):
    return name
  path = os.path.abspath(os.path.expanduser(_place(name)))
  return f"{path}:{short_name(name)}"


def user_code_error(
  name: str, path: pathlib.Path | None, error: BaseException
) -> FieldError:
  """Returns a one-line error for an `error` in a user's code at `path`.

  The error names the line at fault.
  """
  frames = traceback.extract_tb(error.__traceback__)
  lines = [
    (frame.filename, frame.lineno)
    for frame in frames
    if path is not None and frame.filename == str(path)
  ]
  if isinstance(error, SyntaxError) and error.filename:
    lines.append((error.filename, error.lineno))
  where = "{}, line {}".format(*lines[-1]) if lines else str(path or "it")
  message = error.msg if isinstance(error, SyntaxError) else str(error)
  text = " ".join(f"{type(error).__name__}: {message}".split())
  return FieldError(name, f"{where} raises {text}")


def _place(name: str) -> str:
  place, _, function = name.rpartition(":")
  if not place or not function.isidentifier():
    raise FieldError(name, _EXPECTED)
  return place


def _no_function(
  name: str, path: pathlib.Path, defined: set[str] | dict[str, object]
) -> FieldError:
  public = sorted(n for n in defined if not n.startswith("_"))
  return FieldError(
    name,
    f"{path} has no {short_name(name)}; it has {', '.join(public) or 'none'}.",
  )


def _top_level_names(tree: ast.AST) -> Iterator[str]:
  """Yields all names that a file may define at top level."""
  for node in ast.iter_child_nodes(tree):
    match node:
      case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
        yield node.name  # Names defined inside are not top-level.
      case ast.alias():
        yield node.asname or node.name.partition(".")[0]
      case ast.Name(ctx=ast.Store()):
        yield node.id
      case _:
        yield from _top_level_names(node)


def _run_file(name: str, path: pathlib.Path) -> types.ModuleType:
  now = digest_of_file(path)
  known = _imported.get(path)
  if known is None or known.digest != now:
    if known is not None:
      _forget_neighbours(path)
    known = _LoadedModule(now, _module_or_error(name, path, now))
    _imported[path] = known
  if isinstance(known.module, FieldError):
    raise FieldError(name, known.module.problem) from known.module
  return known.module


def _module_or_error(
  name: str, path: pathlib.Path, digest_now: str
) -> types.ModuleType | FieldError:
  unique = hashlib.sha256(f"{path}:{digest_now}".encode()).hexdigest()[:12]
  title = f"user_{unique}_{path.stem}"
  module = types.ModuleType(title)
  module.__file__ = str(path)
  sys.modules[title] = module  # Dataclasses look there for their types.
  folder = str(path.parent)
  if folder not in sys.path:
    sys.path.insert(0, folder)
  try:
    # A bytecode file would store the source's time only in seconds, so that an
    # edit within the same second would have no effect.
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    exec(code, vars(module))
  except (Exception, SystemExit) as error:
    del sys.modules[title]
    return user_code_error(name, path, error)
  return module


def _forget_neighbours(path: pathlib.Path) -> None:
  """Forgets the modules that a changed file imports; these may have changed."""
  files = {str(file) for file in files_of(path)}
  for title, module in sys.modules.copy().items():
    file = getattr(module, "__file__", None)
    if file in files and title != "__main__":
      del sys.modules[title]


@functools.cache  # Python imports a module once, whatever happens to its file.
def _digest_of_module(path: pathlib.Path, module: str) -> str:
  return digest_of_file(path, module)


@functools.cache
def _import_module(
  name: str, place: str, path: pathlib.Path
) -> types.ModuleType:
  try:
    return importlib.import_module(place)
  except (Exception, SystemExit) as error:
    raise user_code_error(name, path, error) from error


# Functions for the files that determine what a user's function does: its own
# file and, recursively, the files that it imports from its folder or package.
# Finding them runs no code.

# This project's packages are not user code, even if a user's file is next to
# them.
_OWN_PACKAGES = ("binaries", "tasks", "tff_fair")


def digest_of_file(path: pathlib.Path, module: str = "") -> str:
  """Returns a digest of all files in `files_of(path, module)`."""
  found = files_of(path, module)
  content = hashlib.sha256()
  for file in sorted(found):
    name = file.relative_to(_root(path, module))
    one = hashlib.sha256(file.read_bytes()).hexdigest()
    content.update(f"{name}:{one}\n".encode())
  return content.hexdigest()


def files_of(path: pathlib.Path, module: str = "") -> set[pathlib.Path]:
  """Returns a file and the files that it imports, directly or indirectly.

  Only files in the file's folder, or in the package of `module`, are included.
  """
  root = _root(path, module)
  package = module.partition(".")[0]
  found: set[pathlib.Path] = set()
  left = [path]
  while left:
    file = left.pop()
    if file in found:
      continue
    found.add(file)
    status = file.stat()
    for level, name in _imports(file, status.st_mtime_ns, status.st_size):
      # Relative imports with too many dots lead to the top folder.
      folder = (root, *file.parents)[min(level, len(file.parents))]
      if not folder.is_relative_to(root):
        continue  # Python does not find the module, either.
      words = [*folder.relative_to(root).parts, *filter(None, name.split("."))]
      if words[0] == package if module else words[0] not in _OWN_PACKAGES:
        left += _files_of(root, words)
  return found


def _root(path: pathlib.Path, module: str) -> pathlib.Path:
  """Returns the folder in which absolute imports of a file start."""
  levels = module.count(".") + (module != "" and path.stem == "__init__")
  return path.parents[levels]


def _files_of(
  root: pathlib.Path, words: Sequence[str]
) -> Iterator[pathlib.Path]:
  """Yields the files of a module and of its parent packages."""
  for count in range(1, len(words) + 1):
    place = root.joinpath(*words[:count])
    for file in (place / "__init__.py", place.with_suffix(".py")):
      if file.is_file():
        yield file


@functools.lru_cache(maxsize=1024)
def _imports(
  path: pathlib.Path, time: int, size: int
) -> tuple[tuple[int, str], ...]:
  """Returns a file's imports, each as (levels up, name).

  `time` and `size` belong to the cache's key, because the file may change.
  """
  del time, size
  try:
    tree = ast.parse(path.read_bytes())
  except (SyntaxError, ValueError):
    return ()  # The import itself raises the error.
  found: list[tuple[int, str]] = []
  for node in ast.walk(tree):
    match node:
      case ast.Import():
        found += [(0, alias.name) for alias in node.names]
      case ast.ImportFrom():
        # A name imported from a package may be one of its modules.
        found += [
          (node.level, f"{node.module or ''}.{alias.name}")
          for alias in node.names
        ]
  return tuple(found)
