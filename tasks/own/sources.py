"""The files of a user that decide what a function does.

A function's file and, in turn, the files that it imports from beside it: from
its folder, or from its package. The text of the files tells; nothing runs.
"""

import ast
import functools
import hashlib
import pathlib
from collections.abc import Iterator, Sequence

# A user's file may lie beside them.
_OURS = ("binaries", "tasks", "tff_fair")


def digest(path: pathlib.Path, module: str = "") -> str:
  """Returns a digest of a file, and of what it imports beside it.

  Args:
    path: The file.
    module: Its full name where it is imported by that; empty for a script.
  """
  found = files(path, module)
  content = hashlib.sha256()
  for file in sorted(found):
    name = file.relative_to(_root(path, module))
    one = hashlib.sha256(file.read_bytes()).hexdigest()
    content.update(f"{name}:{one}\n".encode())
  return content.hexdigest()


def files(path: pathlib.Path, module: str = "") -> set[pathlib.Path]:
  """Returns a file and those that it imports beside it; see `digest`."""
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
      folder = file.parents[level - 1] if level else root
      if not folder.is_relative_to(root):
        continue  # Python does not find it, either.
      words = [*folder.relative_to(root).parts, *filter(None, name.split("."))]
      if words[0] == package if module else words[0] not in _OURS:
        left += _files_of(root, words)
  return found


def _root(path: pathlib.Path, module: str) -> pathlib.Path:
  """Returns the folder in which absolute names begin."""
  levels = module.count(".") + (module != "" and path.stem == "__init__")
  return path.parents[levels]


def _files_of(
  root: pathlib.Path, words: Sequence[str]
) -> Iterator[pathlib.Path]:
  """Yields the files of a module, and of the packages that it is in."""
  for count in range(1, len(words) + 1):
    place = root.joinpath(*words[:count])
    for file in (place / "__init__.py", place.with_suffix(".py")):
      if file.is_file():
        yield file


@functools.lru_cache(maxsize=1024)
def _imports(
  path: pathlib.Path, time: int, size: int
) -> tuple[tuple[int, str], ...]:
  """Returns what a file imports: how many packages up, and the name.

  Args:
    path: The file.
    time: When it was changed: that decides its content, for the cache.
    size: Its size, for the same purpose.
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
        # What a package gives may be a module of it.
        found += [
          (node.level, f"{node.module or ''}.{alias.name}")
          for alias in node.names
        ]
  return tuple(found)
